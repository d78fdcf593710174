"""The model of an experiment in base units, as a run keeps it."""

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fastopen.common.errors import any_of
from fastopen.common.pydantic_errors import Items, conflict
from fastopen.contract import Client, Network, Origins, Tcp, Tls, Tolerance
from fastopen.contract.client_types import CHROMIUM, CLIENTS
from fastopen.contract.network import ENCRYPTED_NAMES, QUIC_CONGESTION_CONTROLS
from fastopen.contract.origins import Http
from fastopen.experiments.arms import ARMS, DEFAULT_ARMS, Arm, ArmName
from fastopen.experiments.variation import Variation
from fastopen.pages import Choice

# The queue holds at least the bursts of a page's first windows, and 100 ms of a faster link's rate.
QUEUE_MIN_BYTES: Final = 256_000
QUEUE_TIME_MS: Final = 100
REPEATS_MAX: Final = 10_000
_OVER_TLS: Final[dict[Http, str]] = {"1.0": "tls", "1.1": "tls", "2": "tls and tls+tfo", "3": "tls"}

AskedEngine = Literal["auto", "host", "virtual"]


class SmallestEffect(BaseModel):
    """The smallest effect of interest. A saving below either value counts as no difference."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    percent: Annotated[float, Field(ge=0, le=100)] = 0.5
    """Share of the page load time."""
    ms: Annotated[float, Field(ge=0)] = 1.0


class PublishedTable(BaseModel):
    """The rows of published.csv that the experiment is compared with."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    experiment: str
    """Value of the column `experiment` of the rows."""
    pages: dict[str, str]
    """Names of the pages in the rows, by our names."""
    unit: Literal["s", "ms"] | None = None
    """True unit of the times, if the table prints another one."""
    swapped: bool = False
    """True if the two columns of times have each other's heading."""
    known: list[str] = Field(default_factory=list)
    """Sentences about further reasons why the figures of the source differ from ours."""


