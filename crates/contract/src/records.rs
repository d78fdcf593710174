//! What is answered: records, as they are written (and read, by tests).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use fastopen_page::FidelityGaps;
use fastopen_replay::quic::packets::PacketCounts;
use fastopen_replay::quic::table::QuicEvidence;
use fastopen_replay::tls;
use serde::{Deserialize, Serialize};

use crate::job::{Cookies, Transport};
use crate::transactions::TransactionsRecord;

/// The address of the resolver, which is the host of connections to it. Its number is above those of hosts
/// and of probes.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 53);

/// A record, as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub enum Record {
    World(Box<WorldRecord>),
    Load(Box<LoadRecord>),
    Transactions(Box<TransactionsRecord>),
    Packets { job: String, id: String, pcapng: String, dropped: u32 },
    End { job: String, loads: usize, teardown_us: u64 },
    Error { job: Option<String>, fault: Fault, message: String, remedy: String },
}

/// Who is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
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
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct WorldRecord {
    pub job: String,
    pub contract: u32,
    pub engine: Engine,
    pub link: LinkKind,
    pub kernel: String,
    pub program: Cow<'static, str>,
    pub hosts: BTreeMap<String, Ipv4Addr>,
    pub path_hosts: Option<BTreeSet<String>>,
    pub sysctls: BothEnds<BTreeMap<String, String>>,
    pub routes: BothEnds<RouteRecord>,
    pub nice: i32,
    pub measured: Measured,
    pub fidelity_gaps: Option<FidelityGaps>,
    pub setup_us: u64,
}

/// The engine that builds a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// This machine's kernel, in real time.
    Host,
    /// A User-Mode Linux kernel, whose clock jumps to the next timer when all processes sleep.
    Virtual,
}

/// Who makes the link of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// This program moves each packet, as the link model says.
    Program,
    /// The kernel's queueing disciplines do.
    Kernel,
}

/// Something of the client's namespace, and of the origins'.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct BothEnds<T> {
    pub client: T,
    pub origins: T,
}

/// TCP as a fresh connection has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct RouteRecord {
    pub congestion_control: String,
    pub initial_window_segments: u32,
}

/// The network as it was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct Measured {
    pub rtt_us: MeasuredRtt,
    pub down_bit_per_s: MeasuredRate,
    pub up_bit_per_s: MeasuredRate,
}

/// A round-trip time in microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct MeasuredRtt {
    pub asked: u64,
    pub expected: u64,
    pub median: u64,
    pub samples: usize,
}

/// A rate in bit/s.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct MeasuredRate {
    pub asked: Option<u64>,
    pub median: Option<u64>,
}

/// One load as it went; times in nanoseconds since its start.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
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
    pub unknown_requests: usize,
    pub unmatched: Vec<String>,
    #[serde(default)]
    pub lookups: Vec<LookupRecord>,
    pub requests: Vec<RequestRecord>,
    pub connections: Vec<ConnectionRecord>,
    pub given_up: GivenUpRecord,
    pub counters: BothEnds<BTreeMap<String, i64>>,
    pub link: LinkRecord,
    pub cross: Option<CrossRecord>,
    pub server: Option<ServerRecord>,
}

/// What the kernel says of a server of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct ServerRecord {
    pub listeners: Vec<ListenerRecord>,
    pub upstream: UpstreamRecord,
}

/// The connections of a server to the origins behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct UpstreamRecord {
    pub connections: usize,
    pub syn_data: usize,
}

/// The listeners of a server on one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct ListenerRecord {
    pub address: IpAddr,
    pub port: u16,
    pub fastopen_queue: Option<u32>,
    pub connections: usize,
    pub syn_data: usize,
}

/// What cross traffic moved during a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct CrossRecord {
    pub down_bytes: Option<u64>,
    pub up_bytes: Option<u64>,
}

impl CrossRecord {
    /// What was moved since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let since = |now: Option<u64>, before: Option<u64>| Some(now? - before?);
        Self {
            down_bytes: since(self.down_bytes, before.down_bytes),
            up_bytes: since(self.up_bytes, before.up_bytes),
        }
    }
}

/// What a browser measured besides the requests; nanoseconds since the navigation's start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
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

/// What a browser showed from one moment on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct FrameRecord {
    pub at_ns: u64,
    pub jpeg: String,
}

/// Where the times of requests and connections were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub enum SeenAt {
    Client,
    Origins,
}

/// What in a load's evidence contradicts what was asked for (`fault`, of a world that died, is the front's to
/// write).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
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

/// Why a load does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invalid {
    /// What is wrong, for programs.
    pub kind: InvalidKind,
    /// What exactly.
    pub detail: String,
}

