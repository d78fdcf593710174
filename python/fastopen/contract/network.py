"""Define the settings of the emulated network of a job, and of TCP at both ends."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from fastopen.common.pydantic_errors import conflict
from fastopen.contract.part import RTT_MAX_US, Part, RttUs
from fastopen.pages.model import Bytes

RATE_MIN_BIT_PER_S: Final = 64_000
RATE_MAX_BIT_PER_S: Final = 1_000_000_000
LOSS_MAX: Final = 0.5
TRACE_MAX_MS: Final = 24 * 60 * 60 * 1000
# Paths that break QUIC and let TCP pass.
QUIC_PATHS: Final = ("block-udp", "limit-udp", "drop-0rtt", "delay-initial", "rebind", "drop-large-udp")
# Paths that break connections whose ClientHello takes several packets.
LARGE_HELLO_PATHS: Final = ("drop-split-hello", "rst-split-hello", "stall-second-segment", "drop-large-udp")
Ip = Literal["4", "6", "4+6"]
# Sizes of IP headers without options and extensions (RFC 791 section 3.1, RFC 8200 section 3). With both
# versions, clients prefer IPv6 (RFC 6724 section 2.1).
IP_HEADER_BYTES: Final[dict[Ip, int]] = {"4": 20, "6": 40, "4+6": 40}
# RFC 8200 section 5. Linux switches IPv6 off on interfaces with a smaller MTU.
IPV6_MTU_MIN_BYTES: Final = 1280
# QUIC works only on paths that carry UDP datagrams of this size: a payload of 1200 bytes and the UDP header.
QUIC_UDP_BYTES: Final = 1208
# Kinds of name lookups that use TLS.
ENCRYPTED_NAMES: Final = ("dot", "doh")
Path = Literal[
    "none",
    "drop-syn-data",
    "drop-option",
    "drop-synack-option",
    "strip-option",
    "strip-data",
    "strip-both",
    "strip-synack-option",
    "break-cookie",
    "rst-syn-data",
    "drop-synack",
    "drop-answers",
    "drop-split-hello",
    "rst-split-hello",
    "stall-second-segment",
    "block-udp",
    "limit-udp",
    "drop-0rtt",
    "delay-initial",
    "rebind",
    "drop-large-udp",
    "block-ipv6",
]
NameLookup = Literal["none", "do53", "tcp", "dot", "doh"]
Distribution = Literal["normal_us", "uniform_us"]
JitterUs = Annotated[int, Field(ge=1, le=RTT_MAX_US)]


class LinkDirection(Part):
    """One direction of the access link."""

    rate_bit_per_s: Annotated[int, Field(ge=RATE_MIN_BIT_PER_S, le=RATE_MAX_BIT_PER_S)] | None
    """The rate, counted in bytes of IP packets without the Ethernet header; null: no limit."""
    trace_ms: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    """A Mahimahi trace, repeated endlessly: each number is a millisecond at which a 1500-byte packet may
    leave. Requires a null rate. The numbers must not decrease; the last must be above 0 and within a day."""
    queue_bytes: Annotated[Bytes, Field(ge=1)] | None
    """The size of the queue: bytes that may wait for the link; null: no limit."""
    aqm: Literal["none", "codel", "fq_codel", "drr"] = "none"
    """The rule for dropping packets in the queue: `none` drops packets that do not fit, `codel` also packets
    that wait too long (RFC 8289), `fq_codel` uses codel in a queue for each flow (RFC 8290). `drr` has a
    queue of `queue_bytes` for each flow, without codel, and serves the queues in turn, by bytes."""
    loss: Annotated[float, Field(ge=0, le=LOSS_MAX)] = 0.0
    """The probability that a packet is lost at random."""
    jitter: Annotated[dict[Distribution, JitterUs], Field(min_length=1, max_length=1)] | None = None
    """The distribution of each packet's delay around the delay of the direction: `{"normal_us": ...}` with
    this standard deviation, or `{"uniform_us": ...}` with at most this difference; null: no variation."""
    reorder: bool = False
    """True if packets may overtake each other when the delay varies. If false, a packet that would overtake
    another packet arrives together with that packet."""

    @model_validator(mode="after")
    def _trace_is_valid(self) -> Self:
        trace = self.trace_ms
        if trace is not None and self.rate_bit_per_s is not None:
            raise ValueError("a trace needs rate null")
        if trace is not None and (sorted(trace) != trace or not 0 < trace[-1] <= TRACE_MAX_MS):
            raise ValueError("a trace does not decrease, and ends after 0 ms and within a day")
        return self


class Network(Part):
    """The access link with its other traffic, the hosts and middlebox behind it, and the resolver."""

    rtt_us: RttUs
    """The RTT. Half of the RTT is added in each direction."""
    down: LinkDirection
    up: LinkDirection
    host_extra_rtt_us: dict[str, RttUs] = Field(default_factory=dict)
    """Maps hosts of the page to their extra RTTs. Half is added before the queue on the way down, half after
    the link on the way up."""
    ip: Ip = "4"
    """The version of IP of all hosts, the client and the resolver. `4+6`: each host has an IPv4 and an IPv6
    address. The client chooses one of them (RFC 8305), and queries the resolver over IPv6."""
    mtu_bytes: Annotated[int, Field(ge=576, le=1500)] = 1500
    """The largest IP packet. With IPv6, it must be at least 1280."""
    link: Literal["auto", "program", "kernel"] = "auto"
    """The implementation of the link. `program`: the link model of fastopen's Rust program. `kernel`: Linux's
    `netem` and `tbf`, without traces, jitter, `drr` or extra RTTs of hosts. `auto`: `program` on the engine
    `host`; on `virtual`, `kernel` if it delays every packet exactly as the link model does (never with an
    AQM), otherwise `program`. A `path` always requires `program`. The world's record shows the choice."""
    cross: Annotated[dict[Literal["down", "up"], Literal["bulk"]], Field(min_length=1)] | None = None
    """Traffic that shares the link with each load, by direction: `bulk`, a TCP flow that always has data to
    send. Each load has a new flow, which starts 4.096 s before the load. The direction must have a rate or a
    trace. null: no traffic."""
    path: Path = "none"
    """The effect of a middlebox behind the link on TFO, TLS, QUIC or IPv6, see [paths](../paths.md)."""
    path_hosts: list[str] | None = None
    """Hosts of the page behind the middlebox; null: all."""
    path_share: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The probability that each host in `path_hosts` is behind the middlebox. The job's seed decides."""
    names: NameLookup = "none"
    """The protocol for lookups of hosts' addresses. `none`: the client knows them. `do53`: a resolver behind
    the link, queried over UDP (RFC 1035), once for each name of a load. `tcp`: over one TCP connection, with
    Fast Open if the load uses it. `dot`: over one TLS connection (RFC 7858). `doh`: over one HTTPS connection
    with HTTP/2 and a GET per name (RFC 8484). `dot` and `doh` use the job's `tls` even in cleartext loads."""
    resolver_rtt_us: RttUs | None = None
    """The RTT to the resolver, without queueing delay; null: the link's RTT. If it differs from the link's
    RTT, the link is emulated by fastopen's Rust program instead of by the kernel."""
    resolver: Literal["answers", "drop-first", "silent", "nxdomain"] = "answers"
    """The behaviour of the resolver. `drop-first`: the resolver ignores the first query for each name and
    type. `silent`: it ignores all queries. `nxdomain`: it knows no name. The loader sends a second query
    after 5 s, and gives up 5 s later, as glibc's stub resolver does (resolv.conf(5))."""

    @property
    def quic_mtu_min_bytes(self) -> int:
        """Return the smallest MTU that QUIC can use (RFC 9000 section 14)."""
        return QUIC_UDP_BYTES + IP_HEADER_BYTES[self.ip]

    @model_validator(mode="after")
    def _settings_are_compatible(self) -> Self:
        if self.ip != "4" and self.mtu_bytes < IPV6_MTU_MIN_BYTES:
            message = f"IPv6 needs an MTU of {IPV6_MTU_MIN_BYTES} bytes (RFC 8200 section 5)"
            raise conflict(message, "use a larger --mtu, or --ip=4", "network.ip", "network.mtu")
        if self.path == "block-ipv6" and self.ip == "4":
            message = "a path that blocks IPv6 has no effect on IPv4"
            raise conflict(message, "use --ip=4+6", "network.path", "network.ip")
        for way in self.cross or ():
            limit = self.down if way == "down" else self.up
            if limit.rate_bit_per_s is None and limit.trace_ms is None:
                message = f"a bulk flow needs a rate limit, but --{way} has none"
                raise conflict(message, f"set --{way} or --{way}-trace", "network.cross", f"network.{way}")
        ways = (self.down, self.up)
        plain = all(way.trace_ms is None and way.jitter is None and way.aqm != "drr" for way in ways)
        plain &= self.resolver_rtt_us in (None, self.rtt_us) and not any(self.host_extra_rtt_us.values())
        if self.link == "kernel" and not plain:
            keys = ("link", "down_trace", "up_trace", "jitter", "aqm", "extra_rtt", "resolver_rtt")
            message = "the kernel's link supports no traces, jitter, drr or extra RTTs of hosts"
            raise conflict(message, "use --link=program", *(f"network.{key}" for key in keys))
        return self


