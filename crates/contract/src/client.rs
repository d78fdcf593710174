//! Defines the clients that load pages: their kinds, the properties of a kind, and the settings of a client.

use std::num::NonZeroU8;

use fastopen_page::{Phase, Policy, Profile};
use fastopen_replay::tls::TICKETS_KEPT;
use serde::Deserialize;

/// The kind of program that loads the page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// The page loader that is part of fastopen.
    #[default]
    Loader,
    /// A program of the user, started with a command line.
    Command,
    /// Unmodified Chromium.
    Chromium,
}

/// The properties of a kind of client that decide how the emulated network and its servers are set up.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub struct Capabilities {
    /// True if the client is a program that is not part of fastopen.
    pub is_foreign: bool,
    /// True if the client's driver can inject scripts that run before the scripts of the page.
    pub runs_scripts: bool,
    /// Minimum number of session tickets per host that the client has after a visit, if the host sent enough.
    pub tickets_left: u8,
    /// True if the client forces https for hosts on a built-in list. Generated HTML then uses made-up hosts.
    pub hsts_preloaded: bool,
    /// True if the client learns from `Alt-Svc` that a host supports HTTP/3.
    pub reads_alt_svc: bool,
    /// True if the client polls the clock in loops that never end unless each reading advances virtual time.
    pub polls_clock: bool,
    /// Memory that the virtual machine needs for the client, in addition to its usual memory, in bytes.
    pub memory_bytes: u64,
    /// Maximum real time in seconds for which a virtual machine with this client may write nothing, before it
    /// is killed. Jobs with transactions get more time.
    pub silence_s: u64,
}

impl ClientKind {
    /// Returns the properties of clients of this kind.
    pub fn capabilities(self) -> Capabilities {
        let loader =
            Capabilities { tickets_left: TICKETS_KEPT as u8, silence_s: 120, ..Capabilities::default() };
        match self {
            Self::Loader => loader,
            // A command opens at least one connection, which leaves one ticket.
            Self::Command => Capabilities { is_foreign: true, tickets_left: 1, ..loader },
            Self::Chromium => Capabilities {
                is_foreign: true,
                runs_scripts: true,
                // Chromium keeps two tickets. A connection without a request may have used one of them.
                tickets_left: 1,
                hsts_preloaded: true,
                reads_alt_svc: true,
                polls_clock: true,
                memory_bytes: 3 << 30,
                // Chromium's start takes most of a minute even on an idle machine.
                silence_s: 600,
            },
        }
    }
}

/// The page view that a load measures: the first view, or a repeat view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// The first view, with an empty cache.
    #[default]
    First,
    /// The second view, right after the first, with the cache that the first view filled.
    Repeat,
}

/// The choice of request header sizes in Chromium: the browser's own sizes, or those that the page lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestHeads {
    /// The sizes of the client's own headers.
    #[default]
    Own,
    /// The sizes that the page lists (`request_header_bytes`).
    Recorded,
}

/// The settings of the client that loads the page. For a setting that is also a field of [`Policy`], such as
/// `connections_per_host`, `None` selects the value in the policy of `profile`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct ClientSettings {
    pub kind: ClientKind,
    pub name: Option<String>,
    pub command: Option<Vec<String>>,
    pub isolate: bool,
    pub exit_codes: Vec<NonZeroU8>,
    pub profile: Profile,
    pub connections_per_host: Option<usize>,
    pub connections_total: Option<usize>,
    pub keep_alive: Option<bool>,
    pub processing_scale: Option<f64>,
    pub phases: Option<Vec<Phase>>,
    pub fixed_scripts: bool,
    pub screenshot: bool,
    pub filmstrip: bool,
    pub view: View,
    pub request_heads: RequestHeads,
    pub h3_fallback_us: Option<u64>,
}

impl ClientSettings {
    pub(super) fn policy(&self) -> Policy {
        let own = match self.profile {
            Profile::Browser => Policy::browser(),
            Profile::Mget => Policy::mget(),
        };
        Policy {
            connections_per_host: self.connections_per_host.unwrap_or(own.connections_per_host),
            connections_total: self.connections_total.unwrap_or(own.connections_total),
            keep_alive: self.keep_alive.unwrap_or(own.keep_alive),
            processing_scale: self.processing_scale.unwrap_or(own.processing_scale),
            phases: self.phases.clone().unwrap_or(own.phases),
            ..own
        }
    }
}
