//! Defines the records that the program `fastopen-world` writes. In Rust, only tests deserialize them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastopen_link::ip::Version;
use fastopen_page::FidelityGaps;
pub use fastopen_replay::quic::table::QuicEnd;
use fastopen_replay::sockets::FourTuple;
use fastopen_replay::tls;
use serde::{Deserialize, Serialize};

use crate::job::{Cookies, Transport};
use crate::transactions::TransactionsRecord;

/// Returns the DNS resolver's address, which is also the `host` in records of connections to the resolver.
/// The page's hosts and the target of RTT probes have lower addresses.
pub const fn resolver_address(ip: Version) -> IpAddr {
    match ip {
        Version::V4 => IpAddr::V4(Ipv4Addr::new(198, 19, 255, 53)),
        Version::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0x19, 0, 0, 0, 0xff35)),
    }
}

/// One line of the output of `fastopen-world`: a result such as a page load, the end of a job, or an error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Record {
    World(Box<WorldRecord>),
    Load(Box<LoadRecord>),
    Transactions(Box<TransactionsRecord>),
    Packets { job: String, id: String, pcapng: String, dropped: u32 },
    End { job: String, loads: usize, teardown_us: u64 },
    Error { job: Option<String>, fault: Fault, message: String, remedy: String },
}

/// The cause of a failure: the job, this machine, the emulated network (world), or the program itself. The
/// numbers are the program's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    Input = 2,
    Machine = 3,
    World = 4,
    Internal = 70,
}

impl Fault {
    /// Returns the program's exit code after this failure.
    pub fn exit_code(self) -> i32 {
        self as i32
    }
}

/// The record of an emulated network (a world): how it was built, and its measured properties.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldRecord {
    pub job: String,
    pub contract: u32,
    pub engine: Engine,
    pub link: LinkKind,
    pub kernel: String,
    pub program: Cow<'static, str>,
    pub hosts: BTreeMap<String, IpAddr>,
    pub path_hosts: Option<BTreeSet<String>>,
    pub sysctls: BothEnds<BTreeMap<String, String>>,
    pub routes: BothEnds<RouteRecord>,
    pub nice: i32,
    pub measured: Measured,
    pub fidelity_gaps: Option<FidelityGaps>,
    pub setup_us: u64,
}

/// The kernel and the clock with which an emulated network runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// This machine's kernel, in real time.
    Host,
    /// A User-Mode Linux kernel, whose clock jumps to the next timer when all processes sleep.
    Virtual,
}

/// The implementation of the emulated link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// The program `fastopen-world` forwards each packet according to its link model.
    Program,
    /// The Linux kernel's queueing disciplines delay and drop packets instead.
    Kernel,
}

/// A value for the client's network namespace, and a value for the origins' network namespace.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BothEnds<T> {
    pub client: T,
    pub origins: T,
}

/// The TCP settings that new connections inherit from their route.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteRecord {
    pub congestion_control: String,
    pub initial_window_segments: u32,
}

/// The RTT and the rates of the emulated link, as measured by probes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    pub rtt_us: MeasuredRtt,
    pub down_bit_per_s: MeasuredRate,
    pub up_bit_per_s: MeasuredRate,
}

/// RTTs in microseconds: requested (`asked`), expected for probes, and the median RTT of `samples` probes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRtt {
    pub asked: u64,
    pub expected: u64,
    pub median: u64,
    pub samples: usize,
}

/// The requested (`asked`) and the measured rate in bit/s; `None` if there is no limit or no measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRate {
    pub asked: Option<u64>,
    pub median: Option<u64>,
}

/// The record of one page load. Times are in nanoseconds since the start of the page load.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadRecord {
    pub job: String,
    pub id: String,
    pub transport: Transport,
    pub cookies: Option<Cookies>,
    pub valid: bool,
    pub invalid: Vec<Invalid>,
    pub plt_ns: Option<u64>,
    pub started_unix_ms: u64,
    pub client_address: IpAddr,
    pub cookies_before: usize,
    pub seen_at: SeenAt,
    pub browser: Option<BrowserRecord>,
    pub unknown_requests: usize,
    pub unmatched: Vec<String>,
    #[serde(default)]
    pub lookups: Vec<LookupRecord>,
    pub requests: Vec<RequestRecord>,
    pub connections: Vec<ConnectionRecord>,
    pub given_up: ConnectionCounts,
    pub counters: BothEnds<BTreeMap<String, i64>>,
    pub link: LinkRecord,
    pub cross: Option<CrossRecord>,
    pub server: Option<ServerRecord>,
}

