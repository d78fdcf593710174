"""A factor: a setting that may vary from cell to cell, with everything that is known about it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from fastopen.common.pydantic_errors import input_error
from fastopen.common.units import UnitError
from fastopen.contract import Client, EngineName, Network, Origins, Tcp, Tls
from fastopen.experiments.arms import Arm
from fastopen.experiments.model import Setup
from fastopen.experiments.quantities import Kind, Quantity, not_accepted, shown

Part = Literal["network", "client", "origins", "tls", "tcp", "arm", "engine"]
MODELS: Final[dict[Part, type[BaseModel]]] = {
    "network": Network,
    "client": Client,
    "origins": Origins,
    "tls": Tls,
    "tcp": Tcp,
}


# Of columns, behind what they are of.
UNITS: Final = frozenset({"ms", "s", "Mbit/s", "kB", "%", "bytes"})


@dataclass(frozen=True)
class Point:
    """The place of the arms of one comparison: a network, a setup and an engine."""

    network: Network
    setup: Setup
    engine: EngineName
    arm: Arm | None = None
    """Of a single cell."""

    def part(self, name: Part) -> Any:
        """Return the object that holds the factors of that part."""
        if name in ("network", "arm"):
            return getattr(self, name)
        return self if name == "engine" else getattr(self.setup, name)


@dataclass(frozen=True)
class Factor:
    """One thing that may vary. Options, keys of files, arguments, columns and sentences are made from it."""

    name: str
    """Of the argument in Python, and of the option."""
    part: Part
    """Of a job, or of a cell."""
    fields: tuple[str, ...]
    """Of the part, with dots; several where a value is for both directions of the link."""
    quantity: Quantity
    meaning: str
    """In a line, for people who ask for it."""
    columns: tuple[str, ...] = ()
    """Keys of cells in `--json` and exported columns, one for each field; if not given, as the field."""
    default: str | None = None
    """As it is written; if not given the contract's."""
    otherwise: str = ""
    """What it is where it has no default: it follows from other factors."""
    example: str = ""
    """Values as one writes them."""
    header: str = ""
    """Over a column of a table, with the unit; empty: an experiment has one value, and no table shows it."""
    phrase: str = "{}"
    """In sentences, and in ids of jobs where `label` is not given; the text of the value stands for `{}`."""
    called: str = ""
    """What people call it, where the header is too short for that."""
    full: str = ""
    """The phrase where nothing around it says what it is of, if not given the phrase."""
    absent_phrase: str = ""
    """The same where there is no value."""
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The same of single values, by what a column shows."""
    label: str = ""
    """In ids of jobs."""
    question: bool = False
    """Whether its values are questions of their own, that no verdict mixes."""
    first_flight: bool = False
    """Whether it says how connections begin, so that rows that differ in it alone are compared."""
    natural: Callable[[Point], tuple[Any, ...]] | None = None
    """What it is where nobody asks, of each field: then no table shows it."""
    chance: Callable[[Any], bool] | None = None
    """Whether a load with that value is not the same each time, even in virtual time; None: it always is."""
    needs: tuple[str, Any] | None = None
    """A field of the part, and its default, with which this factor means nothing."""
    switch: bool = False
    """Whether the option alone means on."""
    repeatable: bool = False
    """Whether the option is given once for each part of the value."""
    named: str = ""
    """The option, where that is not the name."""
    key: str = ""
    """In a TOML file, where that is not the part and its field (or the name, of a network)."""

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return f"--{(self.named or self.name).replace('_', '-')}"

    @property
    def toml(self) -> str:
        """The key in a TOML file."""
        return self.key or f"{self.part}.{self.name if self.part == 'network' else self.fields[0]}"

    @property
    def argument(self) -> str:
        """Return the name of the argument of Experiment in Python."""
        return self.key if self.part in ("arm", "engine") else self.name

    @property
    def setting(self) -> str:
        """The last part of that key."""
        return self.toml.rpartition(".")[2]

    @property
    def several(self) -> bool:
        """Return True if an experiment may compare several values of it."""
        return bool(self.header) or self.part in ("arm", "engine")

    @property
    def export(self) -> tuple[str, ...]:
        """Keys of cells in `--json` and exported columns."""
        return self.columns or (self.fields[0].rpartition(".")[2],)

    @property
    def heading(self) -> str:
        """The header of a table's column in one line."""
        return self.header.replace("-\n", "").replace("\n", " ")

    @property
    def title(self) -> str:
        """Return its name for people, without the unit."""
        words = (word for word in self.heading.split(" ") if word not in UNITS)
        return self.called or " ".join(words) or self.name.replace("_", " ")

    @property
    def unit(self) -> str:
        """Return the unit of the values in a table's column; empty if they have none."""
        return " ".join(word for word in self.heading.split(" ") if word in UNITS)

    @property
    def kind(self) -> Kind:
        """Return the kind of the exported columns."""
        return self.quantity.kind

    @cached_property
    def usual(self) -> str | None:
        """The default as it is written; None where it follows from other factors."""
        if self.default is not None or self.otherwise or self._field is None:
            return self.default
        value = None if self._field.is_required() else self._field.get_default(call_default_factory=True)
        return None if value in (None, [], {}) else self.quantity.write(value)

    @cached_property
    def accepted(self) -> tuple[str, ...]:
        """The words that are accepted, where those are few."""
        return (*self.quantity.accepted, *self._adapter.json_schema().get("enum", ()))

    @cached_property
    def bounds(self) -> str:
        """Between which values it lies by the contract, as people write them; empty where there are none."""
        schema = self._adapter.json_schema()
        bounds = {
            key: self.quantity.write(one[key])
            for one in (schema, *schema.get("anyOf", ()))
            for key in ("minimum", "maximum")
            if key in one
        }
        low, high = bounds.get("minimum"), bounds.get("maximum")
        return f"{low} to {high}" if low and high else f"{low} at least" if low else ""

    @cached_property
    def _field(self) -> Any:
        """Return the field of the contract's model; None if the model has none of that name."""
        model: Any = MODELS.get(self.part)
        *path, last = self.fields[0].split(".")
        for name in path:
            model = model.model_fields[name].annotation
        return model.model_fields.get(last) if model else None

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        field = self._field
        kind: Any = Any
        if field is not None:
            kind = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        return TypeAdapter(kind, config=ConfigDict(strict=True))

    def read(self, written: object) -> Any:
        """A value in base units, as the contract allows it. Raises UnitError."""
        value = self.quantity.read(written)
        if not self.quantity.in_contract(value):
            return value
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            if self.accepted:
                raise not_accepted(written, self.accepted) from None
            if self.bounds:
                raise UnitError(f"{shown(written)} is out of bounds ({self.bounds})") from None
            raise UnitError(input_error(error, "").message) from None

    def values(self, point: Point) -> tuple[Any, ...]:
        """The value of each field at a point."""
        part = point.part(self.part)
        return tuple(None if part is None else attrgetter(field)(part) for field in self.fields)

    def applies(self, point: Point) -> bool:
        """Return True if the factor that it needs is present."""
        if self.needs is None:
            return True
        field, without = self.needs
        return bool(attrgetter(field)(point.part(self.part)) != without)

    def text_at(self, point: Point) -> str:
        """The value as a column shows it; of both directions where they differ."""
        return self._text(point) if self.applies(point) else "-"

    def phrase_at(self, point: Point) -> str:
        """The value as a sentence says it."""
        if self.absent_phrase and (not self.applies(point) or set(self.values(point)) == {None}):
            return self.absent_phrase
        text = self.text_at(point)
        return self.words.get(text) or self.phrase.format(text)

    def full_phrase_at(self, point: Point) -> str:
        """The value as it says by itself what it is of."""
        return self.full.format(self.text_at(point)) if self.full else self.phrase_at(point)

    def label_at(self, point: Point) -> str:
        """The value in the id of a job."""
        return (self.label or self.phrase.replace(" ", "-")).format(self._text(point).replace(" ", "-"))

    def varies(self, points: Sequence[Point]) -> bool:
        """Return True if it differs from point to point, and does not only follow from other factors."""
        if not self.header or len({repr(self.values(point)) for point in points}) < 2:
            return False
        return self.natural is None or not self.is_usual(points)

    def _text(self, point: Point) -> str:
        return "/".join(dict.fromkeys(self.quantity.in_column(value) for value in self.values(point)))

    def is_usual(self, points: Iterable[Point]) -> bool:
        """Return True if it has its default at every point."""
        if self.natural is not None:
            return all(self.values(point) == self.natural(point) for point in points)
        values = (value for point in points for value in self.values(point))
        return all(value is None or self.quantity.write(value) == self.usual for value in values)
