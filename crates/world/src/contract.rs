//! The job contract as `docs/contract.md` has it: what is read, and what is written.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use fastopen_link::{DirectionConfig, Loss, Nanos, Rate, Trace};
use fastopen_page::{Page, Phase, Policy, Profile, Scheduler, Shortcomings};
use fastopen_replay::tls;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version spoken here.
pub const VERSION: u32 = 1;

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
    #[serde(default)]
    pub tcp: Tcp,
    #[serde(default)]
    pub client: Client,
    #[serde(default)]
    pub origins: OriginSettings,
    #[serde(default)]
    pub tls: Tls,
    pub loads: Vec<LoadPlan>,
    #[serde(default)]
    pub tolerance: Tolerance,
    #[serde(default = "default_load_timeout_us")]
    pub load_timeout_us: u64,
}

/// The longest head of a request or response: what HTTP servers accept at most.
const HEAD_BYTES: u64 = 256 * 1024;

/// The longest path and query, which hyper allows no more.
const TARGET_BYTES: usize = 65_534;

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
        }
    }
}

impl Client {
    fn validate(&self) -> Result<(), String> {
        let words = self.command.as_deref().unwrap_or_default();
        if (self.kind == ClientKind::Command) == words.is_empty() {
            return Err("client.command: needed with kind command, and only with it".into());
        }
        match words.iter().position(|word| word.contains('\0')) {
            Some(number) => Err(format!("client.command[{number}]: holds a NUL")),
            None if words.first().is_some_and(String::is_empty) => Err("client.command[0]: is empty".into()),
            None => Ok(()),
        }
    }

    /// The scheduler's policy.
    pub fn policy(&self) -> Policy {
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

/// The version of HTTP that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Http {
    #[serde(rename = "1.0")]
    Http10,
    #[serde(rename = "1.1")]
    Http11,
}

/// How the origins serve.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct OriginSettings {
    pub http: Http,
    pub keep_alive: bool,
    pub think_scale: f64,
    pub tfo_queue: u16,
    pub bodies_file: Option<PathBuf>,
    pub bodies: Bodies,
}

/// What bodies hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bodies {
    /// Recorded bytes where there are some, else dots.
    #[default]
    Filler,
    /// What makes a browser ask for exactly the page's resources.
    Structural,
}

