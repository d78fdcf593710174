"""What is asked of the world program: one world, and the loads to run in it.

These models are the one source of the contract: the schemas that both halves are tested against and the
tables of docs/contract.md are made of their types, bounds and docstrings (tools/generate.py).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fastopen.clients import CLIENTS, COMMAND, LOADER, PICTURES, ClientKind, ClientType, client_type
from fastopen.errors import any_of
from fastopen.pages import Page
from fastopen.pages.model import Bytes, Microseconds, Phase
from fastopen.pages.url import target_of
from fastopen.pydantic_errors import conflict

CONTRACT: Final = 2
RATE_MIN_BIT_PER_S: Final = 64_000
RATE_MAX_BIT_PER_S: Final = 1_000_000_000
LOSS_MAX: Final = 0.5
RTT_MAX_US: Final = 60_000_000
HEAD_MAX_BYTES: Final = 262_144
TARGET_MAX_BYTES: Final = 65_534
# The kernel's MAX_ARG_STRLEN, less the NUL at the end.
WORD_MAX_BYTES: Final = 131_071
TRACE_MAX_MS: Final = 24 * 60 * 60 * 1000
LOAD_TIMEOUT_MAX_US: Final = 3_600_000_000
START_PHASE_MAX_US: Final = 60_000_000
SCALE_MAX: Final = 1000
# What rustls' clients keep of a host.
TICKETS_MAX: Final = 8
FLOOD_MAX_PER_S: Final = 20_000
ARRIVALS_MAX: Final = 100_000
DURATION_MAX_US: Final = 600_000_000
# A day.
BLACKHOLE_TIMEOUT_MAX_S: Final = 86_400
# Paths that break QUIC and let TCP pass.
QUIC_PATHS: Final = ("block-udp", "limit-udp", "drop-0rtt", "delay-initial", "rebind")
# What QUIC has of the kernel's.
QUIC_CONGESTION_CONTROLS: Final = ("cubic", "reno")
# A datagram of 1200 bytes, which each path of QUIC carries, with the headers of UDP and IPv4.
QUIC_MTU_MIN_BYTES: Final = 1228

Transport = Literal["tcp", "tfo", "tls", "tls+tfo"]
Cookies = Literal["cold", "warm"] | None
Profile = Literal["browser", "mget"]
View = Literal["first", "repeat"]
RequestHeads = Literal["own", "recorded"]
LinkMaker = Literal["auto", "program", "kernel"]
Http = Literal["1.0", "1.1", "2", "3"]
Security = Literal["tls", "recorded"]
SessionStart = Literal["none", "resumed", "early"]
TicketState = Literal["valid", "stale", "expired", "forgotten"]
TlsVersion = Literal["1.2", "1.3"]
RttUs = Annotated[int, Field(ge=0, le=RTT_MAX_US)]
Aqm = Literal["none", "codel", "fq_codel"]
Way = Literal["down", "up"]
ClientFastOpen = Literal["0x1", "0x5"]
ListenerFastOpen = Literal["0x1", "0x2", "0x202", "0x402", "0x602"]
Traffic = Literal["bulk"]
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
    "block-udp",
    "limit-udp",
    "drop-0rtt",
    "delay-initial",
    "rebind",
]
Distribution = Literal["normal_us", "uniform_us"]
JitterUs = Annotated[int, Field(ge=1, le=RTT_MAX_US)]
Arrivals = Literal["rate_per_s", "clients"]
ArrivalCount = Annotated[int, Field(ge=1, le=ARRIVALS_MAX)]
Scale = Annotated[float, Field(ge=0, le=SCALE_MAX)]
NotEmpty = Annotated[str, Field(min_length=1)]


def _can_be_passed_on(word: str) -> str:
    if len(word.encode()) > WORD_MAX_BYTES:
        raise ValueError(f"is longer than {WORD_MAX_BYTES} bytes")
    return word


# Of a command line: what the kernel can pass on.
Word = Annotated[str, Field(pattern=r"^[^\x00]*$"), AfterValidator(_can_be_passed_on)]


class _Part(BaseModel):
    """A part of a job: no key that the contract does not know, no silent conversion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class RateLimit(_Part):
    """One direction of the access link."""

    rate_bit_per_s: Annotated[int, Field(ge=RATE_MIN_BIT_PER_S, le=RATE_MAX_BIT_PER_S)] | None
    """Bytes of IP packets count, without the Ethernet header; null: no limit."""
    trace_ms: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    """A Mahimahi trace, repeated for ever: each number a millisecond at which one packet of 1500 bytes may
    leave. It goes with a null rate, does not decrease, and ends after 0 ms and within a day."""
    queue_bytes: Annotated[Bytes, Field(ge=1)] | None
    """What may wait for the link; null: no limit."""
    aqm: Aqm = "none"
    """Which of the packets that wait are dropped: `none` those for which there is no room, `codel` those that
    wait too long as well (RFC 8289), `fq_codel` the same in a queue for each flow (RFC 8290)."""
    loss: Annotated[float, Field(ge=0, le=LOSS_MAX)] = 0.0
    """The probability with which a packet is lost at random."""
    jitter: Annotated[dict[Distribution, JitterUs], Field(min_length=1, max_length=1)] | None = None
    """How each packet's delay is drawn around that of the direction: `{"normal_us": ...}` with this standard
    deviation, or `{"uniform_us": ...}` with at most so much to either side; null: not at all."""
    reorder: bool = False
    """Whether packets may overtake each other where the delay varies; else one that would overtake arrives
    with the one before it."""

    @model_validator(mode="after")
    def _one_kind_of_rate(self) -> Self:
        if self.trace_ms is not None and self.rate_bit_per_s is not None:
            raise ValueError("a trace goes with a null rate")
        return self

    @model_validator(mode="after")
    def _a_trace_goes_on(self) -> Self:
        trace = self.trace_ms
        if trace is not None and (sorted(trace) != trace or not 0 < trace[-1] <= TRACE_MAX_MS):
            raise ValueError("a trace does not decrease, and ends after 0 ms and within a day")
        return self


