"""What the world program answers: one record a line, told apart by `type`.

Keys that this reader does not know are skipped, since a newer program of the same contract may add some; keys
that it needs are checked strictly. Kept runs are read under the names of the contract that wrote them. Schema
and tables are made of these models, as those of jobs.
"""

from enum import StrEnum
from functools import cache
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fastopen.contract.job import CONTRACT, Cookies, Transport
from fastopen.contract.origins import TlsVersion

EngineName = Literal["host", "virtual"]
# Null where it was not reached.
Nanoseconds = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
# Of a histogram: a value, and how often it occurred.
Pair = Annotated[list[Count], Field(min_length=2, max_length=2)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, defer_build=True)


class MeasuredRtt(_Part):
    """RTT in microseconds."""

    asked: Count
    """The job's."""
    expected: Count
    """As asked, and the time that the probe's own packets take on the wire."""
    median: Count
    """As measured."""
    samples: Count
    """How many probes were answered."""

    @property
    def net(self) -> int:
        """The measured RTT without the time that the probe's own packets took on the wire."""
        return self.median - (self.expected - self.asked)


class MeasuredRate(_Part):
    """Rate in bit/s."""

    asked: Count | None
    """The job's; null: no limit."""
    median: Count | None
    """As measured; null: not measured."""


class Measured(_Part):
    """What the network of this world turned out to be, over the link as asked, but with nothing left to
    chance, a queue that drops at its tail and, since a probe meets a trace at any point, no limit in place of
    a trace."""

    rtt_us: MeasuredRtt
    """Of the access link."""
    down_bit_per_s: MeasuredRate
    up_bit_per_s: MeasuredRate


class Sysctls(_Part):
    """Settings of both namespaces, name to value as it was read back."""

    client: dict[str, str]
    origins: dict[str, str]


class Route(_Part):
    """TCP as the kernel has it on a fresh connection."""

    congestion_control: str
    initial_window_segments: Count
    """Of the congestion window."""


class Routes(_Part):
    """Routes of both namespaces."""

    client: Route
    origins: Route


class FidelityGaps(_Part):
    """Resources (by index) that synthetic bodies do not have a browser ask for as the page says, in some of
    the job's loads."""

    left_out: list[Count]
    """No body has room for a reference to it."""
    relocated: list[Count]
    """Its reference stands further up than the page has it."""
    early: list[Count]
    """It is asked for without the page's processing time."""


class WorldRecord(_Part):
    """The world as it was built and measured, before its loads."""

    type: Literal["world"]
    job: str
    contract: Count
    """The version that the program speaks."""
    engine: EngineName
    """Whose clock runs: this machine's, or a kernel's of its own."""
    link: Literal["program", "kernel"]
    """Who makes the link."""
    kernel: str
    """As `uname -r` says it."""
    program: str
    """The program's version."""
    hosts: dict[str, str]
    """Host name to address."""
    path_hosts: list[str] | None = None
    """The hosts that lie behind the middlebox; null: there is none."""
    sysctls: Sysctls
    routes: Routes
    nice: int
    """Of the world's processes: -20 where root, else as started."""
    measured: Measured
    fidelity_gaps: FidelityGaps | None = None
    """null: bodies are not synthetic."""
    setup_us: Count
    """How long building and measuring took."""


