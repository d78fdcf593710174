//! Defines jobs, the input of `fastopen-world`: a page, an emulated network, and the page loads to run in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use fastopen_link::ip::Versions;
use fastopen_link::path::Behaviour;
pub use fastopen_link::path::Way;
use fastopen_link::{Aqm, DirectionConfig, Jitter, Nanos, Rate, Trace};
use fastopen_page::{Limits, Origin, Page, PageUrl, Policy, Schemes};
use fastopen_replay::HttpVersion;
use fastopen_replay::names::Conduct;
pub use fastopen_replay::names::NameLookup;
use fastopen_replay::quic;
use fastopen_replay::tls::{Security, Settings};
use serde::{Deserialize, Serialize};

use crate::client::ClientSettings;
use crate::transactions::TransactionsPlan;
use crate::validate::{number, object};

/// A job: an emulated network with its hosts (a world), and the page loads to run in this network.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    pub contract: u32,
    pub id: String,
    pub seed: u64,
    pub page: Page,
    pub network: Network,
    #[serde(default, deserialize_with = "object")]
    pub tcp: Tcp,
    #[serde(default, deserialize_with = "object")]
    pub client: ClientSettings,
    #[serde(default, deserialize_with = "object")]
    pub origins: OriginSettings,
    #[serde(default, deserialize_with = "object")]
    pub tls: Settings,
    pub loads: Vec<LoadPlan>,
    #[serde(default, deserialize_with = "object")]
    pub tolerance: Tolerance,
    #[serde(default = "number::<120_000_000, _>")]
    pub load_timeout_us: u64,
    #[serde(default)]
    pub start_phase_us: u64,
    #[serde(default)]
    pub shuffle_equal_requests: bool,
    #[serde(default)]
    pub packets: bool,
    #[serde(default)]
    pub tcp_trace: bool,
    #[serde(default)]
    pub fault: Option<u32>,
}

/// The emulated access link, and the network behind it: extra delays, a middlebox and the DNS resolver.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub rtt_us: u64,
    pub down: LinkDirection,
    pub up: LinkDirection,
    #[serde(default)]
    pub host_extra_rtt_us: BTreeMap<String, u64>,
    #[serde(default)]
    pub ip: Versions,
    #[serde(default = "number::<1500, _>")]
    pub mtu_bytes: u32,
    #[serde(default)]
    pub link: LinkMaker,
    #[serde(default)]
    #[expect(clippy::zero_sized_map_values, reason = "the contract's form, for further kinds of traffic")]
    pub cross: Option<BTreeMap<Way, CrossTraffic>>,
    #[serde(default)]
    pub path: Behaviour,
    #[serde(default)]
    pub path_hosts: Option<BTreeSet<String>>,
    #[serde(default = "number::<1, _>")]
    pub path_share: f64,
    #[serde(default)]
    pub names: NameLookup,
    #[serde(default)]
    pub resolver_rtt_us: Option<u64>,
    #[serde(default)]
    pub resolver: Conduct,
}

/// The time for which the page loader waits for the answer to a DNS query, as glibc does (resolv.conf(5)).
pub const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Background traffic that shares the link with a page load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CrossTraffic {
    /// A TCP flow that always has data to send.
    Bulk,
}

/// The requested implementation of the emulated link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkMaker {
    /// In real time, [`Self::Program`]. In virtual time, [`Self::Kernel`] if it delays every packet exactly
    /// as [`Self::Program`] does, otherwise [`Self::Program`].
    #[default]
    Auto,
    /// The program `fastopen-world` forwards each packet according to its link model.
    Program,
    /// The kernel's queueing disciplines `netem` and `tbf` delay and drop packets.
    Kernel,
}

impl Network {
    /// Returns the RTT between the client and a host without queueing delays, in microseconds.
    pub fn rtt_us_to(&self, host: &str) -> u64 {
        self.rtt_us + self.host_extra_rtt_us.get(host).copied().unwrap_or(0)
    }

