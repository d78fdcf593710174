"""Define factors, the settings that an experiment may vary: their names, values and texts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fastopen.common.pydantic_errors import input_error
from fastopen.common.units import UnitError
from fastopen.contract import Client, EngineName, Network, Origins, Tcp, Tls
from fastopen.experiments.arms import Arm
from fastopen.experiments.model import Setup
from fastopen.experiments.quantities import Quantity, not_accepted, shown

Part = Literal["network", "client", "origins", "tls", "tcp", "arm", "engine"]
MODELS: Final = {"network": Network, "client": Client, "origins": Origins, "tls": Tls, "tcp": Tcp}
# Units that may end the heading of a column.
UNITS: Final = frozenset({"ms", "s", "Mbit/s", "kB", "%", "bytes"})


@dataclass(frozen=True)
class DesignPoint:
    """A point of an experiment's design: the conditions of page loads, with a value for each factor."""

    network: Network
    setup: Setup
    engine: EngineName
    arm: Arm | None = None
    """The arm (use of TFO); None if the conditions hold for all arms."""

    def part(self, name: Part) -> Any:
        """Return the object with the settings of the part `name`, such as the `Tls` for `tls`."""
        if name in ("network", "arm"):
            return getattr(self, name)
        return self if name == "engine" else getattr(self.setup, name)


