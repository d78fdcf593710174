//! The clients of jobs: their kinds, the traits of each kind, and the settings of a client.

use std::num::NonZeroU8;

use fastopen_page::{Phase, Policy, Profile};
use fastopen_replay::tls::TICKETS_KEPT;
use serde::Deserialize;

/// A kind of client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// The built-in loader.
    #[default]
    Loader,
    /// Any command.
    Command,
    /// Unmodified Chromium.
    Chromium,
}

/// The traits of a kind of client by which worlds are built. Python has the rules of what a client can do.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub struct Capabilities {
    /// True for a program that is not part of fastopen.
    pub is_foreign: bool,
    /// True if it runs scripts of its driver before those of the page.
    pub runs_scripts: bool,
    /// The number of session tickets of a host that an earlier visit leaves it, if origins send as many.
    pub tickets_left: u8,
    /// True if it contacts hosts of the HSTS preload list only by https, and therefore needs alias hosts.
    pub hsts_preloaded: bool,
    /// True if it looks for HTTP/3 in `Alt-Svc`.
    pub reads_alt_svc: bool,
    /// True if it polls the clock until the clock has advanced, so that reading it must take virtual time.
    pub polls_clock: bool,
    /// Memory that it needs in addition to the world's, in bytes.
    pub memory_bytes: u64,
    /// The longest real time between two records of a job in virtual time, in seconds: its start, or a load.
    pub silence_s: u64,
}

impl ClientKind {
    /// Returns the traits of this kind.
    pub const fn capabilities(self) -> Capabilities {
        let loader = Capabilities {
            is_foreign: false,
            runs_scripts: false,
            tickets_left: TICKETS_KEPT as u8,
            hsts_preloaded: false,
            reads_alt_svc: false,
            polls_clock: false,
            memory_bytes: 0,
            silence_s: 120,
        };
        match self {
            Self::Loader => loader,
            // A command has at least one connection.
            Self::Command => Capabilities { is_foreign: true, tickets_left: 1, ..loader },
            Self::Chromium => Capabilities {
                is_foreign: true,
                runs_scripts: true,
                // It keeps two. A connection of the visit without a request may have used one.
                tickets_left: 1,
                hsts_preloaded: true,
                reads_alt_svc: true,
                polls_clock: true,
                memory_bytes: 3 << 30,
                // Its start takes most of a minute on an idle machine.
                silence_s: 600,
            },
        }
    }
}

/// The view of the page that a load measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// The first view, with an empty cache.
    #[default]
    First,
    /// The second view, right after the first, with its cache.
    Repeat,
}

/// The header sizes of the requests of a client that has headers of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestHeads {
    /// The client's own.
    #[default]
    Own,
    /// The page's.
    Recorded,
}

/// The client of a job. None is the profile's value.
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
    /// Returns the scheduler's policy with HTTP/1.
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
            phases: self.phases.clone().unwrap_or_else(|| own.phases.clone()),
            ..own
        }
    }
}
