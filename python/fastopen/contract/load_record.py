"""The record of a load: its requests and connections, and the evidence of both ends."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from fastopen.common.pydantic_errors import Items
from fastopen.contract.job import Cookies, Transport
from fastopen.contract.origins import TlsVersion
from fastopen.contract.record_part import Count, Counters, Invalid, Link, RecordPart

# Null if the event did not happen.
Nanoseconds = Annotated[int, Field(ge=0)]


class Resolver(RecordPart):
    """The resolver's view of the lookup of one name."""

    queries: Count
    """Queries that arrived."""
    answers: Count
    """Queries that it answered."""


class Lookup(RecordPart):
    """The lookup of one name. Times are in nanoseconds since the start of the load."""

    host: str
    asked_ns: Nanoseconds
    """The client's first query."""
    answered_ns: Nanoseconds | None
    """The time at which the client knew the address; null: never. For clients that do not report it, the
    arrival of the resolver's first answer."""
    queries: Count
    """Queries that the client sent, or for clients that do not report them, queries that arrived."""
    error: str | None = None
    """The reason of a failed lookup."""
    resolver: Resolver


class Request(RecordPart):
    """One request of a load. Times are in nanoseconds since the start of the load, null for events that did
    not happen.
    """

    resource: Count
    """The index of the resource in the page."""
    url: str | None = None
    """With recorded bodies: the requested URL, if it differs from the resource's in port or query, or is
    another choice of the same picture."""
    connection: Count | None
    """The id of the connection that carried the request."""
    queued_ns: Nanoseconds | None
    """The time at which the client may request the resource: its initiator has named it, and processing is
    over."""
    connect_start_ns: Nanoseconds | None
    """The time at which the request's connection was opened; null unless the request was the first on it."""
    connected_ns: Nanoseconds | None
    """The time at which the connection was writable; null unless the request was the first on it."""
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
    """The use of a cached response: used without a request (no connection, no bytes; `status` is the page's
    view), or validated by the origin (`status` 304, no body). shared: the browser aborted the response and
    took its end from another one of the same URL. null: the response came over the network."""
    error: str | None
    """The reason of a failed request."""


class Evidence(RecordPart):
    """TCP_INFO of one end of a connection.

    For a connection that ended during the load it is read when its end closed it, so its own FIN is not among
    its segments.
    """

    syn_data_acked: bool
    """True if data in the SYN was acknowledged."""
    options: Annotated[int, Field(ge=0, le=255)]
    """TCPI_OPT_*."""
    fastopen_client_fail: Annotated[int, Field(ge=0, le=255)]
    """The reason of a failed Fast Open (TFO_*)."""
    rtt_us: Count
    min_rtt_us: Count
    bytes_sent: Count
    """Bytes sent, with retransmissions."""
    bytes_received: Count
    segments_out: Count
    """Segments sent, with retransmissions."""
    segments_in: Count
    """Segments received, with repeated ones."""
    retransmits: Count
    """Retransmitted segments."""


class OriginTlsSession(RecordPart):
    """The origin's view of a connection's TLS handshake."""

    resumed: bool
    early_bytes: Count
    """Bytes of early data that it had read when the handshake was complete."""
    answer_held_ns: Nanoseconds
    """The time for which it held its first response back until the handshake was complete; 0 if it did not
    wait for that."""


class TlsSession(RecordPart):
    """The client's view of a connection's TLS handshake. For clients other than the loader it is the origin's
    view."""

    secured_ns: Nanoseconds
    """The end of the handshake at the client. Seen at the origin: the time at which the client would have
    sent its last handshake message if nothing had delayed it. Chromium's times are the browser's own."""
    version: TlsVersion
    cipher: str
    """The cipher in rustls' spelling: IANA's name, but with `TLS13_` for 1.3 where IANA has `TLS_`. For QUIC,
    cipher and group are those that both ends prefer, since quinn does not report the negotiated ones."""
    group: str | None
    """The group of the key exchange; null: a resumed session of 1.2."""
    alpn: str | None
    """The application protocol; null: none was negotiated."""
    resumed: bool
    """True if the connection resumed an earlier session."""
    early_bytes: Count = 0
    """Bytes of accepted early data."""
    hello_bytes: Count
    """The size of the ClientHello; 0 for QUIC, which pads it to whole datagrams."""
    sent_bytes: Count
    """Bytes sent until the end of the handshake, with early data."""
    received_bytes: Count
    """Bytes received until the end of the handshake, with responses to early data."""
    origin: OriginTlsSession | None = None
    """The origin's view; null: the handshake did not end there, and had no early data."""


