"""Define the model of an experiment, in base units such as microseconds and bytes. Runs store it as JSON."""

from itertools import product
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from fastopen.common.pydantic_errors import Items, conflict
from fastopen.contract import Client, Network, Origins, Tcp, Tls, Tolerance
from fastopen.contract.job import check_ends, check_network
from fastopen.contract.part import Part
from fastopen.experiments.arms import ARMS, DEFAULT_ARMS, Arm, ArmName
from fastopen.experiments.variation import Variation
from fastopen.pages import Choice

# The default queue holds the bursts of a page's first windows or, if more, the data sent in 100 ms.
QUEUE_MIN_BYTES: Final = 256_000
QUEUE_TIME_MS: Final = 100
REPEATS_MAX: Final = 10_000

Misprint = Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=2, max_length=2)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
AskedEngine = Literal["auto", "host", "virtual"]


class SmallestEffect(Part):
    """The smallest effect of interest. A saving below `percent` or below `ms` counts as no difference."""

    percent: Annotated[float, Field(ge=0, le=100)] = 0.5
    """Percentage of the page load time."""
    ms: Annotated[float, Field(ge=0)] = 1.0


class PublishedTable(Part):
    """A published table of page load times, in published.csv, with which an experiment is compared. `unit`,
    `misprints` and `swapped` correct printing errors: `swapped` is True if the columns of times with and
    without TFO are exchanged. `same_rig` names other tables that come from the same test setup."""

    experiment: str
    """The value of the column `experiment` in the table's rows."""
    pages: dict[str, str]
    """Maps the names of pages in the experiment to their names in the table."""
    unit: Literal["s", "ms"] | None = None
    """The correct unit of the times, if the table prints a wrong unit."""
    misprints: list[Misprint] = Field(default_factory=list)
    """Misprinted times without TFO, each as a pair of the printed and the correct time."""
    swapped: bool = False
    same_rig: list[str] = Field(default_factory=list)
    known: list[str] = Field(default_factory=list)
    """Further reasons why the published figures differ from this experiment's, as sentences for reports."""


class Setup(Part):
    """The settings of client and servers: the client, the origin servers, TCP and TLS."""

    client: Client = Field(default_factory=lambda: Client.model_validate({}))
    origins: Origins = Field(default_factory=Origins)
    tcp: Tcp = Field(default_factory=Tcp)
    tls: Tls | None = None
    """TLS settings of the origins; None if all origins serve in cleartext. `security` decides whether every
    origin uses TLS, or only origins of https URLs."""

    @model_validator(mode="after")
    def _both_ends_agree(self) -> Self:
        encrypted = self.tls is not None
        check_ends(self.client, self.origins, self.tcp, self.tls, clear=not encrypted, encrypted=encrypted)
        if self.origins.all_quic and self.origins.http2_hosts:
            remedy = "use --http=1.1, or drop --http2-hosts"
            keys = ("origins.http", "origins.http2_hosts")
            raise conflict("with --http=3 all hosts speak HTTP/3", remedy, *keys)
        newest = self.origins.versions[0]
        if self.origins.http == "1.0" and newest in ("2", "3"):
            remedy = f"use --http=1.1, or drop --http{newest}-hosts"
            message = f"if some hosts speak HTTP/{newest}, the others speak HTTP/1.1, not 1.0"
            raise conflict(message, remedy, "origins.http", f"origins.http{newest}_hosts")
        return self


class ExperimentFacts(Part):
    """Fields that the models of an experiment and of its TOML file (`ExperimentSpec`) have in common."""

    name: str
    title: str = ""
    source: str = ""
    notes: list[str] = Field(default_factory=list)
    pages: Annotated[list[str], Field(min_length=1)]
    corpus: Choice | None = None
    """The rule that selects some of the pages. None: all pages."""
    repeats: Annotated[int, Field(ge=1, le=REPEATS_MAX)] = 10
    tolerance: Tolerance = Field(default_factory=Tolerance)
    smallest_effect: SmallestEffect = Field(default_factory=SmallestEffect)
    published: PublishedTable | None = None


class Experiment(ExperimentFacts):
    """An experiment: it loads each page over each network with each setup, with and without TFO (`arms`)."""

    networks: Annotated[Items[Network], Field(min_length=1)]
    setups: Annotated[Items[Setup], Field(min_length=1)] = Field(default_factory=lambda: [Setup()])
    arms: Annotated[list[ArmName], Field(min_length=1)] = Field(default=list(DEFAULT_ARMS))
    engines: Annotated[list[AskedEngine], Field(min_length=1)] = Field(default=["auto"])
    """Engines to run on. `make_plan` replaces `auto` by `host` or `virtual`."""
    seed: Seed
    vary: Variation | None = None
    """The spreads of the values that each repeat samples. None: all repeats have the same values."""

    @model_validator(mode="after")
    def _each_setup_has_an_arm(self) -> Self:
        for setup, each in enumerate(self.setups):
            if not self.arms_of(setup):
                message = f"HTTP/{each.origins.http} runs over QUIC, which has no SYN for TCP Fast Open"
                raise conflict(message, "use --transports=tls, or --http=1.1/2", "origins.http", "transports")
        return self

    @model_validator(mode="after")
    def _settings_are_compatible(self) -> Self:
        encrypted = [setup.tls for setup in self.setups if setup.tls is not None]
        if not any(setup.origins.quic or setup.origins.http == "recorded" for setup in self.setups):
            for key in self.needing_quic():
                remedy = "use --http=3 or --http3-hosts, or drop it"
                raise conflict("needs a host with HTTP/3", remedy, key)
        if all(tls.session == "none" for tls in encrypted):
            for key, is_set in (
                ("tls.ticket_state", any(tls.ticket_state != "valid" for tls in encrypted)),
                ("tls.early_data_rejected", any(tls.early_data_rejected for tls in encrypted)),
            ):
                if is_set:
                    remedy = "use --session=resumed/early, or drop it"
                    raise conflict("works only with --session=resumed/early", remedy, key)
        for network, setup in product(self.networks, self.setups):
            check_network(network, setup.client, setup.origins)
        return self

    def needing_quic(self) -> list[str]:
        """Return the keys of settings that are not at their defaults and have an effect only with HTTP/3."""
        encrypted = [setup.tls for setup in self.setups if setup.tls is not None]
        is_set = {
            "client.h3_fallback_us": any(one.client.h3_fallback_us is not None for one in self.setups),
            "tls.retry": any(tls.retry for tls in encrypted),
            "tls.address_tokens": not all(tls.address_tokens for tls in encrypted),
        }
        return [key for key, given in is_set.items() if given]

    def arms_of(self, setup: int) -> list[Arm]:
        """Return the arms (with and without TFO) that are compared in the setup at this index. Arms with TFO
        are left out if all hosts use QUIC, because QUIC does not use TCP."""
        each = self.setups[setup]
        arms = [ARMS[name].over(each.tls) for name in self.arms]
        return [arm for arm in arms if not (each.origins.all_quic and arm.fast_open)]


def default_queue_bytes(rate_bit_per_s: int | None) -> int | None:
    """Return a link's default queue size in bytes for its rate. A rate or size of None means no limit."""
    return None if rate_bit_per_s is None else max(QUEUE_MIN_BYTES, rate_bit_per_s * QUEUE_TIME_MS // 8_000)