# Congestion controls that both the kernel and the QUIC implementation have.
QUIC_CONGESTION_CONTROLS: Final = ("cubic", "reno")


class Tcp(Part):
    """The TCP settings of both ends."""

    congestion_control: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,15}$")] = "cubic"
    """The kernel's name of the congestion control algorithm: 1 to 15 lower-case letters, digits, `-`, `_`."""
    initial_window_segments: Annotated[int, Field(ge=1, le=1000)] = 10
    """The initial congestion window, set on the routes of both ends."""
    slow_start_after_idle: bool = True
    """`net.ipv4.tcp_slow_start_after_idle` of both ends: true if the congestion window shrinks, but not below
    its initial size, when a connection sends nothing for longer than its retransmission timeout."""
    blackhole_timeout_s: Annotated[int, Field(ge=0, le=86_400)] = 0
    """`net.ipv4.tcp_fastopen_blackhole_timeout_sec` of both ends: the time for which an end opens connections
    without TFO after it suspected a black hole (docs/paths.md). 0: no detection. Each load begins without a
    suspected black hole."""
    client_fastopen: Literal["0x1", "0x5"] = "0x1"
    """`net.ipv4.tcp_fastopen` of the client in loads with TFO. `0x1`: data in SYNs requires a cookie. `0x5`:
    the first SYN of each connection has data, but neither a cookie nor a cookie request."""
    listener_fastopen: Literal["0x1", "0x2", "0x202", "0x402", "0x602"] = "0x2"
    """`net.ipv4.tcp_fastopen` of the hosts. `0x1`: Linux's default, without TFO for servers. `0x2`: data is
    accepted with a valid cookie. `0x202`: data is accepted with any cookie or none, and no cookies are given.
    `0x402` and `0x602` are like `0x2` and `0x202`, but the kernel gives every listener a Fast Open queue.
    Warm cookies come from an earlier visit, when the setting was `0x2`."""