class Network(_Part):
    """The access link, both directions, and what single hosts lie further away."""

    rtt_us: RttUs
    """Half of it is spent in each direction."""
    down: RateLimit
    up: RateLimit
    host_extra_rtt_us: dict[str, RttUs] = Field(default_factory=dict)
    """Host name of the page to its extra RTT: half of it is spent before the queue downwards, half after the
    link upwards."""
    mtu_bytes: Annotated[int, Field(ge=576, le=1500)] = 1500
    """The largest IP packet."""
    link: LinkMaker = "auto"
    """Who makes the link: this program after its link model, or the kernel's `netem` and `tbf`, which have
    neither traces, nor jitter, nor extra RTTs of hosts. `auto` is the program on the engine `host`, and on
    `virtual` the kernel where it does the same to the microsecond: not with an AQM, which is `tbf`'s child
    there. With a `path` it is the program in any case; `link` of the world's record says which it was."""
    cross: Annotated[dict[Way, Traffic], Field(min_length=1)] | None = None
    """What shares the link with each load, by direction: `bulk`, a TCP flow that always has something to
    send. It is new for each load and runs for 4.096 s before that begins; its direction has a rate or a
    trace. null: nothing."""
    path: Path = "none"
    """What a middlebox between link and hosts does to TCP Fast Open or to QUIC, see [paths.md](paths.md)."""
    path_hosts: list[str] | None = None
    """The hosts of the page that lie behind it; null: all."""
    path_share: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The probability with which each of these hosts lies behind it, drawn from the seed."""

    @model_validator(mode="after")
    def _a_bulk_flow_has_a_limit(self) -> Self:
        for way in self.cross or ():
            limit = self.down if way == "down" else self.up
            if limit.rate_bit_per_s is None and limit.trace_ms is None:
                message = f"a bulk flow needs a limit to fill, and {way} has none"
                remedy = f"name a rate or a trace for {way}"
                raise conflict(message, remedy, "network.cross", f"network.{way}")
        return self

    @model_validator(mode="after")
    def _the_kernels_link_is_plain(self) -> Self:
        own = [one for way in (self.down, self.up) for one in (way.trace_ms, way.jitter) if one is not None]
        if self.link == "kernel" and (own or any(self.host_extra_rtt_us.values())):
            keys = ("link", "down_trace", "up_trace", "jitter", "extra_rtt")
            message = "the kernel's link has no traces, no jitter, and no extra RTTs of hosts"
            raise conflict(message, "ask for link program", *(f"network.{key}" for key in keys))
        return self


class Tcp(_Part):
    """What both ends' TCP is set to."""

    congestion_control: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,15}$")] = "cubic"
    """As the kernel names it: 1 to 15 lower-case letters, digits, `-` or `_`."""
    initial_window_segments: Annotated[int, Field(ge=1, le=1000)] = 10
    """Of the congestion window, on the routes of both ends."""
    slow_start_after_idle: bool = True
    """`net.ipv4.tcp_slow_start_after_idle` of both ends: whether the congestion window shrinks, at most to
    its initial size, while a connection sends nothing for longer than its retransmission timeout."""
    blackhole_timeout_s: Annotated[int, Field(ge=0, le=BLACKHOLE_TIMEOUT_MAX_S)] = 0
    """`net.ipv4.tcp_fastopen_blackhole_timeout_sec` of both ends: for how long an end does without TFO once
    nothing came back after data in a SYN was taken. 0: it detects nothing. Each load begins without such a
    suspicion."""
    client_fastopen: ClientFastOpen = "0x1"
    """`net.ipv4.tcp_fastopen` of the client in loads with TFO. `0x1`: data in SYNs goes with a cookie. `0x5`:
    the first SYN of each connection has data, and never a cookie or a request for one."""
    listener_fastopen: ListenerFastOpen = "0x2"
    """The same of the hosts. `0x1`: Linux's default, without TFO for servers. `0x2`: data is taken with a
    cookie that fits. `0x202`: and with any, or none; cookies are given no more. `0x402`, `0x602`: the same
    two, and each listener has a queue. Warm cookies are of before, when it was `0x2`."""


PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "browser": {"connections_per_host": 6, "connections_total": 256, "keep_alive": True},
    "mget": {"connections_per_host": 5, "connections_total": 5, "keep_alive": False},
}
_NULL_IS_DEFAULT: Final = (
    "connections_per_host",
    "connections_total",
    "keep_alive",
    "processing_scale",
    "phases",
)


def _with_nulls(schema: dict[str, Any]) -> None:
    """What the profile fills in may be left out or null."""
    for key in _NULL_IS_DEFAULT:
        given = schema["properties"][key]
        schema["properties"][key] = {
            "anyOf": [given, {"type": "null"}],
            "default": given.pop("default", None),
        }
    schema["required"] = [key for key in schema["required"] if key not in _NULL_IS_DEFAULT]


class Client(_Part):
    """What loads the page, and how. What is not given is the profile's own.

    Of an experiment's client the words of `command` still hold placeholders; a job's are what is run.
    """

    model_config = ConfigDict(json_schema_extra=_with_nulls)

    kind: ClientKind = LOADER.kind
    """The built-in loader, a command, or Chromium (see below)."""
    name: NotEmpty | None = None
    """What tables call it, where that is not the kind."""
    command: Annotated[list[Word], Field(min_length=1)] | None = None
    """The program and its arguments: with the kind `command`, and only with it. No word holds a NUL or more
    than 131,071 bytes, and the first is not empty."""
    isolate: bool = False
    """Whether a command sees programs, libraries, fonts and certificates alone, not all of the machine
    has in files (docs/security.md); other kinds see no more in any case."""
    exit_codes: list[Annotated[int, Field(ge=1, le=255)]] = []
    """By which, besides 0, a command says that it loaded the page: some have a code for answers that are
    errors, as a recorded page may have them."""
    profile: Profile = "browser"
    """In which order the loader asks, as a browser or as a parallel downloader with a list; and what stands
    for keys that are null."""
    connections_per_host: Annotated[int, Field(ge=1, le=256)]
    """To one server at once, with HTTP/1; null: 6, with `mget` 5."""
    connections_total: Annotated[int, Field(ge=1, le=4096)]
    """In all at once; null: 256, with `mget` 5."""
    keep_alive: bool
    """Whether a connection carries more than one request; null: true, with `mget` false."""
    processing_scale: Scale = 1.0
    """What the page's processing times are multiplied by; null: 1. `mget` does no processing at all."""
    phases: Annotated[list[Phase], Field(min_length=1)] = ["load", "async"]
    """What is loaded; `load` must be among them. null: as left out."""
    fixed_scripts: bool = False
    """Whether the page's scripts have the same clock and chance in each load, of clients that run scripts
    (`chromium`): `Date` begins when the page was recorded, and goes on with each call; `Math.random` draws
    the same numbers."""
    screenshot: bool = False
    """Whether to keep what is shown when a load is over, of clients that can (`chromium`)."""
    filmstrip: bool = False
    """Whether to keep what is shown each time that it changes, of the same clients."""
    view: View = "first"
    """`repeat`, of clients that have a cache (`chromium`): each load is a second view, with the cache that a
    first one left."""
    request_heads: RequestHeads = "own"
    """`recorded`, of clients that have heads of their own (`chromium`): requests have the page's
    `request_header_bytes`, see [Chromium](chromium.md#heads-of-requests). The loader's always have."""
    h3_fallback_us: Annotated[int, Field(ge=0, le=RTT_MAX_US)] | None = None
    """After how long without a complete handshake of QUIC, counted for each host, the loader opens a
    connection over TCP as well, with HTTP/2; it goes on with what is ready first. null: it stays with
    QUIC."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_profile(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        profile = data.get("profile", "browser")
        defaults = PROFILES.get(profile, {}) if isinstance(profile, str) else {}
        given = {
            key: value for key, value in data.items() if value is not None or key not in _NULL_IS_DEFAULT
        }
        return {**defaults, **given}

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.name or self.kind

    @property
    def type(self) -> ClientType:
        """What it can do."""
        return client_type(self.kind, self.label)

    @model_validator(mode="after")
    def _a_command_is_a_commands_client(self) -> Self:
        if (self.kind == COMMAND.kind) != (self.command is not None):
            raise ValueError("command goes with the kind command, and only with it")
        if self.command and not self.command[0]:
            raise ValueError("the first word of command is empty")
        return self

    @model_validator(mode="after")
    def _a_picture_needs_a_browser(self) -> Self:
        for key in PICTURES:
            if getattr(self, key) and key not in self.type.takes:
                able = any_of(one.label for one in CLIENTS.values() if key in one.takes)
                remedy = f"{key} goes with the kind {able}"
                raise conflict(f"{self.label} shows nothing", remedy, "client.kind", f"client.{key}")
        return self

    @model_validator(mode="after")
    def _a_repeat_view_needs_a_cache(self) -> Self:
        if self.view == "repeat" and not self.type.cache:
            able = any_of(one.label for one in CLIENTS.values() if one.cache)
            message, remedy = f"{self.label} has no cache", f"view repeat goes with {able} alone"
            raise conflict(message, remedy, "client.kind", "client.view")
        return self

    @model_validator(mode="after")
    def _recorded_heads_need_a_client_that_takes_them(self) -> Self:
        if self.fixed_scripts and "fixed_scripts" not in self.type.takes:
            able = any_of(one.label for one in CLIENTS.values() if "fixed_scripts" in one.takes)
            message, remedy = f"{self.label} runs no scripts", f"fixed_scripts goes with {able}"
            raise conflict(message, remedy, "client.kind", "client.fixed_scripts")
        if self.h3_fallback_us is not None and "h3_fallback_us" not in self.type.takes:
            able = any_of(one.label for one in CLIENTS.values() if "h3_fallback_us" in one.takes)
            message, remedy = f"{self.label} has a rule of its own", f"h3_fallback goes with {able}"
            raise conflict(message, remedy, "client.kind", "client.h3_fallback_us")
        if self.request_heads == "recorded" and "request_heads" not in self.type.takes:
            able = any_of(one.label for one in CLIENTS.values() if "request_heads" in one.takes)
            message, remedy = f"the heads of {self.label} cannot be set", f"request_heads goes with {able}"
            raise conflict(message, remedy, "client.kind", "client.request_heads")
        return self

    @model_validator(mode="after")
    def _the_load_itself_is_loaded(self) -> Self:
        if "load" not in self.phases:
            raise conflict("phases must hold load", "add it", "client.phases")
        return self


def _todays_name(bodies: object) -> object:
    """Kept runs and files of before contract 2 call bodies that are made from the page's facts structural."""
    return "synthetic" if bodies == "structural" else bodies


