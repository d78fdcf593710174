"""The record of a load: its requests and connections, and the evidence of both ends."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from fastopen.common.pydantic_errors import Items
from fastopen.contract.job import Cookies, Transport
from fastopen.contract.origins import TlsVersion
from fastopen.contract.record_part import Count, Counters, Invalid, Link, RecordPart

# Null where it was not reached.
Nanoseconds = Annotated[int, Field(ge=0)]


class Resolver(RecordPart):
    """The resolver's view of the lookup of one name."""

    queries: Count
    """How many arrived."""
    answers: Count
    """How many of them it answered."""


class Lookup(RecordPart):
    """The lookup of one name; times in nanoseconds since the start of the load."""

    host: str
    asked_ns: Nanoseconds
    """The client asked for the first time."""
    answered_ns: Nanoseconds | None
    """The client knew the address; null: it did not learn it. Of clients that do not say, when the
    resolver's first answer reached it."""
    queries: Count
    """How many the client sent; of clients that do not say, how many arrived."""
    error: str | None = None
    """Why it failed."""
    resolver: Resolver


class Request(RecordPart):
    """One request of a load; times in nanoseconds since the start of the load, null where not reached."""

    resource: Count
    """Its index in the page."""
    url: str | None = None
    """With recorded bodies: what was asked for, where the resource's own URL differs in port or query, or is
    another choice of the same picture."""
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
    cache: Literal["fresh", "revalidated", "shared"] | None = None
    """What became of a cached answer: used without asking (no connection, no bytes; `status` is what the page
    got), or validated by the origin (`status` 304, no body); shared: the browser cut the answer off and took
    its end from another one of the same URL. null: the answer came over the network."""
    error: str | None
    """Why it failed."""


class Evidence(RecordPart):
    """TCP_INFO of one end of a connection.

    For a connection that ended during the load it is read when its end closed it, so its own FIN is not among
    its segments.
    """

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


class OriginTlsSession(RecordPart):
    """The origin's view of a connection's TLS handshake."""

    resumed: bool
    early_bytes: Count
    """Bytes of early data that it had read before the handshake was complete."""
    answer_held_ns: Nanoseconds
    """How long it held its first answer back until the handshake was complete; 0 where it did not wait for
    that."""


class TlsSession(RecordPart):
    """The client's view of a connection's TLS handshake. For clients other than the loader it is the origin's
    view."""

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


class TcpSample(RecordPart):
    """TCP_INFO of the origin's end of a connection at one time."""

    at_ns: Nanoseconds
    """Since the start of the load."""
    congestion_window_segments: Count
    in_flight_segments: Count
    """Neither acknowledged nor held for lost, with those sent again."""
    segment_bytes: Count
    """The maximum segment size for sending."""
    rtt_us: Count
    """Smoothed."""


class Packets(RecordPart):
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


class QuicEnd(RecordPart):
    """One end of a QUIC connection."""

    sent: Packets
    received: Packets
    lost_packets: Count | None
    """That it held for lost, by its own account (RFC 9002 section 6). null: of a client of others, which does
    not tell; its packets are those that passed its interface."""
    rtt_us: Count | None
    """Smoothed, by its own account. null: as `lost_packets`."""


class Quic(RecordPart):
    """The packets that crossed the sockets of both ends of a QUIC connection."""

    client: QuicEnd
    origin: QuicEnd | None
    """null: the origin's socket saw nothing of it."""


class Connection(RecordPart):
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
    origin_samples: Items[TcpSample] = Field(default=[])
    """The same over time, where the job asked for it (`tcp_trace`): a sample each twentieth of the RTT (1 ms
    at least, 10 ms at most) that differs from the one before. Where a load has more than 40,000
    of them every second goes, and the time between two doubles."""

    @property
    def carried_syn_data(self) -> bool:
        """Return True if either end's kernel saw data in the SYN acknowledged."""
        return any(end is not None and end.syn_data_acked for end in (self.client, self.origin))


class GivenUp(RecordPart):
    """Connections that the client closed before a segment of the server came (SYN_SENT), and that carried no
    request. Browsers do so with surplus ones; no rule of evidence counts them."""

    connections: Count = 0
    syn_data: Count = 0
    """How many of them sent data in the SYN that the origin took, though nobody waited for the answer."""


class CrossTraffic(RecordPart):
    """The bytes that cross traffic moved during the load: those that its receivers' kernels received in
    order."""

    down_bytes: Count | None
    """null: none was asked for in that direction."""
    up_bytes: Count | None
    """The same."""


class Frame(RecordPart):
    """The picture that a browser showed from one moment on."""

    at_ns: Nanoseconds
    """Since the navigation's start; 0: what it showed before."""
    jpeg: str
    """The picture, a JPEG in base64."""


class Browser(RecordPart):
    """Metrics of a browser beside the requests; times in nanoseconds since the navigation's start."""

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
    frames: Items[Frame] = Field(default=[])
    """What it showed each time that this changed, in order, where the job asked for it."""
    frames_dropped: Count = 0
    """How many of these were left out, since a load keeps 4 MiB of them."""
    dialogs: Count = 0
    """How many dialogs the page opened (`alert` and the like); each was answered at once."""


class Listener(RecordPart):
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


class Upstream(RecordPart):
    """The connections of a server of others to the origins behind it during a load."""

    connections: Count
    """How many there were."""
    syn_data: Count
    """How many of these had data in their SYN that the origins' kernel accepted."""


class Server(RecordPart):
    """The kernel's report on an external server.

    Connections that found its queue full are counted by TCPFastOpenListenOverflow of the origins' counters.
    """

    listeners: Items[Listener]
    """On the port that the client connects to."""
    upstream: Upstream = Upstream(connections=0, syn_data=0)
    """Its own connections to the origins behind it; in records of before they were counted none."""


class LoadRecord(RecordPart):
    """One load: its page load time and everything that proves how it went."""

    type: Literal["load"]
    job: str
    id: str
    transport: Transport
    cookies: Cookies
    valid: bool
    """Whether it counts."""
    invalid: Items[Invalid]
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
    unmatched: list[str] = Field(default=[])
    """These, each with its method: `GET http://a.test/x`."""
    lookups: Items[Lookup] = Field(default=[])
    """In the order of asking; none unless the network has `names`."""
    requests: Items[Request]
    """In the order of the page's resources; seen at the origins, in the order in which they arrived."""
    connections: Items[Connection]
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
        """Return the number of connections that were opened and not aborted."""
        return len(self.connections) - self.given_up.connections

    @property
    def syn_data_connections(self) -> int:
        """Return the number of these that carried data in their SYN."""
        return sum(connection.carried_syn_data for connection in self.connections) - self.given_up.syn_data

    @property
    def retransmitted(self) -> int:
        """Segments that either end sent again."""
        ends = [end for connection in self.connections for end in (connection.client, connection.origin)]
        return sum(end.retransmits for end in ends if end is not None)