/// The listeners of an external server and its connections to origins, according to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerRecord {
    pub listeners: Vec<ListenerRecord>,
    /// The connections of the external server to the origins behind it.
    pub upstream: ConnectionCounts,
}

/// The listeners of an external server on one address and port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerRecord {
    pub address: IpAddr,
    pub port: u16,
    pub fastopen_queue: Option<u32>,
    pub connections: usize,
    pub syn_data: usize,
}

/// The bytes that background traffic transferred during a page load, by direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossRecord {
    pub down_bytes: Option<u64>,
    pub up_bytes: Option<u64>,
}

impl CrossRecord {
    /// Returns the bytes transferred since `before`; `None` for a direction whose count is unknown.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let since = |now: Option<u64>, before: Option<u64>| Some(now? - before?);
        Self {
            down_bytes: since(self.down_bytes, before.down_bytes),
            up_bytes: since(self.up_bytes, before.up_bytes),
        }
    }
}

/// The browser's metrics of a page load. Times are in nanoseconds since the start of the navigation.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrowserRecord {
    pub product: String,
    pub load_event_ns: u64,
    pub dom_content_loaded_ns: u64,
    pub first_contentful_paint_ns: Option<u64>,
    pub largest_contentful_paint_ns: Option<u64>,
    pub screenshot_png: Option<String>,
    pub screenshot_error: Option<String>,
    pub frames: Vec<FrameRecord>,
    pub frames_dropped: u64,
    pub dialogs: u64,
}

/// A screenshot of the page (JPEG in base64), which the browser showed from `at_ns` on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameRecord {
    pub at_ns: u64,
    pub jpeg: String,
}

/// The end (client or origin servers) at which the times of requests and connections were measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeenAt {
    #[default]
    Client,
    Origins,
}

/// The kinds of reasons why a load is not a valid sample. Python adds `fault`, for a failure of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvalidKind {
    Incomplete,
    SynDataWithoutTfo,
    NoSynData,
    CookieBeforeCold,
    NoCookieWhenWarm,
    ListenOverflow,
    FastopenFailed,
    Blackhole,
    CountersDisagree,
    SessionBeforeFirst,
    NotResumed,
    EarlyDataUnasked,
    NoEarlyData,
    AnswerHeld,
    SoonerThanPossible,
    FirstByteLate,
    WrongBytes,
    LinkLate,
    PathWithoutEffect,
    ServerFailed,
    NoListenerQueue,
    NoQuic,
    PacketsDisagree,
    DatagramsDropped,
    LookupsDisagree,
    GeneratorLate,
}

/// A reason why a page load is not a valid sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invalid {
    /// The category of the reason, for programs.
    pub kind: InvalidKind,
    /// The details, as text for people.
    pub detail: String,
}

/// The DNS lookup of one host name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupRecord {
    pub host: String,
    pub asked_ns: u64,
    pub answered_ns: Option<u64>,
    pub queries: usize,
    pub error: Option<String>,
    pub resolver: ResolverRecord,
}

/// The number of DNS queries that the resolver received for one name, and the number of its answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolverRecord {
    pub queries: usize,
    pub answers: usize,
}

/// The record of one HTTP request: its times, its sizes, its status and its error.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestRecord {
    pub resource: usize,
    pub url: Option<String>,
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
    pub cache: Option<Cached>,
    pub error: Option<String>,
}

/// The use of a cached response for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cached {
    /// The client used the response without sending a request.
    Fresh,
    /// The origin confirmed that the response is still valid.
    Revalidated,
    /// The client aborted this response, and took the rest from another response with the same URL.
    Shared,
}

/// The record of one connection: its times, its TLS handshake, and the kernel's evidence at both ends.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionRecord {
    pub id: usize,
    pub host: String,
    pub port: u16,
    pub client_port: Option<u16>,
    pub opened_ns: u64,
    pub connected_ns: Option<u64>,
    pub handshake_us: Option<u64>,
    pub tls: Option<TlsRecord>,
    pub multiplexed: bool,
    pub requests: usize,
    pub client: Option<EndEvidence>,
    pub origin: Option<EndEvidence>,
    pub quic: Option<QuicRecord>,
    pub origin_samples: Vec<TcpSample>,
    /// The addresses of both ends, which identify the connection's evidence; `None` if they are unknown.
    #[serde(skip)]
    pub four_tuple: Option<FourTuple>,
    pub address: Option<IpAddr>,
}

/// Packet counts of a QUIC connection, from the sockets or, for an external client, its network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuicRecord {
    pub client: QuicEnd,
    pub origin: Option<QuicEnd>,
}

