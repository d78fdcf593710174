//! What is asked for: a job, as it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use fastopen_link::{DirectionConfig, Loss, Nanos, Rate, Trace};
use fastopen_page::{Limits, Page, Phase, Policy, Profile};
use fastopen_replay::tls;
use serde::{Deserialize, Serialize};

use super::reading::object;
pub use fastopen_replay::HttpVersion;

/// One world and the loads in it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct Job {
    pub contract: u32,
    pub id: String,
    pub seed: u64,
    pub page: Page,
    pub network: Network,
    #[serde(default, deserialize_with = "object")]
    pub tcp: Tcp,
    #[serde(default, deserialize_with = "object")]
    pub client: Client,
    #[serde(default, deserialize_with = "object")]
    pub origins: OriginSettings,
    #[serde(default, deserialize_with = "object")]
    pub tls: Tls,
    pub loads: Vec<LoadPlan>,
    #[serde(default, deserialize_with = "object")]
    pub tolerance: Tolerance,
    #[serde(default = "default_load_timeout_us")]
    pub load_timeout_us: u64,
}

fn default_load_timeout_us() -> u64 {
    120_000_000
}

/// The access link and what lies behind it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct Network {
    pub rtt_us: u64,
    pub down: LinkDirection,
    pub up: LinkDirection,
    #[serde(default)]
    pub host_extra_rtt_us: BTreeMap<String, u64>,
    #[serde(default = "default_mtu")]
    pub mtu_bytes: u32,
    #[serde(default)]
    pub link: LinkMaker,
}

/// Who makes the link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkMaker {
    /// The engine's own: this program on `host`; on `virtual` the kernel where it can, else this program.
    #[default]
    Auto,
    /// This program moves each packet, as the link model says.
    Program,
    /// The kernel's `netem` and `tbf`.
    Kernel,
}

fn default_mtu() -> u32 {
    1500
}

/// One direction of the access link.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct LinkDirection {
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate_bit_per_s: Option<u64>,
    #[serde(default)]
    pub trace_ms: Option<Vec<u64>>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub queue_bytes: Option<u64>,
    #[serde(default)]
    pub loss: f64,
}

impl LinkDirection {
    /// What the link model is to be; `way` is its key in `network`.
    ///
    /// # Errors
    /// What cannot be, with its place in `network`.
    pub fn model(&self, way: &str, delay: Nanos, seed: u64) -> Result<DirectionConfig, String> {
        let wrong = |key: &str, error: &dyn std::fmt::Display| format!("{way}.{key}: {error}");
        let rate = match (self.rate_bit_per_s, &self.trace_ms) {
            (Some(_), Some(_)) => return Err(wrong("trace_ms", &"goes with a rate_bit_per_s of null")),
            (Some(rate), None) if !(Rate::MIN_BIT_PER_S..=Rate::MAX_BIT_PER_S).contains(&rate) => {
                return Err(wrong("rate_bit_per_s", &"not within 64 kbit/s and 1 Gbit/s"));
            }
            (Some(rate), None) => Rate::BitPerS(rate),
            (None, Some(trace)) => {
                Rate::Trace(Trace::from_millis(trace).map_err(|error| wrong("trace_ms", &error))?)
            }
            (None, None) => Rate::Unlimited,
        };
        let loss = Loss::new(self.loss).map_err(|error| wrong("loss", &error))?;
        Ok(DirectionConfig { delay, rate, queue_limit_bytes: self.queue_bytes, loss, seed })
    }
}

/// TCP at both ends.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct Tcp {
    pub congestion_control: String,
    pub initial_window_segments: u32,
}

impl Default for Tcp {
    fn default() -> Self {
        Self { congestion_control: "cubic".into(), initial_window_segments: 10 }
    }
}

/// Which client there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// The built-in loader.
    Loader,
    /// Any command.
    Command,
    /// The browser.
    Chromium,
}

/// What a client can do and what it needs; rules ask for this, and never for the client.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each answers one question of a rule")]
pub struct Capabilities {
    /// It caches answers, and has them in its next view (RFC 9111).
    pub cache: bool,
    /// It can be asked for a picture of what it shows.
    pub screenshots: bool,
    /// It speaks HTTP/2 without TLS (RFC 9113 section 3.3).
    pub http2_in_the_clear: bool,
    /// It asks some hosts by https alone, whatever a page says (HSTS preloading), unless they have alias hosts.
    pub hsts_preloaded: bool,
    /// It reads the clock again and again until that has moved, so in virtual time reading it must take some.
    pub polls_clock: bool,
    /// Memory that it needs beside the world, in a kernel of its own.
    pub memory_bytes: u64,
    /// How long (in real time) nothing may be heard of it in virtual time: its start, or a load.
    pub silence_s: u64,
}