    /// Returns true if the kernel's link emulation (`netem`, `tbf`) delays each packet exactly as the crate
    /// `fastopen_link` does. Returns false for a varying rate, an AQM, jitter, or hosts with different RTTs.
    pub fn kernel_matches_model(&self) -> bool {
        // netem reorders packets with jitter. If it has a rate too, it removes the jitter of waiting packets.
        let is_plain =
            |one: &LinkDirection| one.trace_ms.is_none() && one.jitter.is_none() && one.aqm == Aqm::None;
        is_plain(&self.down)
            && is_plain(&self.up)
            && self.resolver_rtt_us.is_none_or(|rtt_us| rtt_us == self.rtt_us)
            && self.host_extra_rtt_us.values().all(|extra_us| *extra_us == 0)
    }

    /// Returns true if the delays of packets vary in either direction (jitter).
    pub fn varies(&self) -> bool {
        self.down.jitter.is_some() || self.up.jitter.is_some()
    }
}

/// One direction of the access link.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkDirection {
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate_bit_per_s: Option<u64>,
    #[serde(default)]
    pub trace_ms: Option<Vec<u64>>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub queue_bytes: Option<u64>,
    #[serde(default)]
    pub aqm: Aqm,
    #[serde(default)]
    pub loss: f64,
    #[serde(default)]
    pub jitter: Option<Jitter>,
    #[serde(default)]
    pub reorder: bool,
}

impl LinkDirection {
    /// Returns an upper bound on a packet's queueing delay in microseconds; `None` if no bound is known.
    /// `seen` is the longest observed queue in bytes; `None` stands for a full queue (`queue_bytes`).
    pub fn longest_queue_us(&self, seen: Option<u64>) -> Option<u64> {
        match (self.rate_bit_per_s, &self.trace_ms) {
            (None, None) => Some(0),
            (Some(rate), _) => Some(seen.or(self.queue_bytes)? * 8_000_000 / rate),
            (None, Some(_)) => (seen == Some(0)).then_some(0),
        }
    }

    /// Converts the settings to those of the link emulator `fastopen_link`. `delay` is the one-way delay, and
    /// `seed` seeds all randomness. Errors begin with the direction (`way`) and wrong key, as in `down.loss`.
    pub fn model(&self, way: &str, delay: Nanos, seed: u64) -> Result<DirectionConfig, String> {
        let wrong = |key: &str, error: &dyn std::fmt::Display| format!("{way}.{key}: {error}");
        let rate = match (self.rate_bit_per_s, &self.trace_ms) {
            (Some(_), Some(_)) => return Err(wrong("trace_ms", &"needs a rate_bit_per_s of null")),
            (Some(rate), None) if !(Rate::MIN_BIT_PER_S..=Rate::MAX_BIT_PER_S).contains(&rate) => {
                return Err(wrong("rate_bit_per_s", &"not within 64 kbit/s and 1 Gbit/s"));
            }
            (Some(rate), None) => Rate::BitPerS(rate),
            (None, Some(trace)) => {
                Rate::Trace(Trace::from_millis(trace).map_err(|error| wrong("trace_ms", &error))?)
            }
            (None, None) => Rate::Unlimited,
        };
        if !(0.0..=DirectionConfig::MAX_LOSS).contains(&self.loss) {
            return Err(wrong("loss", &format_args!("not within 0 and {}", DirectionConfig::MAX_LOSS)));
        }
        if self.jitter.is_some_and(|jitter| !(1..=Jitter::MAX).contains(&jitter.size())) {
            return Err(wrong("jitter", &"not within 1 us and a minute"));
        }
        Ok(DirectionConfig {
            delay,
            rate,
            queue_limit_bytes: self.queue_bytes,
            aqm: self.aqm,
            loss: self.loss,
            jitter: self.jitter,
            reorder: self.reorder,
            seed,
        })
    }
}

/// The TCP settings of the client and the origin servers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    pub congestion_control: String,
    pub initial_window_segments: u32,
    pub slow_start_after_idle: bool,
    pub blackhole_timeout_s: u32,
    pub client_fastopen: ClientFastOpen,
    pub listener_fastopen: ListenerFastOpen,
}

/// The client's `net.ipv4.tcp_fastopen` in page loads with Fast Open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum ClientFastOpen {
    /// `TFO_CLIENT_ENABLE`: the client sends data in a SYN only if it has a cookie.
    #[default]
    #[serde(rename = "0x1")]
    WithCookie = 0x1,
    /// `TFO_CLIENT_ENABLE` and `TFO_CLIENT_NO_COOKIE`: a connection's first SYN has data, but no cookie.
    #[serde(rename = "0x5")]
    WithoutCookie = 0x5,
}

