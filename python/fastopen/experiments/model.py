"""An experiment in base units: what the command line and TOML files become, and what a run keeps."""

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fastopen.clients import CHROMIUM, CLIENTS
from fastopen.contract import Client, Network, Origins, Tcp, Tls, Tolerance
from fastopen.experiments.arms import ARMS, DEFAULT_ARMS, Arm, ArmName
from fastopen.experiments.variation import Variation
from fastopen.pydantic_errors import conflict

# At least what holds the bursts of a page's first windows, and what a faster link sends in 100 ms.
QUEUE_MIN_BYTES: Final = 256_000
QUEUE_TIME_MS: Final = 100
REPEATS_MAX: Final = 10_000

AskedEngine = Literal["auto", "host", "virtual"]


class SmallestEffect(BaseModel):
    """The smallest effect of interest: a saving that is below either of these is no difference."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    percent: Annotated[float, Field(ge=0, le=100)] = 0.5
    """Of the page load time."""
    ms: Annotated[float, Field(ge=0)] = 1.0


class PublishedTable(BaseModel):
    """Which rows of published.csv the experiment is held against."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    experiment: str
    """The `experiment` of the rows."""
    pages: dict[str, str]
    """Name of our page to name of the page in the rows."""
    unit: Literal["s", "ms"] | None = None
    """What the times really are in, where the table prints another unit."""
    swapped: bool = False
    """Whether the two columns of times stand under each other's heading."""
    known: list[str] = Field(default_factory=list)
    """Sentences: what else is known of the source that makes its figures other than ours."""


class Setup(BaseModel):
    """How both ends are set: the client, the origin servers, TCP and TLS on either side."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    client: Client = Field(default_factory=lambda: Client.model_validate({}))
    origins: Origins = Field(default_factory=Origins)
    tcp: Tcp = Field(default_factory=Tcp)
    tls: Tls | None = None
    """None: every origin speaks in the clear, whatever its URL says; else each speaks TLS on its port, or
    those whose URLs are https."""

    @model_validator(mode="after")
    def _the_client_speaks_the_version(self) -> Self:
        client, can = self.client.label, self.client.type
        key = "origins.http" if self.origins.http == "2" else "origins.http2_hosts"
        version = "2" if self.origins.speak_http2 else self.origins.http
        if self.tls is not None and not can.http_over_tls:
            remedy = "ask for another client, or for transports tcp and tfo"
            raise conflict(f"{client} does not speak TLS", remedy, "client.kind", "tls.version")
        if version not in can.http_in_the_clear | can.http_over_tls:
            remedy = "ask for another client, or for http 1.1"
            raise conflict(f"{client} is run with HTTP/1.1", remedy, "client.kind", key)
        if self.tls is None and version not in can.http_in_the_clear:
            remedy = "ask for transports tls and tls+tfo, or for http 1.1"
            message = f"{client} speaks HTTP/{version} over TLS alone"
            raise conflict(message, remedy, "client.kind", key, "tls.version")
        return self

    @model_validator(mode="after")
    def _the_client_can_begin_with_the_session(self) -> Self:
        session = "none" if self.tls is None else self.tls.session
        if session not in self.client.type.sessions:
            able = " or ".join(one.label for one in CLIENTS.values() if session in one.sessions)
            message = f"{self.client.label} cannot be given a session of an earlier visit"
            remedy = f"session {session} goes with {able}"
            raise conflict(message, remedy, "client.kind", "tls.session")
        return self

    @model_validator(mode="after")
    def _recorded_bodies_can_be_loaded(self) -> Self:
        client = self.client
        if self.origins.bodies == "recorded" and not client.type.reads_bodies:
            remedy = f"ask for the client {CHROMIUM.label}, or for other bodies"
            raise conflict(f"{client.label} does not read bodies", remedy, "client.kind", "origins.bodies")
        recorded = self.tls is not None and self.tls.security == "recorded"
        if recorded and client.type.loads_everything and self.origins.speak_http2:
            message = f"{client.label} speaks HTTP/2 on all connections to a host, with TLS or without"
            remedy = "ask for http 1.1, for another client, or for transports tls and tls+tfo"
            raise conflict(message, remedy, "client.kind", "origins.http", "tls.security")
        return self

    @model_validator(mode="after")
    def _hosts_agree_on_what_clients_offer(self) -> Self:
        if self.origins.http == "1.0" and self.origins.http2_hosts:
            remedy = "ask for http 1.1, or leave http2_hosts out"
            keys = ("origins.http", "origins.http2_hosts")
            raise conflict("next to hosts with HTTP/2 the others speak HTTP/1.1, never 1.0", remedy, *keys)
        return self


class Experiment(BaseModel):
    """Pages x networks x setups x transports x engines, loaded `repeats` times; in microseconds and bytes."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str
    title: str = ""
    source: str = ""
    notes: list[str] = Field(default_factory=list)
    pages: Annotated[list[str], Field(min_length=1)]
    networks: Annotated[list[Network], Field(min_length=1)]
    setups: Annotated[list[Setup], Field(min_length=1)] = Field(default_factory=lambda: [Setup()])
    arms: Annotated[list[ArmName], Field(min_length=1)] = list(DEFAULT_ARMS)
    engines: Annotated[list[AskedEngine], Field(min_length=1)] = ["auto"]
    """`auto` stands for the one that the machine can run best; a plan names it."""
    tolerance: Tolerance = Field(default_factory=Tolerance)
    smallest_effect: SmallestEffect = Field(default_factory=SmallestEffect)
    repeats: Annotated[int, Field(ge=1, le=REPEATS_MAX)] = 10
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)]
    vary: Variation | None = None
    """What each repeat draws anew; None: all repeats ask for the same."""
    published: PublishedTable | None = None

    def arms_of(self, setup: int) -> list[Arm]:
        """The arms over the setup of that number."""
        return [ARMS[name].over(self.setups[setup].tls) for name in self.arms]


def default_queue_bytes(rate_bit_per_s: int | None) -> int | None:
    """What the queue of a link holds where nobody says: no limit where the rate has none."""
    if rate_bit_per_s is None:
        return None
    return max(QUEUE_MIN_BYTES, rate_bit_per_s * QUEUE_TIME_MS // 8_000)