impl ClientKind {
    /// What this client can do.
    pub const fn capabilities(self) -> Capabilities {
        match self {
            Self::Loader | Self::Command => Capabilities {
                cache: false,
                screenshots: false,
                http2_in_the_clear: true,
                hsts_preloaded: false,
                polls_clock: false,
                memory_bytes: 0,
                silence_s: 120,
            },
            Self::Chromium => Capabilities {
                cache: true,
                screenshots: true,
                http2_in_the_clear: false,
                hsts_preloaded: true,
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
        to.write_str(match self {
            Self::Loader => "loader",
            Self::Command => "command",
            Self::Chromium => "chromium",
        })
    }
}

/// Which of a person's visits is loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// The first: nothing of the page is there.
    #[default]
    First,
    /// The second, right after the first: what the first brought and was allowed to be kept is there.
    Repeat,
}

/// What loads the page; left out are the profile's own values.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct Client {
    pub kind: ClientKind,
    pub name: Option<String>,
    pub command: Option<Vec<String>>,
    pub profile: Profile,
    pub connections_per_host: Option<usize>,
    pub connections_total: Option<usize>,
    pub keep_alive: Option<bool>,
    pub processing_scale: Option<f64>,
    pub phases: Option<Vec<Phase>>,
    pub screenshot: bool,
    pub view: View,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            kind: ClientKind::Loader,
            name: None,
            command: None,
            profile: Profile::Browser,
            connections_per_host: None,
            connections_total: None,
            keep_alive: None,
            processing_scale: None,
            phases: None,
            screenshot: false,
            view: View::First,
        }
    }
}

impl Job {
    /// The scheduler's policy. A client with persistent connections opens one to a host that multiplexes, as browsers do.
    pub fn policy(&self) -> Policy {
        let policy = self.client.policy();
        if !policy.keep_alive {
            return policy;
        }
        let limits = |host: String| {
            let streams = self.origins.http_of(&host).max_streams()?;
            Some((host, Limits { connections: 1, streams }))
        };
        let host_limits = self.page.origins().into_iter().filter_map(|origin| limits(origin.host)).collect();
        Policy { host_limits, ..policy }
    }
}

impl Client {
    /// The scheduler's policy with HTTP/1.
    fn policy(&self) -> Policy {
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

/// How the origins serve.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct OriginSettings {
    pub http: HttpVersion,
    pub http2_hosts: BTreeSet<String>,
    pub keep_alive: bool,
    pub think_scale: f64,
    pub tfo_queue: u16,
    pub bodies_file: Option<PathBuf>,
    pub bodies: Bodies,
}

impl OriginSettings {
    /// The version that a host speaks.
    pub fn http_of(&self, host: &str) -> HttpVersion {
        if self.http2_hosts.contains(host) { HttpVersion::Http2 } else { self.http }
    }

    /// Whether any host speaks HTTP/2.
    pub fn speak_http2(&self) -> bool {
        self.http.is_multiplexed() || !self.http2_hosts.is_empty()
    }
}

/// What bodies hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bodies {
    /// Recorded bytes where there are some, else dots.
    #[default]
    Filler,
    /// Made from the page's facts: HTML, CSS and scripts of the page's sizes that have a browser ask for exactly its resources.
    Synthetic,
}

impl Default for OriginSettings {
    fn default() -> Self {
        Self {
            http: HttpVersion::Http11,
            http2_hosts: BTreeSet::new(),
            keep_alive: true,
            think_scale: 1.0,
            tfo_queue: 4096,
            bodies_file: None,
            bodies: Bodies::Filler,
        }
    }
}

/// How TLS is spoken where a load's transport has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct Tls {
    pub version: TlsVersion,
    pub key_share: KeyShare,
    pub resumption: bool,
    pub chain_bytes: u16,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            version: TlsVersion::Tls13,
            key_share: KeyShare::X25519MlKem768,
            resumption: true,
            chain_bytes: 3500,
        }
    }
}

impl Tls {
    /// As the origins and the loader take it.
    pub fn settings(&self) -> tls::Settings {
        tls::Settings {
            version: match self.version {
                TlsVersion::Tls12 => tls::Version::Tls12,
                TlsVersion::Tls13 => tls::Version::Tls13,
            },
            key_share: match self.key_share {
                KeyShare::X25519MlKem768 => tls::KeyShare::X25519MlKem768,
                KeyShare::X25519 => tls::KeyShare::X25519,
            },
            resumption: self.resumption,
            chain_bytes: self.chain_bytes.into(),
        }
    }
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TlsVersion {
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

/// What the loader's first message holds keys for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum KeyShare {
    X25519MlKem768,
    X25519,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Transport {
    Tcp,
    Tfo,
    Tls,
    #[serde(rename = "tls+tfo")]
    TlsTfo,
}

impl Transport {
    /// Whether TCP Fast Open is on.
    pub fn is_fast_open(self) -> bool {
        matches!(self, Self::Tfo | Self::TlsTfo)
    }

    /// Whether every origin speaks TLS on its port; else all speak in the clear.
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::TlsTfo)
    }
}

/// Whether the client has been at the origins before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Cookies {
    Cold,
    Warm,
}

/// One load that is asked for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct LoadPlan {
    pub id: String,
    pub transport: Transport,
    #[serde(default)]
    pub cookies: Option<Cookies>,
}

/// How far a world may be off.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct Tolerance {
    pub rtt_us: u64,
    pub rate_fraction: f64,
    pub late_us: Option<u64>,
}

impl Tolerance {
    /// How late the link may release a packet at this RTT: where not given, a tenth of it, and 5 ms at least.
    pub fn late_us_at(&self, rtt_us: u64) -> u64 {
        self.late_us.unwrap_or_else(|| (rtt_us / 10).max(5000))
    }
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { rtt_us: 1000, rate_fraction: 0.02, late_us: None }
    }
}