/// The origin servers' `net.ipv4.tcp_fastopen` in page loads with Fast Open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum ListenerFastOpen {
    /// Linux's default: servers do not use TFO.
    #[serde(rename = "0x1")]
    Off = 0x1,
    /// `TFO_SERVER_ENABLE`: listeners with a Fast Open queue accept SYN data with a valid cookie.
    #[default]
    #[serde(rename = "0x2")]
    On = 0x2,
    /// `TFO_SERVER_ENABLE` and `TFO_SERVER_COOKIE_NOT_REQD`: data is accepted with any cookie or none.
    #[serde(rename = "0x202")]
    CookieNotRequired = 0x202,
    /// `TFO_SERVER_ENABLE` and `TFO_SERVER_WO_SOCKOPT1`: every listener has a Fast Open queue. Its length is
    /// the length of the backlog, unless the listener sets another length.
    #[serde(rename = "0x402")]
    EveryListener = 0x402,
    /// `TFO_SERVER_ENABLE` with both options: `TFO_SERVER_COOKIE_NOT_REQD` and `TFO_SERVER_WO_SOCKOPT1`.
    #[serde(rename = "0x602")]
    EveryListenerCookieNotRequired = 0x602,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            congestion_control: "cubic".into(),
            initial_window_segments: 10,
            slow_start_after_idle: true,
            blackhole_timeout_s: 0,
            client_fastopen: ClientFastOpen::default(),
            listener_fastopen: ListenerFastOpen::default(),
        }
    }
}

impl Job {
    /// Returns true if a load of the job sends single requests (transactions) instead of loading the page.
    pub fn has_transactions(&self) -> bool {
        self.loads.iter().any(|load| load.transactions.is_some())
    }

    /// Returns the longest time in microseconds that is tolerated between a packet's due time and its release
    /// by the link. The default is a tenth of the RTT, but at least 5 ms.
    pub fn late_us(&self) -> u64 {
        self.tolerance.late_us.unwrap_or_else(|| (self.network.rtt_us / 10).max(5000))
    }

    /// Returns true if the job's loads run a client or server that is not part of fastopen.
    pub fn is_foreign(&self) -> bool {
        self.client.kind.capabilities().is_foreign || self.origins.server.is_some()
    }

    /// Returns the QUIC settings; `None` without HTTP/3, or if `congestion_control` is not cubic or reno.
    pub fn quic(&self) -> Option<quic::Settings> {
        self.page.origins().iter().any(|origin| self.origins.http_of(&origin.host).is_quic()).then_some(())?;
        let tcp = &self.tcp;
        Some(quic::Settings {
            control: quic::congestion_control(&tcp.congestion_control, tcp.initial_window_segments)?,
            address_tokens: self.tls.address_tokens,
            retry: self.tls.retry,
        })
    }

    /// Returns the schemes of the page's URLs in a page load. `encrypted` is true if the page load uses TLS.
    pub fn schemes(&self, encrypted: bool) -> Schemes {
        match self.tls.security {
            _ if !encrypted => Schemes::Http,
            Security::Tls => Schemes::Https,
            Security::Recorded => Schemes::Recorded,
        }
    }

    /// Returns the order of requests and the limits of connections for the built-in page loader. If
    /// connections are persistent, the loader opens only one to each HTTP/2 or HTTP/3 server, as browsers do.
    pub fn policy(&self) -> Policy {
        let order_seed = self.shuffle_equal_requests.then_some(self.seed);
        let schemes = self.schemes(self.loads.iter().any(|load| load.transport.is_encrypted()));
        let urls = || self.page.resources.iter().map(|resource| &resource.url);
        let over_quic = |url: &PageUrl| {
            let quic = self.origins.http_at(url, schemes).is_quic();
            Some((Origin::of(url), self.client.h3_fallback_us.filter(|_| quic)? * 1000))
        };
        let fallback_after = urls().filter_map(over_quic).collect();
        let lookups = self.network.names != NameLookup::None;
        let policy = Policy { order_seed, fallback_after, lookups, ..self.client.policy() };
        if !policy.keep_alive {
            return policy;
        }
        let limits = |url: &PageUrl| {
            let streams = self.origins.http_at(url, schemes).max_streams()?;
            Some((Origin::of(url), Limits { connections: 1, streams }))
        };
        let multiplexed = urls().filter_map(limits).collect();
        Policy { multiplexed, ..policy }
    }
}

