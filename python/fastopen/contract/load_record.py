"""Define the record of a page load: requests, connections, and TCP statistics of client and servers."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from fastopen.common.pydantic_errors import Items
from fastopen.contract.invalid_kinds import Invalid
from fastopen.contract.job import Cookies, Transport
from fastopen.contract.origins import TlsVersion
from fastopen.contract.part import Count, RecordPart

# The time of an event. If a field of this type may be null, null means that the event did not happen.
Nanoseconds = Annotated[int, Field(ge=0)]


class Counters(RecordPart):
    """The growth of the kernel's counters during the load, keyed by their names in /proc/net/netstat (TcpExt)
    and /proc/net/snmp (Tcp). UDP counters have the prefix `Udp`. Counters that did not grow are left out."""

    client: dict[str, int]
    origins: dict[str, int]


class LinkUse(RecordPart):
    """Statistics of one direction of the link: packets, bytes, drops, lateness (0 with the kernel's link)."""

    packets: Count
    """The number of packets that were accepted: released, or still under way at the end of the load."""
    bytes: Count
    """The total size of all accepted IP packets."""
    dropped_queue: Count
    """The number of packets dropped because the queue was full, or by active queue management (`aqm`)."""
    dropped_loss: Count
    """The number of packets that were lost at random."""
    dropped_path: Count = 0
    """The number of packets that a middlebox dropped, or answered itself."""
    overruns: Count
    """The number of packets lost in the kernel on the way to the link, or because the interface was gone."""
    queue_bytes_max: Count | None
    """The largest number of bytes in the queue; null if the kernel's link does not report it."""
    late_us_p50: Count
    """Median lateness in microseconds: time from when a packet was due to leave the link until it left."""
    late_us_p99: Count
    """The 99th percentile of the lateness of packets (see `late_us_p50`), in microseconds."""
    late_us_max: Count
    """The largest lateness of a packet (see `late_us_p50`), in microseconds."""


class Link(RecordPart):
    """The use of both directions of the link during the load."""

    down: LinkUse
    up: LinkUse


class Resolver(RecordPart):
    """The numbers of DNS queries for one name that the resolver received and answered."""

    queries: Count
    """The number of queries that arrived at the resolver."""
    answers: Count
    """The number of queries that the resolver answered."""


class Lookup(RecordPart):
    """The lookup of one name. Times are in nanoseconds since the start of the load."""

    host: str
    asked_ns: Nanoseconds
    """The time of the client's first query."""
    answered_ns: Nanoseconds | None
    """The time at which the client knew the address; null: never. If the client does not report this time, it
    is the arrival of the resolver's first answer."""
    queries: Count
    """The number of queries that the client sent or, if unreported, that reached the resolver."""
    error: str | None = None
    """The reason for a failed lookup; null: it did not fail."""
    resolver: Resolver


class Request(RecordPart):
    """One request of a load. Times are in ns since the load's start, or null if the event did not happen."""

    resource: Count
    """The index of the resource in the page."""
    url: str | None = None
    """With recorded bodies: the requested URL, if it differs from the resource's URL in port or query, or
    names another version of the same picture (`srcset`)."""
    connection: Count | None
    """The id of the connection that carried the request; null: none did."""
    queued_ns: Nanoseconds | None
    """The time at which the client could request the resource: after discovery and any processing delay."""
    connect_start_ns: Nanoseconds | None
    """The time at which the connection was opened; null unless the request was the connection's first."""
    connected_ns: Nanoseconds | None
    """The time when the connection became writable; null unless the request was the connection's first."""
    sent_ns: Nanoseconds | None
    """The time at which the client began to write the request."""
    first_byte_ns: Nanoseconds | None
    """The time of the response's first byte."""
    end_ns: Nanoseconds | None
    """The time of the response's last byte."""
    status: Annotated[int, Field(ge=0, le=65535)] | None
    header_bytes: Count
    """The size of the response's head."""
    body_bytes: Count
    """The size of the response's body."""
    cache: Literal["fresh", "revalidated", "shared"] | None = None
    """The use of a cached response. fresh: no request was sent (no connection, no bytes; `status` is the
    status that the page sees). revalidated: the origin confirmed the response (`status` 304, no body).
    shared: the browser aborted the response and used the rest of another response with the same URL. null:
    the response came over the network."""
    error: str | None
    """The reason for a failed request; null: it did not fail."""


class Evidence(RecordPart):
    """TCP_INFO of one end of a connection. For a connection that ended during the load, it is read when this
    end closes the connection, so the FIN of this end is not counted."""

    syn_data_acked: bool
    """True if TCPI_OPT_SYN_DATA is set: data in the SYN was acknowledged (client) or accepted (origin)."""
    options: Annotated[int, Field(ge=0, le=255)]
    """Flags TCPI_OPT_*."""
    fastopen_client_fail: Annotated[int, Field(ge=0, le=255)]
    """The kernel's reason why Fast Open failed: a constant TFO_* of linux/tcp.h."""
    rtt_us: Count
    min_rtt_us: Count
    bytes_sent: Count
    """Bytes sent, including retransmissions."""
    bytes_received: Count
    segments_out: Count
    """The number of segments sent, including retransmissions."""
    segments_in: Count
    """The number of segments received, including duplicates."""
    retransmits: Count
    """The number of retransmitted segments."""


class OriginTlsSession(RecordPart):
    """A TLS handshake that was completed or had early data, as the origin observed it."""

    resumed: bool
    early_bytes: Count
    """The number of bytes of early data that the origin had read when the handshake was complete."""
    answer_held_ns: Nanoseconds
    """The time for which the origin held its first response back until the handshake's end; 0: not at all."""


class TlsSession(RecordPart):
    """A connection's TLS handshake, reported by the built-in loader, or by the origin for other clients."""

    secured_ns: Nanoseconds
    """The end of the handshake at the client, if the loader or Chromium reports it. Otherwise, the time when
    the client would have sent its last handshake message if nothing had delayed the message."""
    version: TlsVersion
    cipher: str
    """The cipher in rustls' spelling: IANA's name, but with `TLS13_` for 1.3 where IANA has `TLS_`. For QUIC,
    cipher and group are those that both ends prefer, since quinn does not report the negotiated ones."""
    group: str | None
    """The group of the key exchange; null for a resumed session of TLS 1.2."""
    alpn: str | None
    """The application protocol; null: none was negotiated."""
    resumed: bool
    """True if the connection resumed an earlier session."""
    early_bytes: Count = 0
    """The number of bytes of accepted early data."""
    hello_bytes: Count
    """The size of the ClientHello; 0 for QUIC, which pads it to whole datagrams."""
    sent_bytes: Count
    """Bytes sent until the end of the handshake, including early data."""
    received_bytes: Count
    """Bytes received until the end of the handshake, including responses to early data."""
    origin: OriginTlsSession | None = None
    """The origin's view; null if the origin saw neither the handshake's end nor early data."""


class TcpSample(RecordPart):
    """TCP_INFO of the origin's end of a connection at one point in time."""

    at_ns: Nanoseconds
    """The time since the start of the load."""
    congestion_window_segments: Count
    in_flight_segments: Count
    """The number of segments neither acknowledged nor considered lost, including retransmitted segments."""
    segment_bytes: Count
    """The maximum segment size for sending."""
    rtt_us: Count
    """The smoothed RTT."""


class Packets(RecordPart):
    """The numbers of QUIC packets that crossed a socket in one direction, by type. Packets that share a
    datagram are counted by their length fields (RFC 9000 section 12.2)."""

    datagrams: Count
    """The number of UDP datagrams."""
    bytes: Count
    """Bytes in the datagrams, without headers of UDP and IP."""
    initial: Count
    zero_rtt: Count
    """The number of packets with early data."""
    handshake: Count
    one_rtt: Count
    """The number of packets with a short header."""
    retry: Count


class QuicEnd(RecordPart):
    """The numbers of packets that one end of a QUIC connection sent, received and lost, and the end's RTT."""

    sent: Packets
    received: Packets
    lost_packets: Count | None
    """Packets that this end reports as lost (RFC 9002 section 6). null if this end is a client that is not
    part of fastopen and reports nothing; `sent` and `received` are then counted at the client's interface."""
    rtt_us: Count | None
    """The smoothed RTT that this end reports; null in the same cases as `lost_packets`."""


class Quic(RecordPart):
    """The numbers of packets that crossed the sockets of both ends of a QUIC connection."""

    client: QuicEnd
    origin: QuicEnd | None
    """The values for the origin's end; null if no packet of the connection reached the origin's socket."""


class Connection(RecordPart):
    """One connection of a load, with measurements of both ends."""

    id: Count
    """The number of the connection in the load."""
    host: str
    """The server's host, as the page names it."""
    port: Count
    client_port: Count | None
    opened_ns: Nanoseconds
    """The time at which the client called `connect`."""
    connected_ns: Nanoseconds | None
    """The time at which the connection became writable; null: never."""
    handshake_us: Count | None
    """Time from opening to the end of the TCP handshake; null with QUIC or if the client did not await it."""
    tls: TlsSession | None = None
    """The TLS handshake; null in cleartext, or if the handshake did not end."""
    multiplexed: bool = False
    """True if the connection can carry several requests at once (HTTP/2 and HTTP/3)."""
    requests: Count
    """The number of requests that the connection carried."""
    client: Evidence | None
    """TCP_INFO of the client's end; null if it was not observed, or if the connection is not TCP."""
    origin: Evidence | None
    """TCP_INFO of the origin's end; null if it was not observed, or if the connection is not TCP."""
    quic: Quic | None = None
    """Packet counts of a QUIC connection (the kernels do not count QUIC packets); null for TCP."""
    origin_samples: Items[TcpSample] = Field(default=[])
    """TCP_INFO of the origin's end over time, if the job requested it (`tcp_trace`), sampled at intervals of
    a twentieth of the RTT (1 ms at least, 10 ms at most). A sample equal to the previous one is left out. If
    a load has more than 40,000 samples, every second sample is dropped, and the interval doubles."""
    address: str | None = None
    """The server's IP address; null only in runs of earlier versions."""

    @property
    def carried_syn_data(self) -> bool:
        """Return True if data in the SYN was acknowledged, according to the kernel of either end."""
        return any(end is not None and end.syn_data_acked for end in (self.client, self.origin))


class GivenUp(RecordPart):
    """The numbers of connections that the client closed without a request, before the server answered
    (SYN_SENT). Browsers do this with surplus connections. A load with such connections can be valid."""

    connections: Count = 0
    syn_data: Count = 0
    """The number of given-up connections whose SYN had data that the origin accepted."""


class CrossTraffic(RecordPart):
    """The numbers of bytes of cross traffic that the receivers' kernels received in order during the load."""

    down_bytes: Count | None
    """Bytes to the client; null: no cross traffic was requested in this direction."""
    up_bytes: Count | None
    """Bytes from the client; null: no cross traffic was requested in this direction."""


class Frame(RecordPart):
    """A screenshot of the page as the browser showed it from the time `at_ns` on."""

    at_ns: Nanoseconds
    """The time since the navigation's start; 0: the screenshot from before the navigation."""
    jpeg: str
    """The screenshot as a JPEG, in base64."""


class Browser(RecordPart):
    """The times, screenshots and dialogs that a browser reported. Times are in ns since navigation began."""

    product: str
    load_event_ns: Nanoseconds
    """The end of the load event."""
    dom_content_loaded_ns: Nanoseconds
    """The end of the event DOMContentLoaded."""
    first_contentful_paint_ns: Nanoseconds | None
    """First contentful paint; null: nothing was painted."""
    largest_contentful_paint_ns: Nanoseconds | None
    """Largest contentful paint; null: nothing was painted."""
    screenshot_png: str | None = None
    """The screenshot at the end of the load as a PNG, in base64, if the job requested it."""
    screenshot_error: str | None = None
    """The reason why `screenshot_png` is missing although the job requested a screenshot."""
    frames: Items[Frame] = Field(default=[])
    """The screenshots of the page in order of time, if the job requested them."""
    frames_dropped: Count = 0
    """The number of screenshots that were left out, since a load keeps at most 4 MiB of screenshots."""
    dialogs: Count = 0
    """The number of dialogs that the page opened (`alert` and the like). Each was answered immediately."""


class Listener(RecordPart):
    """The listeners of an external server on one address and port, and their connections during the load."""

    address: str
    """The address of a host, or the wildcard address."""
    port: Count
    fastopen_queue: Count | None
    """The size of the smallest Fast Open queue (TCP_FASTOPEN) of the listeners: the number of connections
    with data in the SYN that may wait for the handshake's end. 0: no queue; null: it could not be read."""
    connections: Count
    """The number of the load's connections to the listeners on this address and port."""
    syn_data: Count
    """The number of connections with data in their SYN that the kernel accepted (TCPI_OPT_SYN_DATA)."""


class Upstream(RecordPart):
    """Counts of an external server's connections to the origins behind it during a load."""

    connections: Count
    """The number of connections that the external server opened to the origins."""
    syn_data: Count
    """The number of connections with data in their SYN that the origins' kernel accepted."""


class Server(RecordPart):
    """Connections to an external server, and from this server to the origins behind it, counted by the
    kernel. The counter TCPFastOpenListenOverflow of the origin servers shows whether a TFO queue was full."""

    listeners: Items[Listener]
    """Listeners on the port that the client connects to."""
    upstream: Upstream = Upstream(connections=0, syn_data=0)
    """Counts of the server's connections to the origins behind it; 0 if missing, as in older records."""


class LoadRecord(RecordPart):
    """One page load: its time, requests and connections."""

    type: Literal["load"]
    job: str
    id: str
    transport: Transport
    cookies: Cookies
    valid: bool
    """True if the load's evidence meets its expectation, so that its results can be used."""
    invalid: Items[Invalid]
    """The reasons why the load is invalid; empty for a valid load."""
    plt_ns: Nanoseconds | None
    """The page load time; null: the load did not finish."""
    started_unix_ms: Count
    """The time at which the load began, in milliseconds since 1970 (UTC)."""
    client_address: str
    """The client's address, different for each load; with both versions of IP, its IPv6 address."""
    cookies_before: Count
    """The number of TFO cookies of the page's origins that the client held at the beginning."""
    seen_at: Literal["client", "origins"] = "client"
    """The side that measured the times of requests and connections: the client or the origins."""
    browser: Browser | None = None
    """The browser's measurements; null: the client is not a browser, or failed before it had any."""
    unknown_requests: Count = Field(
        default=0, validation_alias=AliasChoices("unknown_requests", "strange_requests")
    )
    """The number of requests for resources that the page does not have. Origins answered them with 404."""
    unmatched: list[str] = Field(default=[])
    """The unknown requests, each with its method: `GET http://a.test/x`."""
    lookups: Items[Lookup] = Field(default=[])
    """Name lookups, in the order of their queries; empty if the network's `names` is `none`."""
    requests: Items[Request]
    """Requests in the order of the page's resources, or in order of arrival if observed at the origins."""
    connections: Items[Connection]
    """Connections, in the order in which they were opened."""
    given_up: GivenUp = GivenUp()
    counters: Counters
    link: Link | None
    """The use of the link; null: the world program failed, so the Python code wrote the record."""
    cross: CrossTraffic | None = None
    """Cross traffic; null: none was requested."""
    server: Server | None = None
    """The kernel's report on an external server; null: the client connected to the origins."""

    @property
    def plt_ms(self) -> float | None:
        return None if self.plt_ns is None else self.plt_ns / 1e6

    @property
    def reasons(self) -> list[str]:
        """Return the reasons why the load is invalid, each with its kind: `link_late: 9 us`."""
        return [f"{one.kind}: {one.detail}" for one in self.invalid]

    @property
    def connection_count(self) -> int:
        """Return the number of connections that the client opened and did not give up (`given_up`)."""
        return len(self.connections) - self.given_up.connections

    @property
    def syn_data_connections(self) -> int:
        """Return the number of connections with acknowledged SYN data, except those in `given_up`."""
        return sum(connection.carried_syn_data for connection in self.connections) - self.given_up.syn_data

    @property
    def retransmitted(self) -> int:
        """Return the number of segments that either end retransmitted."""
        ends = [end for connection in self.connections for end in (connection.client, connection.origin)]
        return sum(end.retransmits for end in ends if end is not None)