class Origins(_Part):
    """How the origin servers answer."""

    http: Http = "1.1"
    """The version of HTTP, see [http2.md](http2.md) and [http3.md](http3.md)."""
    http2_hosts: list[str] = Field(default_factory=list)
    """Hosts of the page that speak HTTP/2, whatever `http` says."""
    http3_hosts: list[str] = Field(default_factory=list)
    """Hosts of the page that speak HTTP/3, whatever `http` says."""
    keep_alive: bool = True
    """Whether they keep connections; with HTTP/2 and HTTP/3 they must."""
    think_scale: Scale = 1.0
    """What `server_think_us` and `server_send_us` of the page are multiplied by."""
    tfo_queue: Annotated[int, Field(ge=1, le=65535)] = 4096
    """How many connections with data in their SYN may wait for the end of their handshake (TCP_FASTOPEN)."""
    server: Annotated[list[Word], Field(min_length=1)] | None = None
    """The program and arguments of a server of others, which the client talks to in place of the origins: on
    port 80 of every host, in the clear, see [servers.md](servers.md). null: none."""
    server_hosts: Annotated[list[str], Field(min_length=1)] | None = None
    """The hosts of the page that it serves; null: all. The client meets the origins of the others on port
    8080."""
    server_listen: bool = False
    """Whether its listeners that have no Fast Open queue get one of `tfo_queue` from outside."""
    upstream_tfo: bool = False
    """Whether it may use TCP Fast Open to the origins behind it, in all loads, with cookies of before; then
    each connection to them must show it."""
    upstream_rtt_us: RttUs = 0
    """The RTT between it and these."""
    bodies_file: str | None = None
    """The file that holds the recorded bodies."""
    bodies: Annotated[Literal["filler", "synthetic", "recorded"], BeforeValidator(_todays_name)] = "filler"
    """`filler`: the recorded bytes, and dots where there are none. `synthetic`: HTML, CSS, scripts and
    pictures of the page's sizes that make a browser ask for exactly the page's resources, see
    [synthetic bodies](synthetic.md). `recorded`: the recorded responses with their header fields, for
    whatever has their host, method and path, and the nearest query; 404 for all else, see
    [recorded bodies](recorded.md)."""

    @property
    def versions(self) -> list[Http]:
        """The versions that hosts speak, the newest first."""
        hosts: dict[Http, list[str]] = {"2": self.http2_hosts, "3": self.http3_hosts}
        return sorted({self.http, *(version for version in hosts if hosts[version])}, reverse=True)

    @property
    def multiplex(self) -> bool:
        """Whether any host answers several requests at once on a connection."""
        return self.versions[0] in ("2", "3")

    @property
    def quic(self) -> bool:
        """Whether any host speaks HTTP/3, which runs over QUIC."""
        return "3" in self.versions

    @property
    def all_quic(self) -> bool:
        """Whether all hosts do, so that no connection can use TFO."""
        return self.http == "3"

    @model_validator(mode="after")
    def _streams_need_connections_that_stay(self) -> Self:
        if self.multiplex and not self.keep_alive:
            keys = ("origins.http", "origins.http2_hosts", "origins.http3_hosts", "origins.keep_alive")
            message = f"with http {self.versions[0]} origins keep connections"
            raise conflict(message, "the client's keep_alive can be false", *keys)
        return self

    @model_validator(mode="after")
    def _a_server_has_a_command(self) -> Self:
        if self.server and not self.server[0]:
            raise ValueError("the first word of server is empty")
        for key in ("server_hosts", "server_listen", "upstream_tfo", "upstream_rtt_us"):
            if getattr(self, key) and self.server is None:
                message = f"{key.removesuffix('_us')} means nothing without a server"
                raise conflict(message, "name one", f"origins.{key}", "origins.server")
        return self

    @model_validator(mode="after")
    def _a_host_speaks_one_version(self) -> Self:
        if both := set(self.http2_hosts) & set(self.http3_hosts):
            message = f"{min(both)} is in http2_hosts, too"
            raise conflict(message, "leave it out of one of them", "origins.http3_hosts")
        return self