@dataclass(frozen=True)
class Factor:
    """A setting that an experiment may vary, such as the RTT, with its names, default and texts for users.
    `quantity` reads and writes its values, and `long_name` is its name in sentences. `default_meaning`
    describes a default that depends on other settings."""

    name: str
    """Name of the argument in Python, and of the option."""
    part: Part
    """Part of a job or cell that contains the factor's fields, such as `network`, `tls` or `arm`."""
    quantity: Quantity
    meaning: str
    """One-line explanation for users."""
    paths: tuple[str, ...] = ()
    """Dotted paths of the fields of `part` that the factor sets, such as `down.loss`. A factor that sets both
    directions of the link has two paths. By default, the only path is `name`."""
    columns: tuple[str, ...] = ()
    """Keys in `--json` and names of exported columns, one for each of the factor's fields. If empty, the only
    name is the last part of the first field's path."""
    default: str | None = None
    """Default value as users write it; None to use the default of the job's field."""
    default_meaning: str = ""
    example: str = ""
    """Example values as users write them."""
    header: str = ""
    """Heading of the column in tables, with the unit. Empty if an experiment can have only one value of the
    factor, so that tables have no column for it."""
    phrase: str = ""
    """Template that names the factor and its value (`{}`) in a sentence; by default the title and `{}`."""
    long_name: str = ""
    full: str = ""
    """Template for a phrase that is clear without context, such as `RTT {} ms`; by default `phrase`."""
    absent_phrase: str = ""
    """Phrase that replaces the value if the factor has no value or no effect, such as `cleartext`."""
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Phrases for certain values. A key is the text of the value in a column of a table."""
    label: str = ""
    """Template for ids of jobs; `{}` is the value's text. Default: `template` with hyphens for spaces."""
    question: bool = False
    """True if each value gets its own verdict on TFO, instead of one verdict for all values."""
    first_flight: bool = False
    """True for factors that decide how connections begin. Reports compare cells that differ only in these."""
    natural: Callable[[DesignPoint], tuple[Any, ...]] | None = None
    """Function that returns the fields' defaults under given conditions, if they depend on other settings or
    differ from the job's defaults. Tables do not show a factor whose values are all defaults."""
    chance: Callable[[Any], bool] | None = None
    """Function that returns True if a value makes loads random, even in virtual time. None: no value does."""
    needs: tuple[str, Any] | None = None
    """Path of another field of `part`, and the value of that field with which this factor has no effect."""
    switch: bool = False
    """True if the option takes no value, and turns the factor on."""
    repeatable: bool = False
    """True if the option may be given several times, each time with a part of the value."""
    named: str = ""
    """Name of the option, if it differs from `name`."""
    key: str = ""
    """Key in a TOML file, if it is neither `PART.FIELD` nor, for a network, `network.NAME`."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the dotted paths of the factor's fields within `part`, such as `down.loss` and `up.loss`."""
        return self.paths or (self.name,)

    @property
    def flag(self) -> str:
        return f"--{(self.named or self.name).replace('_', '-')}"

    @property
    def toml(self) -> str:
        return self.key or f"{self.part}.{self.name if self.part == 'network' else self.fields[0]}"

    @property
    def argument(self) -> str:
        """Return the name of the factor's argument in the Python API."""
        return self.key if self.part in ("arm", "engine") else self.name

    @property
    def setting(self) -> str:
        """Return the last part of the factor's TOML key, such as `version` of `tls.version`."""
        return self.toml.rpartition(".")[2]

    @property
    def several(self) -> bool:
        """Return True if an experiment may compare several values of the factor."""
        return bool(self.header) or self.part in ("arm", "engine")

    @property
    def export(self) -> tuple[str, ...]:
        """Return the factor's keys in the output of `--json`, which are also columns of exported tables."""
        return self.columns or (self.fields[0].rpartition(".")[2],)

    @property
    def heading(self) -> str:
        """Return the header of the factor's table column without line breaks."""
        return self.header.replace("-\n", "").replace("\n", " ")

    @property
    def title(self) -> str:
        """Return the factor's name for people, without the unit."""
        words = (word for word in self.heading.split(" ") if word not in UNITS)
        return self.long_name or " ".join(words) or self.name.replace("_", " ")

    @property
    def unit(self) -> str:
        """Return the unit of the values in a table's column; empty if there is none."""
        return " ".join(word for word in self.heading.split(" ") if word in UNITS)

    @cached_property
    def usual(self) -> str | None:
        """Return the default value as users write it, such as `1.3`. None if the factor has no default, or if
        the default depends on other factors."""
        if self.default is not None or self.default_meaning or self._field is None:
            return self.default
        value = None if self._field.is_required() else self._field.get_default(call_default_factory=True)
        return None if value in (None, [], {}) else self.quantity.write(value)

    @cached_property
    def accepted(self) -> tuple[str, ...]:
        """Return the words that are valid values, such as `none` and the values of an enum; may be empty."""
        schema = self._adapter.json_schema()
        enums = (one.get("enum", ()) for one in (schema, *schema.get("anyOf", ())))
        return tuple(dict.fromkeys([*self.quantity.accepted, *(word for enum in enums for word in enum)]))

    @cached_property
    def bounds(self) -> str:
        """Return the range of allowed values in words, such as `1 to 9` or `1 at least`; empty if unknown."""
        schema = self._adapter.json_schema()
        given = {key: value for one in (schema, *schema.get("anyOf", ())) for key, value in one.items()}
        ends = (given.get("minimum"), given.get("maximum"))
        low, high = (None if end is None else self.quantity.write(end) for end in ends)
        return f"{low} to {high}" if low and high else f"{low} at least" if low else ""

    @cached_property
    def _field(self) -> Any:
        model: Any = MODELS.get(self.part)
        *path, last = self.fields[0].split(".")
        for name in path:
            model = model.model_fields[name].annotation
        return model.model_fields.get(last) if model else None

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        field = self._field
        kind: Any = Any if field is None else Annotated[field.annotation, field]
        return TypeAdapter(kind, config=ConfigDict(strict=True))

    def read(self, written: object) -> Any:
        """Convert a value that a user wrote, such as `20ms`, to base units. Raises UnitError if invalid."""
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

    def values(self, point: DesignPoint) -> tuple[Any, ...]:
        """Return the value of each of `fields` under the conditions `point`. All are None if the part that
        contains the fields is missing, such as `tls` in cleartext."""
        part = point.part(self.part)
        return tuple(None if part is None else attrgetter(field)(part) for field in self.fields)

    def applies(self, point: DesignPoint) -> bool:
        """Return True if the factor has an effect under the conditions `point` (see `needs`)."""
        if self.needs is None:
            return True
        field, without = self.needs
        return bool(attrgetter(field)(point.part(self.part)) != without)

    def text_at(self, point: DesignPoint) -> str:
        """Return the factor's value under the conditions `point` as text for a table, such as `20`, or `20/5`
        if the link's directions differ; `-` if the factor has no effect."""
        return self._text(point) if self.applies(point) else "-"

    def phrase_at(self, point: DesignPoint) -> str:
        """Return the value as a phrase for a sentence, such as `20 ms` or `cleartext`."""
        if self.absent_phrase and (not self.applies(point) or set(self.values(point)) == {None}):
            return self.absent_phrase
        text = self.text_at(point)
        return self.words.get(text) or self.template.format(text)

    def full_phrase_at(self, point: DesignPoint) -> str:
        """Return the value as a phrase that is clear without context, such as `RTT 20 ms`."""
        return self.full.format(self.text_at(point)) if self.full else self.phrase_at(point)

    def label_at(self, point: DesignPoint) -> str:
        """Return the factor's value under the conditions `point` as text for a job's id: `down2mbit`."""
        return (self.label or self.template.replace(" ", "-")).format(self._text(point).replace(" ", "-"))

    @property
    def template(self) -> str:
        """Return the template of phrases that name the factor and its value, in which `{}` is the value."""
        return self.phrase or f"{self.title} {{}}"

    @property
    def has_dependent_default(self) -> bool:
        """Return True if the default depends on other settings, such as on the use of TLS."""
        return self.natural is not None or self.part == "tls"

    def varies(self, points: Sequence[DesignPoint]) -> bool:
        """Return True if tables have a column for the factor, and its values under the conditions `points`
        differ. Return False if they differ only because its default depends on other settings."""
        if not self.header or len({repr(self.values(point)) for point in points}) < 2:
            return False
        return not (self.has_dependent_default and self.is_usual(points))

    def _text(self, point: DesignPoint) -> str:
        write, values = self.quantity.text or self.quantity.write, self.values(point)
        return "/".join(dict.fromkeys("none" if value is None else write(value) for value in values))

    def is_usual(self, points: Iterable[DesignPoint]) -> bool:
        """Return True if the factor has its default, or no value, under all these conditions (`points`)."""
        if self.natural is not None:
            return all(self.values(point) == self.natural(point) for point in points)
        values = (value for point in points for value in self.values(point))
        return all(value is None or self.quantity.write(value) == self.usual for value in values)