impl Default for OriginSettings {
    fn default() -> Self {
        Self {
            http: Http::Http11,
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
    /// The longest chain: its message has to fit into what rustls takes (64 kB).
    const CHAIN_BYTES: u16 = 60_000;

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

/// The newest version of TLS that the origins speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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

impl Job {
    /// Reads one job from JSON.
    ///
    /// # Errors
    /// One line that names the place (`network.down.loss: …`).
    pub fn read(json: &RawValue) -> Result<Self, String> {
        let mut reader = serde_json::Deserializer::from_str(json.get());
        let job: Self = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| one_line(&format!("{}: {}", error.path(), error.inner())))?;
        job.validate().map_err(|problem| one_line(&problem))?;
        Ok(job)
    }

    fn validate(&self) -> Result<(), String> {
        let demand = |holds: bool, problem: &str| if holds { Ok(()) } else { Err(problem.to_owned()) };
        demand(self.contract == VERSION, &format!("contract: {} is not {VERSION}", self.contract))?;
        demand(i64::try_from(self.seed).is_ok(), "seed: not within 0 and 2^63 - 1")?;
        self.page.validate().map_err(|error| format!("page.{error}"))?;
        demand(self.network.rtt_us <= 60_000_000, "network.rtt_us: more than a minute")?;
        for (way, direction) in [("down", &self.network.down), ("up", &self.network.up)] {
            direction.model(way, 0, 0).map_err(|problem| format!("network.{problem}"))?;
        }
        for (host, extra) in &self.network.host_extra_rtt_us {
            let place = format!("network.host_extra_rtt_us.{host}");
            demand(*extra <= 60_000_000, &format!("{place}: more than a minute"))?;
            let known = self.page.resources.iter().any(|resource| resource.url.host() == host);
            demand(known, &format!("{place}: the page has no such host"))?;
        }
        let plain = self.network.down.trace_ms.is_none() && self.network.up.trace_ms.is_none();
        demand(
            self.network.link != LinkMaker::Kernel || (plain && self.network.host_extra_rtt_us.is_empty()),
            "network.link: the kernel's link has neither traces nor extra RTTs of hosts",
        )?;
        demand((576..=1500).contains(&self.network.mtu_bytes), "network.mtu_bytes: not within 576 and 1500")?;
        self.client.validate()?;
        Scheduler::new(&self.page, &self.client.policy()).map_err(|error| format!("client: {error}"))?;
        for (number, resource) in self.page.resources.iter().enumerate() {
            let longest = resource.request_header_bytes.max(resource.response_header_bytes);
            let place =
                format!("page.resources[{number}]: a head of {longest} bytes is longer than {HEAD_BYTES}");
            demand(longest <= HEAD_BYTES, &place)?;
            let target = resource.url.target().len();
            let place = format!(
                "page.resources[{number}].url: path and query of {target} bytes are longer than {TARGET_BYTES}"
            );
            demand(target <= TARGET_BYTES, &place)?;
        }
        demand(
            is_algorithm(&self.tcp.congestion_control),
            "tcp.congestion_control: not 1 to 15 letters, digits, - or _",
        )?;
        demand(
            (1..=1000).contains(&self.tcp.initial_window_segments),
            "tcp.initial_window_segments: not within 1 and 1000",
        )?;
        let scale = self.origins.think_scale;
        demand((0.0..=1000.0).contains(&scale), "origins.think_scale: not within 0 and 1000")?;
        demand(
            self.tls.chain_bytes <= Tls::CHAIN_BYTES,
            &format!("tls.chain_bytes: more than {}", Tls::CHAIN_BYTES),
        )?;
        demand((1..=10_000).contains(&self.loads.len()), "loads: not within 1 and 10000 loads")?;
        for (number, load) in self.loads.iter().enumerate() {
            let fits = load.transport.is_fast_open() == load.cookies.is_some();
            let problem =
                format!("loads[{number}].cookies: needed with transports of tfo, and only with them");
            demand(fits, &problem)?;
            demand(
                !(load.transport.is_encrypted() && self.client.kind == ClientKind::Chromium),
                &format!("loads[{number}].transport: chromium's pages are served in the clear"),
            )?;
        }
        demand(
            (0.0..=1.0).contains(&self.tolerance.rate_fraction),
            "tolerance.rate_fraction: not within 0 and 1",
        )?;
        demand(
            (1..=3_600_000_000).contains(&self.load_timeout_us),
            "load_timeout_us: not within 1 and an hour",
        )
    }
}

/// What was found in a job may be long and have line ends in it; what is said of it must not.
fn one_line(problem: &str) -> String {
    const SHOWN: usize = 400;
    let mut line = String::new();
    for letter in problem.chars().take(SHOWN) {
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    if problem.chars().nth(SHOWN).is_some() {
        line.push('…');
    }
    line
}

/// Whether the kernel could have a congestion control of this name (`TCP_CA_NAME_MAX` is 16 with the closing NUL).
fn is_algorithm(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// A record, as it is written.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub enum Record {
    World(Box<WorldRecord>),
    Load(Box<LoadRecord>),
    End { job: String, loads: usize, teardown_us: u64 },
    Error { job: Option<String>, fault: Fault, message: String, remedy: String },
}

/// Who is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub enum Fault {
    Input,
    Machine,
    World,
    Internal,
}

impl Fault {
    /// The exit code of the program.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Input => 2,
            Self::Machine => 3,
            Self::World => 4,
            Self::Internal => 70,
        }
    }
}

/// A world as it came out.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct WorldRecord {
    pub job: String,
    pub contract: u32,
    pub engine: &'static str,
    pub link: &'static str,
    pub kernel: String,
    pub program: &'static str,
    pub hosts: BTreeMap<String, Ipv4Addr>,
    pub sysctls: BothEnds<BTreeMap<String, String>>,
    pub routes: BothEnds<RouteRecord>,
    pub nice: i32,
    pub measured: Measured,
    pub structure: Option<StructureRecord>,
    pub setup_us: u64,
}

/// How many resources of a page with structural bodies do not come out as the page has them.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct StructureRecord {
    pub left_out: Vec<usize>,
    pub moved: Vec<usize>,
    pub hurried: Vec<usize>,
}

impl From<&Shortcomings> for StructureRecord {
    fn from(shortcomings: &Shortcomings) -> Self {
        let Shortcomings { left_out, moved, hurried } = shortcomings.clone();
        Self { left_out, moved, hurried }
    }
}

/// Something of the client's namespace, and of the origins'.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct BothEnds<T> {
    pub client: T,
    pub origins: T,
}

/// TCP as a fresh connection has it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct RouteRecord {
    pub congestion_control: String,
    pub initial_window_segments: u32,
}

/// The network as it was measured.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct Measured {
    pub rtt_us: MeasuredRtt,
    pub down_bit_per_s: MeasuredRate,
    pub up_bit_per_s: MeasuredRate,
}

/// A round-trip time in microseconds.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct MeasuredRtt {
    pub asked: u64,
    pub expected: u64,
    pub median: u64,
    pub samples: usize,
}

/// A rate in bit/s.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct MeasuredRate {
    pub asked: Option<u64>,
    pub median: Option<u64>,
}