class InvalidKind(StrEnum):
    """Why a load does not count."""

    INCOMPLETE = "incomplete"
    """A request failed or timed out, an answer was cut off, or the client failed."""
    SYN_DATA_WITHOUT_TFO = "syn_data_without_tfo"
    """A counter or a socket shows Fast Open where the transport has none."""
    NO_SYN_DATA = "no_syn_data"
    """With warm cookies a connection that was used and lost nothing carried no data in its SYN; with cold
    ones the same of a connection that was opened after a handshake with that host that lost nothing."""
    COOKIE_BEFORE_COLD = "cookie_before_cold"
    """The client held a cookie before the first connection to a host."""
    NO_COOKIE_WHEN_WARM = "no_cookie_when_warm"
    """The client held no cookie of a host when the load began."""
    LISTEN_OVERFLOW = "listen_overflow"
    """The origins' Fast Open queue was full."""
    FASTOPEN_FAILED = "fastopen_failed"
    """Data in a SYN was refused, or lost on a link that lost nothing."""
    BLACKHOLE = "blackhole"
    """The kernel suspected a black hole and turned Fast Open off; there is none for it to detect."""
    COUNTERS_DISAGREE = "counters_disagree"
    """Counters and sockets of the two ends tell of different numbers of connections with data in the SYN."""
    SESSION_BEFORE_FIRST = "session_before_first"
    """Without a session of an earlier visit the first connection to a host resumed one."""
    NOT_RESUMED = "not_resumed"
    """Fewer connections to a host resumed a session than the client had tickets, or the ends disagree."""
    EARLY_DATA_UNASKED = "early_data_unasked"
    """A connection carried early data, or it was accepted, where none was to be."""
    NO_EARLY_DATA = "no_early_data"
    """Fewer connections to a host began with early data that the origin read before the handshake was
    complete than the client had tickets, though they lost nothing, and what they carried first was safe and
    had room in the SYN with data."""
    ANSWER_HELD = "answer_held"
    """An origin held its answer to early data back until the handshake was complete: nothing was saved."""
    SOONER_THAN_POSSIBLE = "sooner_than_possible"
    """A connection's first answer came before the round trips were over that its first flight needs."""
    FIRST_BYTE_LATE = "first_byte_late"
    """The loader's first answer came a round trip later than its first flight takes, though nothing was lost
    and nothing else was on the link: what its first flight was to save it did not."""
    WRONG_BYTES = "wrong_bytes"
    """A response has another size or status than the page says."""
    LINK_LATE = "link_late"
    """The link released a packet too late, or lost one before the link model saw it."""
    PATH_WITHOUT_EFFECT = "path_without_effect"
    """A connection that its path or `tcp_fastopen` of an end keeps from Fast Open does not show that."""
    SERVER_FAILED = "server_failed"
    """A server of others ended or listened no longer."""
    NO_LISTENER_QUEUE = "no_listener_queue"
    """A listener of a server of others took connections and has no Fast Open queue."""
    NO_QUIC = "no_quic"
    """A connection that carried requests is not QUIC's where its host speaks HTTP/3, or is elsewhere."""
    PACKETS_DISAGREE = "packets_disagree"
    """An end of a QUIC connection received more packets of a type than the other sent, or the origin's socket
    saw none of it."""
    DATAGRAMS_DROPPED = "datagrams_dropped"
    """The kernel dropped datagrams for which a socket had no room (UdpRcvbufErrors)."""
    GENERATOR_LATE = "generator_late"
    """Transactions did not begin when they were due: the generator was the limit, not the server."""
    FAULT = "fault"
    """The world died; written by the front."""


class Invalid(_Part):
    """Why a load does not count. A newer program may have further kinds."""

    kind: Annotated[InvalidKind | str, Field(union_mode="left_to_right")]
    """For programs, see [below](#kinds-of-invalid-loads)."""
    detail: str
    """For people: what exactly."""


class Request(_Part):
    """One request of a load; times in nanoseconds since the start of the load, null where not reached."""

    resource: Count
    """Its index in the page."""
    url: str | None = None
    """With recorded bodies: what was asked for, where the resource's own URL differs in port or query."""
    connection: Count | None
    """The id of the connection that carried it."""
    queued_ns: Nanoseconds | None
    """The client may ask: its initiator has named it, and processing is over."""
    connect_start_ns: Nanoseconds | None
    """Its connection was opened; null unless it was the first on it."""
    connected_ns: Nanoseconds | None
    """Its connection could be written to; null unless it was the first on it."""
    sent_ns: Nanoseconds | None
    """The client began to write it."""
    first_byte_ns: Nanoseconds | None
    """The first byte of the response was there."""
    end_ns: Nanoseconds | None
    """The last byte of the response was there."""
    status: Annotated[int, Field(ge=0, le=65535)] | None
    header_bytes: Count
    """Of the response's head."""
    body_bytes: Count
    """Of the response's body."""
    cache: Literal["fresh", "revalidated"] | None = None
    """What became of a cached answer: used without asking (no connection, no bytes; `status` is what the page
    got), or validated by the origin (`status` 304, no body). null: the answer came over the network."""
    error: str | None
    """Why it failed."""