/// The lookup of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct LookupRecord {
    pub host: String,
    pub asked_ns: u64,
    pub answered_ns: Option<u64>,
    pub queries: usize,
    pub error: Option<String>,
    pub resolver: ResolverRecord,
}

/// What the resolver saw of the lookup of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct ResolverRecord {
    pub queries: usize,
    pub answers: usize,
}

/// One request.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
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

/// What a client that had kept an answer made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cached {
    /// It was used, and nobody asked.
    Fresh,
    /// The origin was asked whether it is still good, and said so.
    Revalidated,
    /// Its end is that of another answer of the same URL, which came at the same time; its own was cut off.
    Shared,
}

/// One connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
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
}

/// What the sockets of both ends saw of a QUIC connection; of a program of others, its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct QuicRecord {
    pub client: QuicEnd,
    pub origin: Option<QuicEnd>,
}

impl QuicRecord {
    /// Whether either end held a packet for lost; `otherwise` where one does not say.
    pub fn lost(&self, otherwise: bool) -> bool {
        let lost = |end: &QuicEnd| end.lost_packets.map_or(otherwise, |lost| lost > 0);
        lost(&self.client) || self.origin.as_ref().is_some_and(lost)
    }
}

/// What crossed the socket of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct QuicEnd {
    pub sent: PacketCounts,
    pub received: PacketCounts,
    pub lost_packets: Option<u64>,
    pub rtt_us: Option<u64>,
}

impl From<QuicEvidence> for QuicEnd {
    fn from(seen: QuicEvidence) -> Self {
        let QuicEvidence { sent, received, lost, rtt_us, .. } = seen;
        Self { sent, received, lost_packets: Some(lost), rtt_us: Some(rtt_us) }
    }
}

/// What the kernel said of the origin's end of a connection at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct TcpSample {
    pub at_ns: u64,
    pub congestion_window_segments: u32,
    pub in_flight_segments: u32,
    pub segment_bytes: u32,
    pub rtt_us: u32,
}

impl TcpSample {
    /// A sample at a time of the monotonic clock.
    pub fn new(at_ns: u64, info: &fastopen_netns::tcp::TcpInfo) -> Self {
        Self {
            at_ns,
            congestion_window_segments: info.congestion_window,
            in_flight_segments: info.segments_in_flight,
            segment_bytes: info.send_mss,
            rtt_us: info.rtt_us,
        }
    }

    /// Whether the other differs in its time alone.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        Self { at_ns: other.at_ns, ..*self } == *other
    }
}

/// Connections that the client closed before it had a segment of the server, and that carried no request, as
/// browsers do with surplus ones; `syn_data`: how many of them sent SYN data that the origin took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct GivenUpRecord {
    pub connections: usize,
    pub syn_data: usize,
}

/// What a connection's TLS handshake came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
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
    /// A handshake that came to this; the bytes of both directions are to be filled in.
    pub fn new(handshake: tls::Handshake, secured_ns: u64) -> Self {
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
            sent_bytes: 0,
            received_bytes: 0,
            origin: None,
        }
    }

    /// Bytes of early data that the origin had read before the handshake was complete.
    pub fn seen_early(&self) -> u64 {
        self.origin.as_ref().map_or(0, |origin| origin.early_bytes)
    }

    /// Whether the ends disagree on whether a session was resumed.
    pub fn disagrees(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.resumed != self.resumed)
    }
}

/// What the origin says of a handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
pub struct OriginTlsRecord {
    pub resumed: bool,
    pub early_bytes: u64,
    pub answer_held_ns: u64,
}

/// What the kernel says of one end of a connection.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
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
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LinkRecord {
    pub down: LinkDirectionRecord,
    pub up: LinkDirectionRecord,
}

impl LinkRecord {
    /// With the counts since `before`; what is no count stays.
    ///
    /// A queue's management may drop packets that had been accepted before: where it drops more of those than
    /// were accepted since, none was.
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

/// What crossed one direction since it was configured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md says it")]
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
mod tests {
    use crate::*;

    #[test]
    fn packets_accepted_before_and_dropped_in_a_load_are_none_of_its_own() {
        let record = |packets, dropped_queue| LinkRecord {
            down: LinkDirectionRecord {
                packets,
                bytes: 1500 * packets,
                dropped_queue,
                ..LinkDirectionRecord::default()
            },
            up: LinkDirectionRecord::default(),
        };
        let grown = |before: (u64, u64), now: (u64, u64)| {
            let down = record(now.0, now.1).since(&record(before.0, before.1)).down;
            (down.packets, down.bytes, down.dropped_queue)
        };
        assert_eq!(grown((10, 1), (14, 3)), (4, 6000, 2));
        assert_eq!(grown((10, 1), (8, 3)), (0, 0, 2));
    }
}
