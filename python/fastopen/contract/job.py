"""What is asked of the world program: one world, and the loads to run in it."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fastopen.pages import Page

CONTRACT: Final = 2
RATE_MIN_BIT_PER_S: Final = 64_000
RATE_MAX_BIT_PER_S: Final = 1_000_000_000
LOSS_MAX: Final = 0.5
RTT_MAX_US: Final = 60_000_000
HEAD_MAX_BYTES: Final = 262_144
TARGET_MAX_BYTES: Final = 65_534
TLS_CHAIN_MAX_BYTES: Final = 60_000
TRACE_MAX_MS: Final = 24 * 60 * 60 * 1000
LOAD_TIMEOUT_MAX_US: Final = 3_600_000_000

Transport = Literal["tcp", "tfo", "tls", "tls+tfo"]
Cookies = Literal["cold", "warm"] | None
Profile = Literal["browser", "mget"]
ClientKind = Literal["loader", "command", "chromium"]
View = Literal["first", "repeat"]
# Of a command line: what the kernel can pass on.
Word = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=131_071)]
Phase = Literal["load", "async", "after"]
RttUs = Annotated[int, Field(ge=0, le=RTT_MAX_US)]
Bytes = Annotated[int, Field(ge=0)]
Scale = Annotated[float, Field(ge=0, le=1000)]


class _Part(BaseModel):
    """A part of a job: no key that the contract does not know, no silent conversion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RateLimit(_Part):
    """One direction of the access link. Null rate and null trace: no limit."""

    rate_bit_per_s: Annotated[int, Field(ge=RATE_MIN_BIT_PER_S, le=RATE_MAX_BIT_PER_S)] | None
    trace_ms: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    queue_bytes: Annotated[int, Field(ge=1)] | None
    loss: Annotated[float, Field(ge=0, le=LOSS_MAX)] = 0.0

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
    down: RateLimit
    up: RateLimit
    host_extra_rtt_us: dict[str, RttUs] = Field(default_factory=dict)
    mtu_bytes: Annotated[int, Field(ge=576, le=1500)] = 1500
    link: Literal["auto", "program", "kernel"] = "auto"


class Tcp(_Part):
    """What both ends' TCP is set to."""

    congestion_control: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,15}$")] = "cubic"
    initial_window_segments: Annotated[int, Field(ge=1, le=1000)] = 10


PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "browser": {"connections_per_host": 6, "connections_total": 256, "keep_alive": True},
    "mget": {"connections_per_host": 5, "connections_total": 5, "keep_alive": False},
}