class Setup(BaseModel):
    """The settings of both ends: the client, the origin servers, TCP and TLS."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    client: Client = Field(default_factory=lambda: Client.model_validate({}))
    origins: Origins = Field(default_factory=Origins)
    tcp: Tcp = Field(default_factory=Tcp)
    tls: Tls | None = None
    """TLS of the origins; None if all are in cleartext. By `security`, every origin has TLS, or only those
    with https URLs.
    """

    @model_validator(mode="after")
    def _the_client_speaks_the_version(self) -> Self:
        client, can = self.client.label, self.client.type
        version = self.origins.versions[0]
        key = "origins.http" if self.origins.http == version else f"origins.http{version}_hosts"
        if self.tls is not None and not can.http_over_tls:
            remedy = "ask for another client, or for transports tcp and tfo"
            raise conflict(f"{client} does not speak TLS", remedy, "client.kind", "tls.version")
        if version not in can.http_in_the_clear | can.http_over_tls:
            spoken = sorted(can.http_in_the_clear | can.http_over_tls)
            able = any_of(one.label for one in CLIENTS.values() if version in one.http_over_tls)
            remedy = f"HTTP/{version} goes with {able}; or ask for http {spoken[-1]}"
            message = f"{client} is not run with HTTP/{version}, but with HTTP/{any_of(spoken)}"
            raise conflict(message, remedy, "client.kind", key)
        if self.tls is None and version not in can.http_in_the_clear:
            remedy = f"ask for transports {_OVER_TLS[version]}, or for http 1.1"
            message = f"{client} speaks HTTP/{version} only over TLS"
            raise conflict(message, remedy, "client.kind", key, "tls.version")
        return self

    @model_validator(mode="after")
    def _the_client_can_begin_with_the_session(self) -> Self:
        session = "none" if self.tls is None else self.tls.session
        if session not in self.client.type.sessions:
            able = any_of(one.label for one in CLIENTS.values() if session in one.sessions)
            message = f"{self.client.label} cannot be given a session of an earlier visit"
            remedy = f"session {session} goes with {able}"
            raise conflict(message, remedy, "client.kind", "tls.session")
        if self.tls is not None and self.tls.of_another_time and not self.client.type.ours:
            able = any_of(one.label for one in CLIENTS.values() if one.ours)
            message = f"the clock of {self.client.label} cannot be set ahead of its tickets"
            remedy = f"ticket_state {self.tls.ticket_state} goes with {able}"
            raise conflict(message, remedy, "client.kind", "tls.ticket_state")
        return self

    @model_validator(mode="after")
    def _recorded_bodies_can_be_loaded(self) -> Self:
        client = self.client
        if self.origins.bodies == "recorded" and not client.type.reads_bodies:
            remedy = f"ask for the client {CHROMIUM.label}, or for other bodies"
            raise conflict(f"{client.label} does not read bodies", remedy, "client.kind", "origins.bodies")
        return self

    @model_validator(mode="after")
    def _one_address_is_enough(self) -> Self:
        if not self.origins.one_address:
            return self
        if not self.client.type.ours:
            able = any_of(one.label for one in CLIENTS.values() if one.ours)
            message = f"{self.client.label} does not say which host's resource it asks for"
            raise conflict(message, f"one_address goes with {able}", "client.kind", "origins.one_address")
        if self.tls is not None:
            message, remedy = "hosts of one address have no certificates", "ask for transports tcp and tfo"
            raise conflict(message, remedy, "origins.one_address", "tls.version", "transports")
        return self

    @model_validator(mode="after")
    def _a_server_of_others_can_be_met(self) -> Self:
        if self.origins.server is None:
            return self
        client = self.client
        if not client.type.meets_servers:
            able = any_of(one.label for one in CLIENTS.values() if one.meets_servers)
            message = f"{client.label} is not run against servers of others"
            raise conflict(message, f"server goes with {able}", "client.kind", "origins.server")
        if self.tls is not None:
            message = "an external server works only in cleartext"
            raise conflict(
                message, "ask for transports tcp and tfo", "origins.server", "tls.version", "transports"
            )
        return self

    @model_validator(mode="after")
    def _quic_can_be_spoken(self) -> Self:
        if not self.origins.quic:
            return self
        remedy = "ask for tls 1.3, or for http 1.1 or 2"
        if self.tls is not None and self.tls.version != "1.3":
            message, remedy = (
                "HTTP/3 runs over QUIC, which needs TLS 1.3",
                "ask for tls 1.3, or for http 1.1 or 2",
            )
            raise conflict(message, remedy, "origins.http", "tls.version")
        if self.tcp.congestion_control not in QUIC_CONGESTION_CONTROLS:
            able = any_of(QUIC_CONGESTION_CONTROLS)
            message = f"HTTP/3 runs over QUIC, whose congestion control is {able}"
            remedy = "ask for one of them, or for http 1.1 or 2"
            raise conflict(message, remedy, "origins.http", "tcp.congestion_control")
        if self.origins.all_quic and self.origins.http2_hosts:
            remedy = "ask for http 1.1, or leave http2_hosts out"
            keys = ("origins.http", "origins.http2_hosts")
            raise conflict("with http 3 all hosts speak HTTP/3", remedy, *keys)
        return self

    @model_validator(mode="after")
    def _hosts_agree_on_what_clients_offer(self) -> Self:
        newest = self.origins.versions[0]
        if self.origins.http == "1.0" and newest in ("2", "3"):
            remedy = f"ask for http 1.1, or leave http{newest}_hosts out"
            message = f"next to hosts with HTTP/{newest} the others speak HTTP/1.1, never 1.0"
            raise conflict(message, remedy, "origins.http", f"origins.http{newest}_hosts")
        return self


class Experiment(BaseModel):
    """Pages x networks x setups x transports x engines, loaded `repeats` times, in microseconds and bytes."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str
    title: str = ""
    source: str = ""
    notes: list[str] = Field(default_factory=list)
    pages: Annotated[list[str], Field(min_length=1)]
    corpus: Choice | None = None
    """Selection of the pages; None loads all."""
    networks: Annotated[Items[Network], Field(min_length=1)]
    setups: Annotated[Items[Setup], Field(min_length=1)] = Field(default_factory=lambda: [Setup()])
    arms: Annotated[list[ArmName], Field(min_length=1)] = list(DEFAULT_ARMS)
    engines: Annotated[list[AskedEngine], Field(min_length=1)] = ["auto"]
    """Engines to run on. A plan replaces `auto` by the best engine of the machine."""
    tolerance: Tolerance = Field(default_factory=Tolerance)
    smallest_effect: SmallestEffect = Field(default_factory=SmallestEffect)
    repeats: Annotated[int, Field(ge=1, le=REPEATS_MAX)] = 10
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)]
    vary: Variation | None = None
    """Spreads of the values that each repeat samples; None repeats with the same values."""
    published: PublishedTable | None = None

    @model_validator(mode="after")
    def _each_setup_has_an_arm(self) -> Self:
        for setup, each in enumerate(self.setups):
            if not self.arms_of(setup):
                message = f"HTTP/{each.origins.http} runs over QUIC, which has no SYN for TCP Fast Open"
                remedy = "ask for transports tls, or for http 1.1 or 2"
                raise conflict(message, remedy, "origins.http", "transports")
        return self

    @model_validator(mode="after")
    def _what_falls_back_speaks_http3(self) -> Self:
        falls_back = any(setup.client.h3_fallback_us is not None for setup in self.setups)
        able = any(setup.origins.quic or setup.origins.http == "recorded" for setup in self.setups)
        if falls_back and not able:
            message, remedy = (
                "no host speaks HTTP/3",
                "ask for http 3 or http3_hosts, or leave h3_fallback out",
            )
            raise conflict(message, remedy, "origins.http", "client.h3_fallback_us")
        return self

    @model_validator(mode="after")
    def _what_becomes_of_tickets_is_seen(self) -> Self:
        encrypted = [setup.tls for setup in self.setups if setup.tls is not None]
        asked = {
            "ticket_state": any(tls.ticket_state != "valid" for tls in encrypted),
            "early_data_rejected": any(tls.early_data_rejected for tls in encrypted),
        }
        if all(tls.session == "none" for tls in encrypted):
            for key in (key for key, is_asked in asked.items() if is_asked):
                message = "nothing begins with a session of an earlier visit"
                remedy = f"ask for session resumed or early, or leave {key} out"
                raise conflict(message, remedy, "tls.session", f"tls.{key}")
        return self

    @model_validator(mode="after")
    def _clients_can_ask_the_resolver(self) -> Self:
        names = [network.names for network in self.networks if network.names in ENCRYPTED_NAMES]
        clear = [setup.client for setup in self.setups if not setup.client.type.encrypts_lookups]
        if names and clear:
            able = any_of(one.label for one in CLIENTS.values() if one.encrypts_lookups)
            message = f"{clear[0].label} asks the resolver in cleartext, and names {names[0]} is encrypted"
            remedy = f"use names do53 or tcp, or client {able}"
            raise conflict(message, remedy, "client.kind", "network.names")
        return self

    @model_validator(mode="after")
    def _datagrams_fit_into_packets(self) -> Self:
        quic = any(setup.origins.quic for setup in self.setups)
        narrow = [one for one in self.networks if one.mtu_bytes < one.quic_mtu_min_bytes]
        if quic and narrow:
            remedy = "ask for more, or for http 1.1 or 2"
            message = f"HTTP/3 runs over QUIC, which needs an MTU of {narrow[0].quic_mtu_min_bytes} bytes"
            raise conflict(message, remedy, "origins.http", "network.mtu_bytes")
        return self

    def arms_of(self, setup: int) -> list[Arm]:
        """Return the arms of a setup. QUIC has no SYN, so only arms without TFO."""
        each = self.setups[setup]
        arms = [ARMS[name].over(each.tls) for name in self.arms]
        return [arm for arm in arms if not (each.origins.all_quic and arm.fast_open)]


def default_queue_bytes(rate_bit_per_s: int | None) -> int | None:
    """Return the default size of a link's queue; None, no limit, if the rate has no limit."""
    if rate_bit_per_s is None:
        return None
    return max(QUEUE_MIN_BYTES, rate_bit_per_s * QUEUE_TIME_MS // 8_000)