class Evidence(_Part):
    """What TCP_INFO said of one end of a connection: of one that ended during the load as it was when its end
    closed it, so that its own FIN is not among its segments."""

    syn_data_acked: bool
    """Whether data in the SYN was acknowledged."""
    options: Annotated[int, Field(ge=0, le=255)]
    """TCPI_OPT_*."""
    fastopen_client_fail: Annotated[int, Field(ge=0, le=255)]
    """Why Fast Open failed (TFO_*)."""
    rtt_us: Count
    min_rtt_us: Count
    bytes_sent: Count
    """With what was sent again."""
    bytes_received: Count
    segments_out: Count
    """With those sent again."""
    segments_in: Count
    """With those that came again."""
    retransmits: Count
    """Segments that were sent again."""


class OriginTlsSession(_Part):
    """What the origin says of a connection's TLS handshake."""

    resumed: bool
    early_bytes: Count
    """Bytes of early data that it had read before the handshake was complete."""
    answer_held_ns: Nanoseconds
    """How long it held its first answer back until the handshake was complete; 0 where it did not wait for
    that."""


class TlsSession(_Part):
    """What a connection's TLS handshake came to, as the client counts. Of other clients than the loader it is
    what the origin saw."""

    secured_ns: Nanoseconds
    """When it was over at the client; seen at the origin: when the client sent its last message of it, had
    nothing been in its way. Chromium's are the browser's own."""
    version: TlsVersion
    cipher: str
    """As rustls spells it: IANA's name, but for `TLS13_` where those of 1.3 begin with `TLS_`. Of QUIC, this
    and the group are what both ends prefer, since quinn does not tell what they agreed on."""
    group: str | None
    """The key exchange's; null: a resumed session of 1.2."""
    alpn: str | None
    """The application protocol; null: none was agreed on."""
    resumed: bool
    """Whether it resumed an earlier session."""
    early_bytes: Count = 0
    """Bytes of early data that were accepted."""
    hello_bytes: Count
    """Of the ClientHello; 0 of QUIC's, which is padded to whole datagrams."""
    sent_bytes: Count
    """On the wire, until it was over, with early data."""
    received_bytes: Count
    """On the wire, until it was over, with answers to early data."""
    origin: OriginTlsSession | None = None
    """What the origin says of it; null: it was not over there, and without early data."""


class TcpSample(_Part):
    """What TCP_INFO said of the origin's end of a connection at one time."""

    at_ns: Nanoseconds
    """Since the start of the load."""
    congestion_window_segments: Count
    in_flight_segments: Count
    """Neither acknowledged nor held for lost, with those sent again."""
    segment_bytes: Count
    """The maximum segment size for sending."""
    rtt_us: Count
    """Smoothed."""


class Packets(_Part):
    """QUIC packets that crossed a socket in one direction, by type, counted from the datagrams: packets that
    share one are told apart by their length fields (RFC 9000 section 12.2)."""

    datagrams: Count
    """Of UDP."""
    bytes: Count
    """In the datagrams, without headers of UDP and IP."""
    initial: Count
    zero_rtt: Count
    """Of early data."""
    handshake: Count
    one_rtt: Count
    """Those with a short header."""
    retry: Count


class QuicEnd(_Part):
    """One end of a QUIC connection."""

    sent: Packets
    received: Packets
    lost_packets: Count | None
    """That it held for lost, by its own account (RFC 9002 section 6). null: of a client of others, which does
    not tell; its packets are those that passed its interface."""
    rtt_us: Count | None
    """Smoothed, by its own account. null: as `lost_packets`."""


class Quic(_Part):
    """What crossed the sockets of both ends of a QUIC connection."""

    client: QuicEnd
    origin: QuicEnd | None
    """null: the origin's socket saw nothing of it."""