class TcpSample(RecordPart):
    """TCP_INFO of the origin's end of a connection at one time."""

    at_ns: Nanoseconds
    """The time since the start of the load."""
    congestion_window_segments: Count
    in_flight_segments: Count
    """Segments neither acknowledged nor considered lost, with retransmitted ones."""
    segment_bytes: Count
    """The maximum segment size for sending."""
    rtt_us: Count
    """The smoothed RTT."""


class Packets(RecordPart):
    """QUIC packets that crossed a socket in one direction, by type, counted from the datagrams. Length fields
    separate packets that share a datagram (RFC 9000 section 12.2).
    """

    datagrams: Count
    """UDP datagrams."""
    bytes: Count
    """Bytes in the datagrams, without headers of UDP and IP."""
    initial: Count
    zero_rtt: Count
    """Packets of early data."""
    handshake: Count
    one_rtt: Count
    """Packets with a short header."""
    retry: Count


class QuicEnd(RecordPart):
    """One end of a QUIC connection."""

    sent: Packets
    received: Packets
    lost_packets: Count | None
    """Packets that it considered lost, by its own account (RFC 9002 section 6). null: a client that is not
    part of fastopen, which does not report them; its packets are those that passed its interface."""
    rtt_us: Count | None
    """The smoothed RTT, by its own account. null: as `lost_packets`."""


class Quic(RecordPart):
    """The packets that crossed the sockets of both ends of a QUIC connection."""

    client: QuicEnd
    origin: QuicEnd | None
    """The origin's end; null: its socket saw nothing of the connection."""


class Connection(RecordPart):
    """One connection of a load, with the evidence of both ends."""

    id: Count
    """The number of the connection in the load."""
    host: str
    """The host of its server, by the page's name."""
    port: Count
    client_port: Count | None
    opened_ns: Nanoseconds
    """The time at which the client called `connect`."""
    connected_ns: Nanoseconds | None
    """The time at which the connection was writable; null: never."""
    handshake_us: Count | None
    """The time from opening to established, for a connection that waited for TCP's handshake."""
    tls: TlsSession | None = None
    """The TLS handshake; null: cleartext, or a handshake that did not end."""
    multiplexed: bool = False
    """True if it carried several requests at once (HTTP/2 and HTTP/3)."""
    requests: Count
    """The number of requests that it carried."""
    client: Evidence | None
    """The kernel's view of the client's end."""
    origin: Evidence | None
    """The kernel's view of the origin's end."""
    quic: Quic | None = None
    """The traffic of its sockets, if it is a QUIC connection, on which the kernels have no view. null:
    TCP."""
    origin_samples: Items[TcpSample] = Field(default=[])
    """The origin's end over time, if the job requested it (`tcp_trace`): a sample each twentieth of the RTT
    (1 ms at least, 10 ms at most) that differs from the previous one. If a load has more than 40,000 samples,
    every second one is dropped, and the interval doubles."""

    @property
    def carried_syn_data(self) -> bool:
        """Return True if either end's kernel saw data in the SYN acknowledged."""
        return any(end is not None and end.syn_data_acked for end in (self.client, self.origin))


class GivenUp(RecordPart):
    """Connections without a request that the client closed before a segment of the server came (SYN_SENT).
    Browsers close surplus ones in this way; no rule of evidence counts them.
    """

    connections: Count = 0
    syn_data: Count = 0
    """Given-up connections that sent data in the SYN which the origin accepted, although the client did not
    wait for the response."""


class CrossTraffic(RecordPart):
    """The bytes that cross traffic moved during the load: those that its receivers' kernels received in
    order."""

    down_bytes: Count | None
    """Bytes to the client; null: none was requested in that direction."""
    up_bytes: Count | None
    """Bytes from the client; null: none was requested in that direction."""