class Client(_Part):
    """What loads the page, and how. What is not given is the profile's own.

    Of an experiment's client the words of `command` still hold placeholders; a job's are what is run.
    """

    kind: ClientKind = "loader"
    name: Annotated[str, Field(min_length=1)] | None = None
    command: Annotated[list[Word], Field(min_length=1)] | None = None
    profile: Profile = "browser"
    connections_per_host: Annotated[int, Field(ge=1, le=256)]
    connections_total: Annotated[int, Field(ge=1, le=4096)]
    keep_alive: bool
    processing_scale: Scale = 1.0
    phases: Annotated[list[Phase], Field(min_length=1)] = ["load", "async"]
    screenshot: bool = False
    view: View = "first"

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_profile(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        profile = data.get("profile", "browser")
        defaults = PROFILES.get(profile, {}) if isinstance(profile, str) else {}
        # Null is the contract's other way of leaving this one out.
        given = {k: v for k, v in data.items() if (k, v) != ("connections_total", None)}
        return {**defaults, **given}

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.name or self.kind

    @model_validator(mode="after")
    def _a_command_is_a_commands_client(self) -> Self:
        if (self.kind == "command") != (self.command is not None):
            raise ValueError("command goes with the kind command, and only with it")
        if self.command and not self.command[0]:
            raise ValueError("the first word of command is empty")
        return self

    @model_validator(mode="after")
    def _a_picture_needs_a_browser(self) -> Self:
        if self.screenshot and self.kind != "chromium":
            raise ValueError("screenshot goes with the kind chromium")
        return self

    @model_validator(mode="after")
    def _a_repeat_view_needs_a_cache(self) -> Self:
        if self.view == "repeat" and self.kind != "chromium":
            raise ValueError(
                f"{self.label} keeps nothing from visit to visit: view repeat goes with chromium alone"
            )
        return self

    @model_validator(mode="after")
    def _the_load_itself_is_loaded(self) -> Self:
        if "load" not in self.phases:
            raise ValueError("phases must hold load")
        return self


def _todays_name(bodies: object) -> object:
    """Kept runs and files of before contract 2 call bodies that are made from the page's facts structural."""
    return "synthetic" if bodies == "structural" else bodies


class Origins(_Part):
    """How the origin servers answer."""

    http: Literal["1.0", "1.1", "2"] = "1.1"
    http2_hosts: list[str] = Field(default_factory=list)
    """Hosts of the page that speak HTTP/2, whatever `http` says."""
    keep_alive: bool = True
    think_scale: Scale = 1.0
    tfo_queue: Annotated[int, Field(ge=1, le=65535)] = 4096
    bodies_file: str | None = None
    bodies: Annotated[Literal["filler", "synthetic"], BeforeValidator(_todays_name)] = "filler"

    @property
    def speak_http2(self) -> bool:
        """Whether any host does."""
        return self.http == "2" or bool(self.http2_hosts)

    @model_validator(mode="after")
    def _http2_keeps_connections(self) -> Self:
        if self.speak_http2 and not self.keep_alive:
            raise ValueError("with http 2 origins keep connections; the client's keep_alive can be false")
        return self


class Tls(_Part):
    """How TLS is spoken where a load's transport has it."""

    version: Literal["1.2", "1.3"] = "1.3"
    key_share: Literal["x25519mlkem768", "x25519"] = "x25519mlkem768"
    resumption: bool = True
    chain_bytes: Annotated[int, Field(ge=0, le=TLS_CHAIN_MAX_BYTES)] = 3500


class Tolerance(_Part):
    """How far off a world may be before it counts as an error, or a load as invalid."""

    rtt_us: Annotated[int, Field(ge=0)] = 1000
    rate_fraction: Annotated[float, Field(ge=0, le=1)] = 0.02
    late_us: Annotated[int, Field(ge=0)] | None = None  # null: a tenth of the RTT, and 5,000 at least


class LoadSpec(_Part):
    """One load to run: its id within the job, its transport, and its cookies where that has TFO."""

    id: Annotated[str, Field(min_length=1)]
    transport: Transport
    cookies: Cookies = None

    @model_validator(mode="after")
    def _cookies_only_with_tfo(self) -> Self:
        if (self.transport in ("tfo", "tls+tfo")) != (self.cookies is not None):
            raise ValueError("cookies is cold or warm with tfo and tls+tfo, and null with tcp and tls")
        return self


class Job(_Part):
    """One world and the loads in it, in the order in which they run."""

    contract: Annotated[int, Field(ge=CONTRACT, le=CONTRACT)]
    id: Annotated[str, Field(min_length=1)]
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)]
    page: Page
    network: Network
    tcp: Tcp = Field(default_factory=Tcp)
    client: Client = Field(default_factory=lambda: Client.model_validate({}))
    origins: Origins = Field(default_factory=Origins)
    tls: Tls = Field(default_factory=Tls)
    loads: Annotated[list[LoadSpec], Field(min_length=1, max_length=10_000)]
    tolerance: Tolerance = Field(default_factory=Tolerance)
    load_timeout_us: Annotated[int, Field(ge=1, le=LOAD_TIMEOUT_MAX_US)] = 120_000_000

    @model_validator(mode="after")
    def _heads_can_be_sent(self) -> Self:
        for index, resource in enumerate(self.page.resources):
            if max(resource.request_header_bytes, resource.response_header_bytes) > HEAD_MAX_BYTES:
                raise ValueError(f"page.resources[{index}]: a head is longer than {HEAD_MAX_BYTES} bytes")
            if len(resource.url) > TARGET_MAX_BYTES:
                raise ValueError(f"page.resources[{index}].url: is longer than {TARGET_MAX_BYTES} bytes")
        return self

    @model_validator(mode="after")
    def _extra_rtts_are_of_hosts_of_the_page(self) -> Self:
        strangers = self.network.host_extra_rtt_us.keys() - set(self.page.hosts())
        if strangers:
            raise ValueError(f"network.host_extra_rtt_us: the page has no host {min(strangers)}")
        return self

    @model_validator(mode="after")
    def _versions_are_of_hosts_of_the_page(self) -> Self:
        strangers = set(self.origins.http2_hosts) - set(self.page.hosts())
        if strangers:
            raise ValueError(f"origins.http2_hosts: the page has no host {min(strangers)}")
        return self