/// The settings of the origin servers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct OriginSettings {
    pub http: HttpVersion,
    pub http2_hosts: BTreeSet<String>,
    pub http3_hosts: BTreeSet<String>,
    pub keep_alive: bool,
    pub single_threaded: bool,
    pub think_scale: f64,
    pub one_address: bool,
    pub tfo_queue: u16,
    pub server: Option<Vec<String>>,
    pub server_hosts: Option<BTreeSet<String>>,
    pub server_listen: bool,
    pub upstream_tfo: bool,
    pub upstream_rtt_us: u64,
    pub bodies_file: Option<PathBuf>,
    pub bodies: Bodies,
}

impl OriginSettings {
    /// Returns the HTTP version that a host uses over TLS: `http3_hosts` and `http2_hosts` override `http`.
    pub fn http_of(&self, host: &str) -> HttpVersion {
        match host {
            _ if self.http3_hosts.contains(host) => HttpVersion::Http3,
            _ if self.http2_hosts.contains(host) => HttpVersion::Http2,
            _ => self.http,
        }
    }

    /// Returns the version of HTTP for a URL. If a load has URLs of both schemes, a host's version applies
    /// only over TLS: its cleartext servers use HTTP/1.1, or HTTP/1.0 if this is the host's version.
    pub fn http_at(&self, url: &PageUrl, schemes: Schemes) -> HttpVersion {
        match self.http_of(url.host()) {
            version if schemes != Schemes::Recorded || url.is_encrypted(schemes) => version,
            HttpVersion::Http10 => HttpVersion::Http10,
            _ => HttpVersion::Http11,
        }
    }

    /// Returns true if clients of `host` connect to an external server, such as nginx, not to the origins.
    pub fn is_served(&self, host: &str) -> bool {
        self.server.is_some() && self.server_hosts.as_ref().is_none_or(|hosts| hosts.contains(host))
    }
}

/// The content of response bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bodies {
    /// The recorded body of each resource, or a body of dots of the same size if no body was recorded.
    #[default]
    Filler,
    /// Synthetic HTML, CSS and scripts of the recorded sizes, which make a browser request all resources.
    Synthetic,
    /// Recorded responses with headers. A URL with an unrecorded query gets the most similar URL's response.
    Recorded,
}

impl Default for OriginSettings {
    fn default() -> Self {
        Self {
            http: HttpVersion::Http11,
            http2_hosts: BTreeSet::new(),
            http3_hosts: BTreeSet::new(),
            keep_alive: true,
            single_threaded: false,
            think_scale: 1.0,
            tfo_queue: 4096,
            one_address: false,
            server: None,
            server_hosts: None,
            server_listen: false,
            upstream_tfo: false,
            upstream_rtt_us: 0,
            bodies_file: None,
            bodies: Bodies::Filler,
        }
    }
}

/// The use of TCP Fast Open and TLS in a page load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Tcp,
    Tfo,
    Tls,
    #[serde(rename = "tls+tfo")]
    TlsTfo,
}

impl Transport {
    /// Returns true if the transport uses TCP Fast Open.
    pub fn is_fast_open(self) -> bool {
        matches!(self, Self::Tfo | Self::TlsTfo)
    }

    /// Returns true if the load uses TLS, and false if all origins use cleartext.
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::TlsTfo)
    }
}

/// The TFO cookies that the client has when a page load begins: none (cold), or those of all hosts (warm).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cookies {
    Cold,
    Warm,
}

/// One load to run: a page load, or transactions with a server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPlan {
    pub id: String,
    pub transport: Transport,
    #[serde(default)]
    pub cookies: Option<Cookies>,
    #[serde(default)]
    pub transactions: Option<TransactionsPlan>,
}

/// The tolerated differences between the emulated network and its settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tolerance {
    pub rtt_us: u64,
    pub rate_fraction: f64,
    pub late_us: Option<u64>,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { rtt_us: 1000, rate_fraction: 0.02, late_us: None }
    }
}