/// One load as it went; times in nanoseconds since its start.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct LoadRecord {
    pub job: String,
    pub id: String,
    pub transport: Transport,
    pub cookies: Option<Cookies>,
    pub valid: bool,
    pub invalid: Vec<Invalid>,
    pub plt_ns: Option<u64>,
    pub started_unix_ms: u64,
    pub client_address: Ipv4Addr,
    pub cookies_before: usize,
    pub seen_at: SeenAt,
    pub browser: Option<BrowserRecord>,
    pub strange_requests: usize,
    pub requests: Vec<RequestRecord>,
    pub connections: Vec<ConnectionRecord>,
    pub counters: BothEnds<BTreeMap<String, i64>>,
    pub link: LinkRecord,
}

/// What a browser measured beside the requests; nanoseconds since the navigation's start.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct BrowserRecord {
    pub product: String,
    pub load_event_ns: u64,
    pub dom_content_loaded_ns: u64,
    pub first_contentful_paint_ns: Option<u64>,
    pub largest_contentful_paint_ns: Option<u64>,
}

/// Where the times of requests and connections were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub enum SeenAt {
    Client,
    Origins,
}

/// Why a load does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Invalid {
    /// One of the kinds of docs/contract.md.
    pub kind: &'static str,
    /// What exactly.
    pub detail: String,
}

/// One request.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct RequestRecord {
    pub resource: usize,
    pub connection: Option<usize>,
    pub queued_ns: Option<u64>,
    pub connect_start_ns: Option<u64>,
    pub connected_ns: Option<u64>,
    pub sent_ns: Option<u64>,
    pub first_byte_ns: Option<u64>,
    pub end_ns: Option<u64>,
    pub status: Option<u16>,
    pub header_bytes: u64,
    pub body_bytes: u64,
    pub error: Option<String>,
}

/// One connection.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct ConnectionRecord {
    pub id: usize,
    pub host: String,
    pub port: u16,
    pub client_port: Option<u16>,
    pub opened_ns: u64,
    pub connected_ns: Option<u64>,
    pub handshake_us: Option<u64>,
    pub tls: Option<TlsRecord>,
    pub requests: usize,
    pub client: Option<EndEvidence>,
    pub origin: Option<EndEvidence>,
}

/// What a connection's TLS handshake came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct TlsRecord {
    pub secured_ns: u64,
    pub version: &'static str,
    pub cipher: &'static str,
    pub group: Option<&'static str>,
    pub alpn: Option<String>,
    pub resumed: bool,
    pub hello_bytes: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

/// What the kernel says of one end of a connection.
#[derive(Debug, Clone, Copy, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct EndEvidence {
    pub syn_data_acked: bool,
    pub options: u8,
    pub fastopen_client_fail: u8,
    pub rtt_us: u32,
    pub min_rtt_us: u32,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub segments_out: u32,
    pub segments_in: u32,
    pub retransmits: u32,
}

impl From<fastopen_netns::tcp::TcpInfo> for EndEvidence {
    fn from(info: fastopen_netns::tcp::TcpInfo) -> Self {
        Self {
            syn_data_acked: info.syn_data_acked(),
            options: info.options,
            fastopen_client_fail: info.fastopen_client_fail,
            rtt_us: info.rtt_us,
            min_rtt_us: info.min_rtt_us,
            bytes_sent: info.bytes_sent,
            bytes_received: info.bytes_received,
            segments_out: info.segments_out,
            segments_in: info.segments_in,
            retransmits: info.retransmits,
        }
    }
}

/// What crossed the link during a load.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LinkRecord {
    pub down: LinkDirectionRecord,
    pub up: LinkDirectionRecord,
}

/// What crossed one direction.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "docs/contract.md says it")]
pub struct LinkDirectionRecord {
    pub packets: u64,
    pub bytes: u64,
    pub dropped_queue: u64,
    pub dropped_loss: u64,
    pub overruns: u32,
    pub queue_bytes_max: Option<u64>,
    pub late_us_p50: u64,
    pub late_us_p99: u64,
    pub late_us_max: u64,
}

impl From<&crate::link::DirectionReport> for LinkDirectionRecord {
    fn from(report: &crate::link::DirectionReport) -> Self {
        let [late_us_p50, late_us_p99, late_us_max] = report.late_ns.map(|ns| ns / 1000);
        let stats = &report.stats;
        Self {
            packets: stats.packets,
            bytes: stats.bytes,
            dropped_queue: stats.dropped_queue,
            dropped_loss: stats.dropped_loss,
            overruns: report.overruns,
            queue_bytes_max: report.queue_watched.then_some(stats.queue_bytes_max),
            late_us_p50,
            late_us_p99,
            late_us_max,
        }
    }
}