impl QuicRecord {
    /// Returns true if either end declared a packet lost. Uses `otherwise` for an end whose record lacks the
    /// number of lost packets, and ignores an origin without a record.
    pub fn lost(&self, otherwise: bool) -> bool {
        let lost = |end: &QuicEnd| end.lost_packets.map_or(otherwise, |lost| lost > 0);
        lost(&self.client) || self.origin.as_ref().is_some_and(lost)
    }
}

/// Values of `TCP_INFO` at the origin's end of a connection, read at the time `at_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpSample {
    pub at_ns: u64,
    pub congestion_window_segments: u32,
    pub in_flight_segments: u32,
    pub segment_bytes: u32,
    pub rtt_us: u32,
}

impl TcpSample {
    /// Creates a sample of `info`, which was read at the time `at_ns` of the monotonic clock.
    pub fn new(at_ns: u64, info: &fastopen_netns::tcp::TcpInfo) -> Self {
        Self {
            at_ns,
            congestion_window_segments: info.congestion_window,
            in_flight_segments: info.segments_in_flight,
            segment_bytes: info.send_mss,
            rtt_us: info.rtt_us,
        }
    }

    /// Returns true if all values except the times of the two samples are equal.
    pub fn equals_except_time(&self, other: &Self) -> bool {
        Self { at_ns: other.at_ns, ..*self } == *other
    }
}

/// Counts of a group of connections: all of them, and those whose SYN data the server accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionCounts {
    pub connections: usize,
    pub syn_data: usize,
}

/// The result of a connection's TLS handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsRecord {
    pub secured_ns: u64,
    pub version: tls::Version,
    pub cipher: Cow<'static, str>,
    pub group: Option<Cow<'static, str>>,
    pub alpn: Option<String>,
    pub resumed: bool,
    pub early_bytes: u64,
    pub hello_bytes: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub origin: Option<OriginTlsRecord>,
}

impl TlsRecord {
    /// Creates the record of a TLS handshake without the origin's observations (`origin`). The handshake was
    /// complete at `secured_ns`. By then, the client had sent `sent_bytes` and received `received_bytes`.
    pub fn new(handshake: tls::Handshake, sent_bytes: u64, received_bytes: u64, secured_ns: u64) -> Self {
        let tls::Handshake { session, hello_bytes, early_bytes, .. } = handshake;
        let tls::Session { version, cipher, group, alpn, resumed } = session;
        Self {
            secured_ns,
            version,
            cipher: cipher.into(),
            group: group.map(Into::into),
            alpn,
            resumed,
            early_bytes,
            hello_bytes,
            sent_bytes,
            received_bytes,
            origin: None,
        }
    }

    /// Returns the number of early data bytes that the origin read before the handshake ended; 0 if unknown.
    pub fn seen_early(&self) -> u64 {
        self.origin.as_ref().map_or(0, |origin| origin.early_bytes)
    }
}

/// A TLS handshake as the origin observed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginTlsRecord {
    pub resumed: bool,
    pub early_bytes: u64,
    pub answer_held_ns: u64,
}

/// Values of `TCP_INFO` at one end of a connection.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

/// Counts and delays of a page load's packets on the link.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkRecord {
    pub down: LinkDirectionRecord,
    pub up: LinkDirectionRecord,
}

impl LinkRecord {
    /// Returns the growth of the counts since the earlier record `before`. Copies other values, such as
    /// delays, from this record. The growth of `packets` or `bytes` is 0 if the count has fallen: the link
    /// may later drop packets that it has counted.
    #[must_use]
    pub fn since(self, before: &Self) -> Self {
        let since = |now: LinkDirectionRecord, before: &LinkDirectionRecord| LinkDirectionRecord {
            packets: now.packets.saturating_sub(before.packets),
            bytes: now.bytes.saturating_sub(before.bytes),
            dropped_queue: now.dropped_queue - before.dropped_queue,
            dropped_loss: now.dropped_loss - before.dropped_loss,
            dropped_path: now.dropped_path - before.dropped_path,
            overruns: now.overruns - before.overruns,
            ..now
        };
        Self { down: since(self.down, &before.down), up: since(self.up, &before.up) }
    }
}

/// Counts and delays of the packets in one direction of the link.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkDirectionRecord {
    pub packets: u64,
    pub bytes: u64,
    pub dropped_queue: u64,
    pub dropped_loss: u64,
    #[serde(default)]
    pub dropped_path: u64,
    pub overruns: u32,
    pub queue_bytes_max: Option<u64>,
    pub late_us_p50: u64,
    pub late_us_p99: u64,
    pub late_us_max: u64,
}

#[cfg(test)]
#[path = "../tests/unit/records.rs"]
mod tests;