class Tls(_Part):
    """How TLS is spoken where a load's transport has it, see [tls.md](tls.md)."""

    version: TlsVersion = "1.3"
    """The newest that the origins speak."""
    key_share: Literal["x25519mlkem768", "x25519"] = "x25519mlkem768"
    """The group that the loader's ClientHello holds a key share of; other clients send what they send."""
    session: SessionStart = "none"
    """How connections begin. `none`: without a session of an earlier visit, so that the first handshake with
    each host is a full one. `resumed`: with the session tickets of an earlier visit, of one connection to
    each host. `early`: the same, and what is asked first goes as early data (0-RTT) with the ClientHello,
    if its method is safe."""
    tickets: Annotated[int, Field(ge=0, le=TICKETS_MAX)] = 2
    """How many session tickets an origin sends on a connection. Each serves one connection of TLS 1.3, so
    that it limits how many connections to a host begin with the earlier visit's. 0: none is resumed."""
    address_tokens: bool = True
    """Whether an origin gives an address token with each ticket of a QUIC connection, and takes it at the
    next (RFC 9000 section 8.1.3): without one it sends three times what it has received, and then waits for
    the client's next flight."""
    retry: bool = False
    """Whether an origin answers a QUIC client without an address token with a Retry (RFC 9000 section 8.1.2),
    which takes a round trip."""
    early_data_rejected: bool = False
    """Whether origins reject early data, and have it sent again."""
    ticket_state: TicketState = "valid"
    """What became of the tickets of the earlier visit. `stale`: their age is not what origins reckon, so that
    they resume, and early data is rejected (RFC 8446 section 8.3). `expired`: they are older than their
    lifetime, so that the client uses none. `forgotten`: origins have lost their keys, so that it uses them in
    vain."""
    chain_bytes: Annotated[int, Field(ge=0, le=60_000)] = 3500
    """The certificates that an origin sends, as far as they can be made so long."""
    security: Security = "tls"
    """Which URLs are served over TLS where a load's transport has it: with `tls` all, with `recorded` those
    that are https."""

    @model_validator(mode="before")
    @classmethod
    def _of_before_tickets(cls, data: Any) -> Any:
        """Kept runs of before the number of tickets say whether there were any."""
        if not isinstance(data, Mapping) or "resumption" not in data:
            return data
        others = {key: value for key, value in data.items() if key != "resumption"}
        return others if data["resumption"] else {"tickets": 0, **others}

    @model_validator(mode="after")
    def _there_is_a_session_to_begin_with(self) -> Self:
        if self.session != "none" and self.tickets == 0:
            message, remedy = f"session {self.session} needs a ticket", "ask for tickets 1 or more"
            raise conflict(message, remedy, "tls.session", "tls.tickets")
        if self.session == "early" and self.version != "1.3":
            remedy = "ask for tls 1.3, or for session resumed"
            raise conflict("early data came with TLS 1.3", remedy, "tls.session", "tls.version")
        return self

    @property
    def rejects_early_data(self) -> bool:
        """Whether that which goes with a ticket of the earlier visit is not accepted."""
        return self.early_data_rejected or self.ticket_state != "valid"

    @property
    def of_another_time(self) -> bool:
        """Whether the client's clock is set ahead of the tickets of its earlier visit."""
        return self.ticket_state in ("stale", "expired")