class Connection(_Part):
    """One connection of a load, with the evidence of both ends."""

    id: Count
    """In the order of the load."""
    host: str
    """Whose server it goes to, by the page's name."""
    port: Count
    client_port: Count | None
    opened_ns: Nanoseconds
    """When the client called `connect`."""
    connected_ns: Nanoseconds | None
    """When it could be written to; null: never."""
    handshake_us: Count | None
    """From opening to established, of a connection that waited for TCP's handshake."""
    tls: TlsSession | None = None
    """null: in the clear, or without a handshake that ended."""
    multiplexed: bool = False
    """Whether it carried several requests at once (HTTP/2 and HTTP/3)."""
    requests: Count
    """How many it carried."""
    client: Evidence | None
    """What the kernel said of the client's end."""
    origin: Evidence | None
    """What the kernel said of the origin's end."""
    quic: Quic | None = None
    """What crossed its sockets, if it is QUIC's: then the kernels say nothing. null: TCP."""
    origin_samples: list[TcpSample] = []
    """The same over time, where the job asked for it (`tcp_trace`): a sample each twentieth of the RTT (1 ms
    at least, 10 ms at most) that differs from the one before."""

    @property
    def carried_syn_data(self) -> bool:
        """Whether either end's kernel saw data in the SYN acknowledged."""
        return any(end is not None and end.syn_data_acked for end in (self.client, self.origin))


class GivenUp(_Part):
    """Connections that the client closed before a segment of the server came (SYN_SENT), and that carried no
    request. Browsers do so with surplus ones; no rule of evidence counts them."""

    connections: Count = 0
    syn_data: Count = 0
    """How many of them sent data in the SYN that the origin took, though nobody waited for the answer."""


class Counters(_Part):
    """How much the kernel's counters grew during the load: TcpExt and Tcp names as in /proc/net/netstat and
    /proc/net/snmp, and Udp's with that before them, those alone that grew."""

    client: dict[str, int]
    origins: dict[str, int]


class LinkUse(_Part):
    """What one direction of the link did during the load."""

    packets: Count
    """That were accepted: released, or still under way when the load ended."""
    bytes: Count
    """Of their IP packets."""
    dropped_queue: Count
    """Packets that the queue dropped: it was full, or its management (`aqm`) chose them."""
    dropped_loss: Count
    """Packets that were lost at random."""
    dropped_path: Count = 0
    """Packets that a middlebox dropped, or answered itself."""
    overruns: Count
    """Packets lost outside the link model: by the kernel before it saw them, or by an end that was gone."""
    queue_bytes_max: Count | None
    """The most that waited; null where the kernel makes the link, which does not say."""
    late_us_p50: Count
    """How much later than due packets were released: the median."""
    late_us_p99: Count
    """The 99th percentile."""
    late_us_max: Count
    """The most."""


class Link(_Part):
    """Both directions."""

    down: LinkUse
    up: LinkUse


class CrossTraffic(_Part):
    """How many bytes cross traffic moved during the load: what its receivers' kernels received in order."""

    down_bytes: Count | None
    """null: none was asked for in that direction."""
    up_bytes: Count | None
    """The same."""


class Frame(_Part):
    """What a browser showed from one moment on."""

    at_ns: Nanoseconds
    """Since the navigation's start; 0: what it showed before."""
    jpeg: str
    """The picture, a JPEG in base64."""


class Browser(_Part):
    """What a browser measured besides the requests; times in nanoseconds since the navigation's start."""

    product: str
    load_event_ns: Nanoseconds
    """The event's end, as of DOM content loaded."""
    dom_content_loaded_ns: Nanoseconds
    first_contentful_paint_ns: Nanoseconds | None
    """null: nothing was painted."""
    largest_contentful_paint_ns: Nanoseconds | None
    """null: nothing was painted."""
    screenshot_png: str | None = None
    """What it showed when the load was over, in base64, where the job asked for it."""
    screenshot_error: str | None = None
    """Why there is no such picture, where the job asked for one."""
    frames: list[Frame] = []
    """What it showed each time that this changed, in order, where the job asked for it."""
    frames_dropped: Count = 0
    """How many of these were left out, since a load keeps 4 MiB of them."""
    dialogs: Count = 0
    """How many dialogs the page opened (`alert` and the like); each was answered at once."""