class Frame(RecordPart):
    """The picture that a browser showed from one moment on."""

    at_ns: Nanoseconds
    """The time since the navigation's start; 0: the earlier appearance."""
    jpeg: str
    """The picture, a JPEG in base64."""


class Browser(RecordPart):
    """Metrics of a browser beside the requests; times in nanoseconds since the navigation's start."""

    product: str
    load_event_ns: Nanoseconds
    """The end of the load event, as of DOM content loaded."""
    dom_content_loaded_ns: Nanoseconds
    first_contentful_paint_ns: Nanoseconds | None
    """First contentful paint; null: nothing was painted."""
    largest_contentful_paint_ns: Nanoseconds | None
    """Largest contentful paint; null: nothing was painted."""
    screenshot_png: str | None = None
    """The picture at the end of the load, in base64, if the job requested it."""
    screenshot_error: str | None = None
    """The reason of a missing picture, if the job requested one."""
    frames: Items[Frame] = Field(default=[])
    """The appearances of the page, in order, if the job requested them."""
    frames_dropped: Count = 0
    """Frames that were left out, since a load keeps 4 MiB of them."""
    dialogs: Count = 0
    """Dialogs that the page opened (`alert` and the like). Each was answered at once."""


class Listener(RecordPart):
    """The listeners of an external server on one address and port, and their connections during the load."""

    address: str
    """The address of a host, or the wildcard address."""
    port: Count
    fastopen_queue: Count | None
    """The number of connections with data in their SYN that may wait for the end of their handshake
    (TCP_FASTOPEN): the least of several listeners; 0: none. null: it could not be read."""
    connections: Count
    """Connections of the load to this listener."""
    syn_data: Count
    """Connections with data in their SYN that its kernel accepted (TCPI_OPT_SYN_DATA)."""


class Upstream(RecordPart):
    """Connections of an external server to the origins behind it during a load."""

    connections: Count
    """The number of connections."""
    syn_data: Count
    """Connections with data in their SYN that the origins' kernel accepted."""


class Server(RecordPart):
    """The kernel's report on an external server.

    Connections that found its queue full are counted by TCPFastOpenListenOverflow of the origins' counters.
    """

    listeners: Items[Listener]
    """Listeners on the port that the client connects to."""
    upstream: Upstream = Upstream(connections=0, syn_data=0)
    """Its own connections to the origins behind it; none in records of before they were counted."""


class LoadRecord(RecordPart):
    """One load: its page load time and the evidence."""

    type: Literal["load"]
    job: str
    id: str
    transport: Transport
    cookies: Cookies
    valid: bool
    """True if the load counts."""
    invalid: Items[Invalid]
    """The reasons for which the load does not count."""
    plt_ns: Nanoseconds | None
    """The page load time; null: the load did not finish."""
    started_unix_ms: Count
    """The beginning of the load."""
    client_address: str
    """The client's address, different for each load."""
    cookies_before: Count
    """TFO cookies of these origins that the client held at the beginning."""
    seen_at: Literal["client", "origins"] = "client"
    """The place at which times of requests and connections were observed."""
    browser: Browser | None = None
    """The browser's measurements; null: the client is not a browser, or did not get so far."""
    unknown_requests: Count = Field(
        default=0, validation_alias=AliasChoices("unknown_requests", "strange_requests")
    )
    """Requests for resources that the page does not have. The origins answered with 404."""
    unmatched: list[str] = Field(default=[])
    """The unknown requests, each with its method: `GET http://a.test/x`."""
    lookups: Items[Lookup] = Field(default=[])
    """Lookups, in the order of queries; none unless the network has `names`."""
    requests: Items[Request]
    """Requests, in the order of the page's resources. If observed at the origins, in the order of arrival."""
    connections: Items[Connection]
    """Connections, in the order in which they were opened."""
    given_up: GivenUp = GivenUp()
    counters: Counters
    link: Link | None
    """The use of the link. null in records that the front writes for loads whose world died."""
    cross: CrossTraffic | None = None
    """Cross traffic; null: none was requested."""
    server: Server | None = None
    """The kernel's view of an external server; null: the client talked to the origins."""

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
        """Return the number of segments that either end retransmitted."""
        ends = [end for connection in self.connections for end in (connection.client, connection.origin)]
        return sum(end.retransmits for end in ends if end is not None)