class Tolerance(_Part):
    """How far off a world may be."""

    rtt_us: Microseconds = 1000
    """A world whose measured RTT is further off is an error."""
    rate_fraction: Annotated[float, Field(ge=0, le=1)] = 0.02
    """The same of its rates."""
    late_us: Microseconds | None = None
    """A load during which the link released a packet later than this after it was due is invalid; null: a
    tenth of the RTT, and 5,000 at least."""


class Flood(_Part):
    """SYNs of four addresses that never answer, to the page's first host, for as long as transactions are
    under way."""

    rate_per_s: Annotated[int, Field(ge=1, le=FLOOD_MAX_PER_S)]
    """How many a second."""
    cookies: Literal["none", "invalid", "valid"]
    """What they carry: neither cookie nor data; data with a cookie that no key makes; data with the cookies
    that the server gave these addresses before."""


class Transactions(_Part):
    """Transactions with a server under load: each a new connection, the request for one of the page's
    resources in turn, its answer, and the server's FIN (`Connection: close`)."""

    arrivals: Annotated[dict[Arrivals, ArrivalCount], Field(min_length=1, max_length=1)]
    """`{"rate_per_s": ...}`: so many begin each second, at equal intervals from the start, whatever becomes
    of those before (open loop). `{"clients": ...}`: so many clients, each one after another (closed
    loop)."""
    duration_us: Annotated[int, Field(ge=1, le=DURATION_MAX_US)]
    """For how long they begin. Those under way then have ten seconds to end."""
    late_us: Annotated[int, Field(ge=0, le=1_000_000)] = 1000
    """One that begins later than this after it was due is late; with more than one in a hundred of these the
    generator was the limit, and the record is invalid."""
    syncookies: Annotated[int, Field(ge=0, le=2)] = 0
    """`net.ipv4.tcp_syncookies` of the origins: SYN cookies never, when a queue is full, always."""
    new_key: Literal["replace", "add"] | None = None
    """What happens halfway to the key of the server's cookies: a new one replaces it, or joins it, so that
    old cookies go on being taken. null: nothing."""
    flood: Flood | None = None
    """A SYN flood at the same time. Its half-open connections outlast it, so that no load may follow in the
    job."""