class Listener(_Part):
    """The listeners of a server of others on one address and port, and what they took during the load."""

    address: str
    """That of a host, or the one that stands for all."""
    port: Count
    fastopen_queue: Count | None
    """How many connections with data in their SYN may wait for the end of their handshake (TCP_FASTOPEN): the
    least of several listeners; 0: none. null: it could not be read."""
    connections: Count
    """How many of the load's connections came to it."""
    syn_data: Count
    """How many of these had data in their SYN that its kernel accepted (TCPI_OPT_SYN_DATA)."""


class Upstream(_Part):
    """The connections of a server of others to the origins behind it during a load."""

    connections: Count
    """How many there were."""
    syn_data: Count
    """How many of these had data in their SYN that the origins' kernel accepted."""


class Server(_Part):
    """What the kernel says of a server of others. Connections that found its queue full are counted by
    TCPFastOpenListenOverflow of the origins' counters."""

    listeners: list[Listener]
    """On the port that the client connects to."""
    upstream: Upstream = Upstream(connections=0, syn_data=0)
    """Its own connections to the origins behind it; in records of before they were counted none."""


class LoadRecord(_Part):
    """One load: its page load time and everything that proves how it went."""

    type: Literal["load"]
    job: str
    id: str
    transport: Transport
    cookies: Cookies
    valid: bool
    """Whether it counts."""
    invalid: list[Invalid]
    """Why it does not."""
    plt_ns: Nanoseconds | None
    """The page load time; null: the load did not finish."""
    started_unix_ms: Count
    """When it began."""
    client_address: str
    """The client's, another for each load."""
    cookies_before: Count
    """How many TFO cookies of these origins the client held when it began."""
    seen_at: Literal["client", "origins"] = "client"
    """Where the times of requests and connections were seen."""
    browser: Browser | None = None
    """null: the client is no browser, or did not get so far."""
    unknown_requests: Count = Field(
        default=0, validation_alias=AliasChoices("unknown_requests", "strange_requests")
    )
    """How many were for what the page does not have; the origins answered them with 404."""
    unmatched: list[str] = []
    """These, each with its method: `GET http://a.test/x`."""
    requests: list[Request]
    """In the order of the page's resources; seen at the origins, in the order in which they arrived."""
    connections: list[Connection]
    """In the order in which they were opened."""
    given_up: GivenUp = GivenUp()
    counters: Counters
    link: Link | None
    """What crossed it (null in the records that the front writes of loads whose world died)."""
    cross: CrossTraffic | None = None
    """null: none was asked for."""
    server: Server | None = None
    """What the kernel says of a server of others; null: the client talked to the origins."""

    @property
    def connection_count(self) -> int:
        """How many connections were opened and not given up."""
        return len(self.connections) - self.given_up.connections

    @property
    def syn_data_connections(self) -> int:
        """How many of these carried data in their SYN."""
        return sum(connection.carried_syn_data for connection in self.connections) - self.given_up.syn_data

    @property
    def retransmitted(self) -> int:
        """Segments that either end sent again."""
        ends = [end for connection in self.connections for end in (connection.client, connection.origin)]
        return sum(end.retransmits for end in ends if end is not None)


class ServerCore(_Part):
    """Where the time of the server's core went while transactions were under way (`/proc/stat`)."""

    number: Count
    """Of the core, which the server's threads do not leave."""
    steered: bool
    """Whether the kernel receives the server's packets on it (`net.core.rps_default_mask`)."""
    elapsed_us: Count
    """By the clock."""
    idle_us: Count
    """In nothing; exact where the kernel stops its tick then (NO_HZ)."""
    user_us: Count
    """In processes of the usual priority or a higher one. Counted in ticks, as the next three are."""
    nice_us: Count
    """In processes of a lower priority, which are not the server."""
    system_us: Count
    """In the kernel, for processes."""
    interrupts_us: Count
    """In interrupts and softirqs."""
    stolen_us: Count
    """Taken by what this machine is a guest of."""
    server_threads_us: Count
    """For which the server's threads ran (`schedstat`), with the interrupts that they met: all of its time
    but softirqs on an idle core."""

    @property
    def busy_us(self) -> int:
        """Not idle, and not another machine's."""
        return max(self.elapsed_us - self.idle_us - self.stolen_us, 0)

    @property
    def others_us(self) -> int:
        """What processes other than the server's used of it, at least."""
        return max(self.user_us + self.nice_us + self.system_us - self.server_threads_us, self.nice_us)


