//! The clients of jobs: their kinds, what each kind can do, and the settings of one.

use std::fmt;
use std::num::NonZeroU8;

use fastopen_page::{Phase, Policy, Profile};
use fastopen_replay::HttpVersion;
use fastopen_replay::tls::{SessionStart, TICKETS_KEPT};
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

/// What a kind of client can do and needs. All rules ask for these, and none for a kind.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each answers one question of a rule")]
pub struct Capabilities {
    /// The kind in a job.
    pub name: &'static str,
    /// Whether the settings name a command to run.
    pub runs_command: bool,
    /// Whether it is run against servers of others: it sees its requests itself, and nothing of it has to be
    /// told from a server's processes.
    pub meets_servers: bool,
    /// Whether it is a program of others.
    pub is_foreign: bool,
    /// Whether it has a cache for a repeat view (RFC 9111).
    pub cache: bool,
    /// Whether it runs scripts: those of the page, and before them those of its driver.
    pub runs_scripts: bool,
    /// Whether it takes screenshots.
    pub screenshots: bool,
    /// Whether it can be told when to fall back from HTTP/3 to TCP.
    pub falls_back: bool,
    /// Whether its requests can have the page's header sizes in place of its own.
    pub recorded_heads: bool,
    /// Whether it follows references in bodies, and so can load recorded ones.
    pub reads_bodies: bool,
    /// The versions of HTTP that it speaks, over TLS at least.
    pub versions: &'static [HttpVersion],
    /// The versions of HTTP that it speaks without TLS.
    pub clear_versions: &'static [HttpVersion],
    /// Whether it can ask a resolver over TLS or HTTPS: those of the system ask in the clear.
    pub encrypts_lookups: bool,
    /// How its TLS connections can begin.
    pub sessions: &'static [SessionStart],
    /// How many session tickets of a host an earlier visit leaves it, if origins send as many.
    pub tickets_left: u8,
    /// Whether it contacts the hosts of the HSTS preload list by https alone, and so needs alias hosts.
    pub hsts_preloaded: bool,
    /// Whether it looks for HTTP/3 in `Alt-Svc`.
    pub reads_alt_svc: bool,
    /// Whether it polls the clock until the clock has advanced, so that reading it must take virtual time.
    pub polls_clock: bool,
    /// Memory that it needs in addition to the world's, in bytes.
    pub memory_bytes: u64,
    /// The longest real time between two records of a job in virtual time, in seconds: its start, or a load.
    pub silence_s: u64,
}

/// The versions of HTTP over TCP.
const OVER_TCP: &[HttpVersion] = &[HttpVersion::Http10, HttpVersion::Http11, HttpVersion::Http2];

const EVERY_SESSION: &[SessionStart] = &[SessionStart::None, SessionStart::Resumed, SessionStart::Early];

/// The capabilities of the loader; others differ from it.
const LOADER: Capabilities = Capabilities {
    name: "loader",
    runs_command: false,
    meets_servers: true,
    is_foreign: false,
    cache: false,
    runs_scripts: false,
    screenshots: false,
    falls_back: true,
    recorded_heads: false,
    reads_bodies: false,
    versions: &[HttpVersion::Http10, HttpVersion::Http11, HttpVersion::Http2, HttpVersion::Http3],
    clear_versions: OVER_TCP,
    encrypts_lookups: true,
    sessions: EVERY_SESSION,
    tickets_left: TICKETS_KEPT as u8,
    hsts_preloaded: false,
    reads_alt_svc: false,
    polls_clock: false,
    memory_bytes: 0,
    silence_s: 120,
};

impl ClientKind {
    /// The capabilities of this kind.
    pub const fn capabilities(self) -> Capabilities {
        match self {
            Self::Loader => LOADER,
            Self::Command => Capabilities {
                name: "command",
                runs_command: true,
                meets_servers: false,
                is_foreign: true,
                falls_back: false,
                reads_bodies: true,
                encrypts_lookups: false,
                // Of the one connection that any client has.
                tickets_left: 1,
                ..LOADER
            },
            Self::Chromium => Capabilities {
                name: "chromium",
                runs_command: false,
                meets_servers: false,
                is_foreign: true,
                cache: true,
                runs_scripts: true,
                screenshots: true,
                falls_back: false,
                recorded_heads: true,
                reads_bodies: true,
                versions: &[HttpVersion::Http11, HttpVersion::Http2, HttpVersion::Http3],
                clear_versions: &[HttpVersion::Http11],
                encrypts_lookups: false,
                sessions: EVERY_SESSION,
                // It keeps two, of which a connection of the visit without a request may have taken one.
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

impl fmt::Display for ClientKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.capabilities().name)
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

/// Whose header sizes the requests of a client with headers of its own have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestHeads {
    /// The client's own.
    #[default]
    Own,
    /// The page's.
    Recorded,
}

/// The client of a job; none stands for the profile's own value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
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
    /// The scheduler's policy with HTTP/1.
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