class LoadSpec(_Part):
    """One load to run."""

    id: NotEmpty
    """Repeated in its record."""
    transport: Transport
    """Whether the kernels use TCP Fast Open, and whether origins speak TLS: every one on its port, whatever
    the page's URLs say (synthetic bodies name URLs that fit), or with the `security` `recorded` as they
    say."""
    cookies: Cookies = None
    """TFO cookies that the client has when the load begins: needed with `tfo` and `tls+tfo`, and only with
    them. Of `transactions`: whether each has a client address of its own, without a cookie, or all share one
    with a cookie of each host."""
    transactions: Transactions | None = None
    """What is done instead of loading the page, in the clear, by no client; null: it is loaded."""

    @model_validator(mode="after")
    def _transactions_in_the_clear(self) -> Self:
        if self.transactions is not None and self.transport in ("tls", "tls+tfo"):
            raise ValueError("transactions are made in the clear alone")
        return self

    @model_validator(mode="after")
    def _cookies_only_with_tfo(self) -> Self:
        if (self.transport in ("tfo", "tls+tfo")) != (self.cookies is not None):
            raise ValueError("cookies is cold or warm with tfo and tls+tfo, and null with tcp and tls")
        return self


class Job(_Part):
    """One world and the loads in it, in the order in which they run."""

    contract: Annotated[int, Field(ge=CONTRACT, le=CONTRACT)]
    """The version of this contract."""
    id: NotEmpty
    """Repeated in every record."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)]
    """Every random choice inside comes from it."""
    page: Page
    network: Network
    tcp: Tcp = Field(default_factory=Tcp)
    client: Client = Field(default_factory=lambda: Client.model_validate({}))
    origins: Origins = Field(default_factory=Origins)
    tls: Tls = Field(default_factory=Tls)
    loads: Annotated[list[LoadSpec], Field(min_length=1, max_length=10_000)]
    """Run in this order in one world."""
    tolerance: Tolerance = Field(default_factory=Tolerance)
    load_timeout_us: Annotated[int, Field(ge=1, le=LOAD_TIMEOUT_MAX_US)] = 120_000_000
    """How long a load may take."""
    start_phase_us: Annotated[int, Field(ge=0, le=START_PHASE_MAX_US)] = 0
    """In virtual time: how long after the phase of the kernel's timers at which loads begin."""
    shuffle_equal_requests: bool = False
    """Whether the loader asks for what the same byte of a response reveals in an order drawn from the seed;
    else in that of the page."""
    packets: bool = False
    """Whether to keep the packets of each load at both ends: records `packets`, before that of the load."""
    tcp_trace: bool = False
    """Whether to sample TCP_INFO of the origins' ends of connections over time (`origin_samples`)."""

    @model_validator(mode="after")
    def _heads_can_be_sent(self) -> Self:
        for index, resource in enumerate(self.page.resources):
            if max(resource.request_header_bytes, resource.response_header_bytes) > HEAD_MAX_BYTES:
                raise ValueError(f"page.resources[{index}]: a head is longer than {HEAD_MAX_BYTES} bytes")
            if len(resource.url) > TARGET_MAX_BYTES and len(target_of(resource.url)) > TARGET_MAX_BYTES:
                raise ValueError(f"page.resources[{index}].url: is longer than {TARGET_MAX_BYTES} bytes")
        return self

    @model_validator(mode="after")
    def _hosts_are_the_pages(self) -> Self:
        known = set(self.page.hosts())
        for place, named in (
            ("network.host_extra_rtt_us", self.network.host_extra_rtt_us),
            ("network.path_hosts", self.network.path_hosts or []),
            ("origins.http2_hosts", self.origins.http2_hosts),
            ("origins.http3_hosts", self.origins.http3_hosts),
            ("origins.server_hosts", self.origins.server_hosts or []),
        ):
            if unknown := set(named) - known:
                raise ValueError(f"{place}: the page has no host {min(unknown)}")
        return self

    @model_validator(mode="after")
    def _recorded_bodies_can_be_loaded(self) -> Self:
        if self.origins.bodies == "recorded" and not self.client.type.reads_bodies:
            raise ValueError(f"origins.bodies: {self.client.label} does not read bodies")
        if self.tls.security == "recorded" and self.client.type.loads_everything:
            if self.origins.http in ("2", "3"):
                message = f"{self.client.label} speaks HTTP/{self.origins.http} on all connections to a host"
                raise ValueError(f"tls.security: {message}")
            for one in self.page.resources:
                if one.host in self.origins.http3_hosts and one.url.startswith("http:"):
                    message = f"{one.host} has http URLs, and HTTP/3 has TLS"
                    raise ValueError(
                        f"origins.http3_hosts: {message}: leave it out, or ask for transports tls"
                    )
        for number, load in enumerate(self.loads):
            encrypted = "tls" in load.transport
            if self.origins.bodies != "recorded" or (encrypted and self.tls.security == "recorded"):
                continue
            if any(one.url.startswith("https:") != encrypted for one in self.page.resources):
                message = "recorded bodies name URLs with the schemes that they were recorded with"
                remedy = "ask for transports recorded and recorded+tfo"
                raise ValueError(f"loads[{number}].transport: {message}: {remedy}")
        return self

    @model_validator(mode="after")
    def _a_server_of_others_can_be_met(self) -> Self:
        if self.origins.server is None:
            return self
        if not self.client.type.meets_servers:
            raise ValueError(f"origins.server: {self.client.label} is not run against servers of others")
        if self.tcp_trace:
            raise ValueError("tcp_trace: a server of others has no trace")
        for number, load in enumerate(self.loads):
            if "tls" in load.transport:
                raise ValueError(f"loads[{number}].transport: servers of others speak in the clear alone")
        return self

    @model_validator(mode="after")
    def _the_client_can_begin_with_the_session(self) -> Self:
        if self.tls.session not in self.client.type.sessions:
            raise ValueError(f"tls.session: {self.client.label} is not made to begin with a session")
        if self.tls.of_another_time and not self.client.type.ours:
            raise ValueError(f"tls.ticket_state: {self.client.label} has the machine's clock")
        return self

    @model_validator(mode="after")
    def _the_client_speaks_the_version(self) -> Self:
        clear = [number for number, load in enumerate(self.loads) if "tls" not in load.transport]
        kind = CLIENTS[self.client.kind]
        for version in self.origins.versions:
            if version not in kind.http_in_the_clear | kind.http_over_tls:
                raise ValueError(f"origins.http: {kind.label} does not speak HTTP/{version}")
            if clear and version not in kind.http_in_the_clear:
                message = f"{kind.label} speaks HTTP/{version} over TLS alone"
                raise ValueError(f"loads[{clear[0]}].transport: {message}")
        return self

    @model_validator(mode="after")
    def _quic_can_be_spoken(self) -> Self:
        if not self.origins.quic:
            return self
        if self.tls.version != "1.3":
            raise ValueError("tls.version: HTTP/3 runs over QUIC, which needs 1.3")
        if self.tcp.congestion_control not in QUIC_CONGESTION_CONTROLS:
            raise ValueError("tcp.congestion_control: QUIC has cubic and reno")
        if self.network.mtu_bytes < QUIC_MTU_MIN_BYTES:
            raise ValueError(f"network.mtu_bytes: QUIC needs {QUIC_MTU_MIN_BYTES} (RFC 9000 section 14)")
        for number, load in enumerate(self.loads):
            if load.cookies is not None and self.origins.all_quic:
                message = "HTTP/3 runs over QUIC, which has no SYN for TCP Fast Open"
                raise ValueError(f"loads[{number}].transport: {message}")
        return self