class TransactionsRecord(_Part):
    """The transactions of a load that asked for them."""

    type: Literal["transactions"]
    job: str
    id: str
    transport: Transport
    cookies: Cookies
    valid: bool
    """Whether they count."""
    invalid: list[Invalid]
    """Why they do not. What overload, a flood or a change of key does to them is no such reason."""
    started_unix_ms: Count
    """When they began."""
    cookies_before: Count
    """Of how many hosts the client held a cookie when they began."""
    begun: Count
    """How many began."""
    not_begun: Count
    """How many were due and did not begin: 20,000 were under way, or there were no addresses left."""
    arrived_over_us: Count
    """From the first to the last one that began."""
    elapsed_us: Count
    """From the start to the end of the last one."""
    answered: Count
    """How many got their whole answer."""
    answered_over_us: Count
    """From the first of these answers to the last one."""
    failures: dict[str, Count]
    """What others met, and how many; the ten that are most frequent."""
    syn_data: Count
    """How many had data in their SYN that was acknowledged (TCPI_OPT_SYN_DATA)."""
    fallbacks: Count
    """How many had data in their SYN that was not, and sent it again after the handshake."""
    retransmits: Count
    """Segments that the client's end sent again."""
    latency_us: list[Pair]
    """Of those that were answered, from when they were due to the last byte: a histogram (HDR, four digits),
    as values and how often each occurred."""
    late: Count
    """How many began over `late_us` after they were due."""
    lateness_us: list[Pair]
    """How long after they were due they began, in the same form."""
    generator_us: Count
    """For which the generator's thread ran; 0 where computing is free."""
    fastopen_queue: Count | None
    """The Fast Open queue of the server's listener, the least of several; null: it could not be read."""
    flood_syns: Count
    """How many SYNs the flood sent."""
    counters: Counters
    link: Link
    core: ServerCore | None
    """null: time is virtual, or this machine has one core alone."""


class PacketsRecord(_Part):
    """A piece of the packets of a load, where the job asked for them (`packets`): what crossed the interfaces
    of both ends, with the hosts' names and the secrets of TLS. The load's own record comes after the last."""

    type: Literal["packets"]
    job: str
    id: str
    pcapng: str
    """In base64: the pieces of a load, one after another, are a file in the format pcapng."""
    dropped: Count
    """How many of the load's packets found no more room, and are not in it."""


class EndRecord(_Part):
    """The job is done and its world is gone."""

    type: Literal["end"]
    job: str
    loads: Count
    """How many records of loads were written."""
    teardown_us: Count
    """How long ending the world took."""


class ErrorRecord(_Part):
    """Something could not be done, and whose fault that is. The job is over."""

    type: Literal["error"]
    job: str | None
    """The id of the job; null: no job could be read."""
    fault: Literal["input", "machine", "world", "internal"]
    """Whose it is: what was asked, this machine, a world that came out other than asked, or the program."""
    message: str
    """What was wrong, and where."""
    remedy: str = ""
    """What to do; may be empty."""


Record = WorldRecord | LoadRecord | TransactionsRecord | PacketsRecord | EndRecord | ErrorRecord


@cache
def record_adapter() -> TypeAdapter[Record]:
    """What reads a record, by its `type`; made when it is first needed."""
    return TypeAdapter(Annotated[Record, Field(discriminator="type")])


class RecordError(ValueError):
    """A line that the contract does not allow; the text says why."""


class ContractError(RecordError):
    """A world that speaks another version of the contract."""


def parse_record(line: bytes | str) -> Record:
    """One line of the program's output. Raises RecordError, and ContractError for another contract."""
    try:
        record = record_adapter().validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    if isinstance(record, WorldRecord) and record.contract != CONTRACT:
        raise ContractError(
            f"the world program speaks contract {record.contract}, this is contract {CONTRACT}"
        )
    return record
