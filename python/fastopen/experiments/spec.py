"""What an experiment's TOML file may say, with units, and how that becomes an Experiment."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    model_validator,
)

from fastopen import units
from fastopen.contract import Client, Network, Origins, Tcp, Tls, Tolerance
from fastopen.contract.job import LOSS_MAX, RATE_MAX_BIT_PER_S, RATE_MIN_BIT_PER_S, RttUs
from fastopen.experiments.model import REPEATS_MAX, AskedEngine, Experiment, PublishedTable
from fastopen.experiments.sweep import (
    AskedNetworks,
    Combine,
    Link,
    clients_of,
    multiplied,
    networks_of,
    setups_of,
    tls_settings,
)
from fastopen.experiments.trace import read_trace
from fastopen.experiments.transports import TransportWord, arms_and_tls


def _with_unit(parse: Any, example: str) -> BeforeValidator:
    def validate(value: object) -> Any:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} has no unit; write it as text, like {example}")
        return parse(value)

    return BeforeValidator(validate)


def _size(text: object) -> int | None:
    return units.parse_size_bytes(str(text))


Duration = Annotated[RttUs, _with_unit(units.parse_duration_us, '"20ms"')]
BitPerS = Annotated[int, Field(ge=RATE_MIN_BIT_PER_S, le=RATE_MAX_BIT_PER_S)] | None
LossFraction = Annotated[float, Field(le=LOSS_MAX)]
Rate = Annotated[BitPerS, _with_unit(units.parse_rate_bit_per_s, '"4mbit"')]
Size = Annotated[int | None, BeforeValidator(_size)]
Loss = Annotated[LossFraction, _with_unit(units.parse_fraction, '"1%"')]


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _one_or_more(item: Any) -> PlainValidator:
    """A value or a list of them, as a list; pydantic passes on where in it a fault is."""
    single, several = TypeAdapter(item), TypeAdapter(Annotated[list[item], Field(min_length=1)])

    def validate(value: object) -> list[Any]:
        if isinstance(value, list):
            return several.validate_python(value)
        return [single.validate_python(value)]

    return PlainValidator(validate)


def _multiplied(model: type[BaseModel]) -> PlainValidator:
    """A table of settings, of which any may be a list; pydantic passes on where in it a fault is."""

    def validate(table: object) -> list[Any]:
        if not isinstance(table, dict):
            raise ValueError("is a table")
        return multiplied(model, table)

    return PlainValidator(validate)


def _clients(table: object) -> list[Client]:
    """`[client]`: as `_multiplied`, with the clients that have names."""
    if not isinstance(table, dict):
        raise ValueError("is a table")
    return clients_of(table)


def _tls() -> PlainValidator:
    """`[tls]`: as other settings, but its `version` may be `none` as well."""

    def validate(table: object) -> list[Tls | None]:
        if not isinstance(table, dict):
            raise ValueError("is a table")
        return tls_settings(table)

    return PlainValidator(validate)


class NetworkSpec(_Table):
    """`[network]`: a network for each value with each other or, with `combine = "zip"`, first with first."""

    rtt: Annotated[list[Duration], _one_or_more(Duration)]
    down: Annotated[list[Rate], _one_or_more(Rate)] = [None]
    up: Annotated[list[Rate], _one_or_more(Rate)] = [None]
    down_trace: str | None = None
    up_trace: str | None = None
    queue: Annotated[list[Size | Literal["default"]], _one_or_more(Size | Literal["default"])] = ["default"]
    loss: Annotated[list[Loss], _one_or_more(Loss)] = [0.0]
    extra_rtt: dict[str, Duration] = Field(default_factory=dict)
    combine: Combine = "cross"
    link: Link = "auto"

    @model_validator(mode="after")
    def _one_kind_of_rate(self) -> Self:
        for name in ("down", "up"):
            if getattr(self, name) != [None] and getattr(self, f"{name}_trace") is not None:
                raise ValueError(f"{name} and {name}_trace exclude each other")
        return self

    @model_validator(mode="after")
    def _lists_fit(self) -> Self:
        for _ in self._asked().combined(self.combine):
            break
        return self

    def _asked(self) -> AskedNetworks:
        return AskedNetworks(self.down, self.up, self.queue, self.loss, self.rtt)

    def networks(self, folder: Path) -> list[Network]:
        """The networks in base units; traces are looked for beside the experiment, in `folder`."""
        down, up = (
            None if name is None else read_trace(folder / name) for name in (self.down_trace, self.up_trace)
        )
        return networks_of(self._asked(), self.combine, self.extra_rtt, (down, up), self.link)


class ExperimentSpec(_Table):
    """The whole file."""

    format: Literal["fastopen-experiment/1"]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    title: str = ""
    source: str = ""
    notes: list[str] = Field(default_factory=list)
    pages: Annotated[list[str], Field(min_length=1)]
    transports: Annotated[list[TransportWord], Field(min_length=1)] = ["off", "cold", "warm"]
    repeats: Annotated[int, Field(ge=1, le=REPEATS_MAX)] = 10
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)]
    network: NetworkSpec
    tcp: Annotated[list[Tcp], _multiplied(Tcp)] = Field(default_factory=lambda: [Tcp()])
    client: Annotated[list[Client], PlainValidator(_clients)] = Field(default_factory=lambda: clients_of({}))
    origins: Annotated[list[Origins], _multiplied(Origins)] = Field(default_factory=lambda: [Origins()])
    tls: Annotated[list[Tls | None], _tls()] = Field(default_factory=lambda: list[Tls | None]([None]))
    engines: Annotated[list[AskedEngine], Field(min_length=1)] = ["auto"]
    tolerance: Tolerance = Field(default_factory=Tolerance)
    published: PublishedTable | None = None

    def experiment(self, folder: Path) -> Experiment:
        """In base units. Raises InputError or ValidationError where a trace or a rate cannot be used."""
        arms, tls = arms_and_tls(self.transports, self.tls)
        return Experiment(
            name=self.name,
            title=self.title,
            source=self.source,
            notes=self.notes,
            pages=self.pages,
            networks=self.network.networks(folder),
            arms=arms,
            setups=setups_of(self.client, self.origins, self.tcp, tls),
            engines=self.engines,
            tolerance=self.tolerance,
            repeats=self.repeats,
            seed=self.seed,
            published=self.published,
        )
