"""What an experiment's TOML file may say, with units, and how that becomes an Experiment."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fastopen import units
from fastopen.contract import Client, Network, Origins, RateLimit, Tcp, Tolerance
from fastopen.contract.job import LOSS_MAX, RATE_MAX_BIT_PER_S, RATE_MIN_BIT_PER_S, RttUs
from fastopen.experiments.model import REPEATS_MAX, ArmName, Experiment, PublishedTable, default_queue_bytes
from fastopen.experiments.trace import mean_rate_bit_per_s, read_trace


def _with_unit(parse: Any, example: str) -> BeforeValidator:
    def validate(value: object) -> Any:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} has no unit; write it as text, like {example}")
        return parse(value)

    return BeforeValidator(validate)


def _size(text: object) -> int | None:
    return units.parse_size_bytes(str(text))


Duration = Annotated[RttUs, _with_unit(units.parse_duration_us, '"20ms"')]
_RateBitPerS = Annotated[int, Field(ge=RATE_MIN_BIT_PER_S, le=RATE_MAX_BIT_PER_S)]
Rate = Annotated[_RateBitPerS | None, _with_unit(units.parse_rate_bit_per_s, '"4mbit"')]
Size = Annotated[int | None, BeforeValidator(_size)]
Loss = Annotated[float, Field(le=LOSS_MAX), _with_unit(units.parse_fraction, '"1%"')]


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class NetworkSpec(_Table):
    """`[network]`: one network for each RTT."""

    rtt: Annotated[list[Duration], Field(min_length=1)]
    down: Rate = None
    up: Rate = None
    down_trace: str | None = None
    up_trace: str | None = None
    queue: Size | Literal["default"] = "default"
    loss: Loss = 0.0
    extra_rtt: dict[str, Duration] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_kind_of_rate(self) -> Self:
        for name in ("down", "up"):
            if getattr(self, name) is not None and getattr(self, f"{name}_trace") is not None:
                raise ValueError(f"{name} and {name}_trace exclude each other")
        return self

    def networks(self, folder: Path) -> list[Network]:
        """The networks in base units; traces are looked for beside the experiment, in `folder`."""
        down = self._direction(self.down, self.down_trace, folder)
        up = self._direction(self.up, self.up_trace, folder)
        return [Network(rtt_us=rtt, down=down, up=up, host_extra_rtt_us=self.extra_rtt) for rtt in self.rtt]

    def _direction(self, rate: int | None, trace: str | None, folder: Path) -> RateLimit:
        times = None if trace is None else read_trace(folder / trace)
        queue = self.queue
        if queue == "default":
            queue = default_queue_bytes(rate if times is None else mean_rate_bit_per_s(times))
        return RateLimit(rate_bit_per_s=rate, trace_ms=times, queue_bytes=queue, loss=self.loss)


class ExperimentSpec(_Table):
    """The whole file."""

    format: Literal["fastopen-experiment/1"]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    title: str = ""
    source: str = ""
    notes: list[str] = Field(default_factory=list)
    pages: Annotated[list[str], Field(min_length=1)]
    transports: Annotated[list[ArmName], Field(min_length=1)] = ["off", "cold", "warm"]
    repeats: Annotated[int, Field(ge=1, le=REPEATS_MAX)] = 10
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)]
    network: NetworkSpec
    tcp: Tcp = Field(default_factory=Tcp)
    client: Client = Field(default_factory=lambda: Client.model_validate({}))
    origins: Origins = Field(default_factory=Origins)
    tolerance: Tolerance = Field(default_factory=Tolerance)
    published: PublishedTable | None = None

    def experiment(self, folder: Path) -> Experiment:
        """In base units. Raises InputError or ValidationError where a trace or a rate cannot be used."""
        return Experiment(
            name=self.name,
            title=self.title,
            source=self.source,
            notes=self.notes,
            pages=self.pages,
            networks=self.network.networks(folder),
            arms=list(dict.fromkeys(self.transports)),
            tcp=self.tcp,
            client=self.client,
            origins=self.origins,
            tolerance=self.tolerance,
            repeats=self.repeats,
            seed=self.seed,
            published=self.published,
        )
