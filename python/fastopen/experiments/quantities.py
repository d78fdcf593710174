"""Parse the values of settings that users write, such as `20ms`, and format them for tables and export."""

import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from fastopen.common import units
from fastopen.common.errors import any_of, did_you_mean, one_line
from fastopen.common.units import UnitError
from fastopen.contract.part import RTT_MAX_US

Kind = Literal["int", "float", "text", "flag"]
DEFAULT_QUEUE: Final = "default"


@dataclass(frozen=True)
class Quantity:
    """Functions for one kind of value, such as durations. `export` converts a value for JSON and exported
    tables. `in_contract` returns True if a job contains the value unchanged."""

    read: Callable[[object], Any]
    """Function that converts user input to base units (us, bytes, bit/s) or raises UnitError."""
    write: Callable[[Any], str] = str
    """Function that writes a value as a text that `read` accepts."""
    text: Callable[[Any], str] | None = None
    """Function that writes a value without its unit, for columns headed with the unit; default: `write`."""
    kind: Kind = "text"
    """Type of the exported column: `int`, `float`, `text` or `flag`."""
    unit: str = ""
    """Unit of the exported column."""
    export: Callable[[Any], Any] = lambda value: value
    accepted: tuple[str, ...] = ()
    """Words that are valid in addition to the values of the job's field, such as `none`."""
    in_contract: Callable[[Any], bool] = lambda _: True

    def flat(self, value: Any) -> Any:
        """Return the value for one cell of an exported table: a string, number or boolean. A list or mapping
        becomes a comma-separated string. None means an empty cell."""
        exported = self.export(value)
        if exported is not None and self.kind == "float":
            return float(exported)
        if isinstance(exported, Mapping):
            return ",".join(f"{key}={one}" for key, one in exported.items()) or None
        return ",".join(map(str, exported)) or None if isinstance(exported, list | tuple) else exported


def choice(*accepted: str) -> Quantity:
    """Return the functions that parse and format a setting whose value must be one of `accepted`."""

    def read(value: object) -> str:
        if isinstance(value, str) and value.strip() in accepted:
            return value.strip()
        raise not_accepted(value, accepted)

    return Quantity(read, accepted=accepted, in_contract=lambda _: False)


def _with_unit(parse: Callable[[str], Any], example: str) -> Callable[[object], Any]:
    def read(value: object) -> Any:
        if not isinstance(value, str):
            raise UnitError(f"expected text with a unit, such as {example}, not {shown(value)}")
        return parse(value)

    return read


def _duration_or_none(value: object) -> Any:
    try:
        return None if value == "none" else DURATION.read(value)
    except UnitError as error:
        raise UnitError(f"{error}, or none") from None


def _seconds(value: object) -> int:
    us = _with_unit(partial(units.parse_duration_us, example="60s"), '"60s"')(value)
    if us % 1_000_000:
        raise UnitError(f"{shown(value)} is not a whole number of seconds; write for example 60s")
    return int(us // 1_000_000)


def _size(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return units.parse_size_bytes(_text(value))


def _flag(value: object) -> bool:
    return value if isinstance(value, bool) else choice(*units.ON_OFF).read(value) == units.ON_OFF[0]


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", value, re.ASCII):
        return int(value)
    raise UnitError(f"{shown(value)} is not a {'whole ' if isinstance(value, float) else ''}number")


def _number(value: object) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UnitError(f"{shown(value)} is not a number")
    return number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise UnitError(f"{shown(value)} is not a text; write it in quotes")
    return value.strip()


def _words(value: object) -> list[str]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise UnitError(f"{shown(value)} is not a list of words")
    return [word.strip() for word in words]


def _names(value: object) -> list[str]:
    names = _words(value)
    if len(names) > 1 and not all(names):
        raise UnitError("has an empty value; remove the extra comma")
    return names


def _command(value: object) -> str | list[str]:
    return _words(value) if isinstance(value, list) else _text(value)


def _server(value: object) -> list[str]:
    try:
        words = shlex.split(value) if isinstance(value, str) else _command(value)
    except ValueError as error:
        raise UnitError(f"{shown(value)} is not a command line: {error}") from None
    if not any(words[:1]):
        raise UnitError("the command line is empty; give the command of a server")
    return list(words)


def _hosts(table: Mapping[Any, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield each host and its value in a TOML table. TOML reads an unquoted a.test as `test` in table `a`."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _hosts(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _extra_rtts(value: object) -> dict[str, int]:
    if isinstance(value, Mapping):
        pairs = [*_hosts(value)]
    else:
        pairs = []
        for text in _names(",".join(_words(value))):
            host, equals, rtt = text.partition("=")
            if not equals or not host:
                raise UnitError(f"{text!r} is not in the form HOST=RTT, such as cdn.example=20ms")
            pairs.append((host, rtt))
    rtts: dict[str, int] = {}
    for host, written in pairs:
        if host.lower() in rtts:
            raise UnitError(f"the host {shown(host)} is given twice; write one RTT for it")
        rtts[host.lower()] = DURATION.read(written)
    return rtts


def _jitter(value: object) -> dict[str, int] | None:
    """Parse `none`, a standard deviation (`5ms`), or a largest deviation (`uniform:5ms`), as {"normal_us":
    ...} or {"uniform_us": ...}. Return None for `none`."""
    if value == "none":
        return None
    distribution, colon, most = _text(value).rpartition(":")
    named = choice("normal", "uniform").read(distribution) if colon else "normal"
    most_us = DURATION.read(most)
    if not 1 <= most_us <= RTT_MAX_US:
        bounds = " to ".join(map(units.format_duration_us, (1, RTT_MAX_US)))
        raise UnitError(f"{value!r} is out of bounds ({bounds})")
    return {f"{named}_us": most_us}


def _write_jitter(value: dict[str, int]) -> str:
    ((distribution, us),) = value.items()
    return ("uniform:" if distribution == "uniform_us" else "") + units.format_duration_us(us)


def _cross(value: object) -> dict[str, str] | None:
    if value == "none":
        return None
    parts = _text(value).split("+")
    if not {*parts} <= {"down=bulk", "up=bulk"} or len({*parts}) < len(parts):
        raise not_accepted(value, ("none", "down=bulk", "up=bulk", "down=bulk+up=bulk"))
    return dict(sorted(part.split("=") for part in parts))


def _write_cross(value: dict[str, str]) -> str:
    return "+".join(f"{way}={traffic}" for way, traffic in value.items())


def not_accepted(value: object, accepted: Sequence[str]) -> UnitError:
    """Return the error for a value that is not in `accepted`. Suggest similar words if `accepted` has at
    least four words. List all words of `accepted` if there are fewer than ten, or if none is similar."""
    every = f"use {any_of(accepted)}"
    near = did_you_mean(str(value), accepted if len(accepted) > 3 else (), "")
    remedy = f"{near} Otherwise {every}" if near and len(accepted) < 10 else near or every
    return UnitError(f"unknown value {shown(value)}; {remedy}")


def shown(value: object) -> str:
    """Return a value as a text of at most 80 characters for a message."""
    kind = "a table" if isinstance(value, dict) else "a list" if isinstance(value, list | tuple) else ""
    return one_line(kind or repr(value), 80)


def _ms(value_us: int) -> float | int:
    return value_us / 1000 if value_us % 1000 else value_us // 1000


DURATION: Final = Quantity(
    _with_unit(units.parse_duration_us, '"20ms"'),
    units.format_duration_us,
    lambda us: f"{us / 1000:g}",
    kind="float",
    unit="ms",
    export=_ms,
)
DURATION_OR_NONE: Final = replace(
    DURATION, read=_duration_or_none, export=lambda us: None if us is None else _ms(us), accepted=("none",)
)
RATE: Final = Quantity(
    _with_unit(units.parse_rate_bit_per_s, '"4mbit"'),
    units.write_rate,
    lambda rate: f"{rate / 1e6:g}",
    kind="int",
    unit="bit/s",
)
FRACTION: Final = Quantity(
    _with_unit(partial(units.parse_fraction, most=math.inf), '"1%"'),
    lambda share: f"{100 * share:g}%",
    lambda share: f"{100 * share:g}",
    kind="float",
    unit="fraction",
)
# Size of a queue. The word `default` stands for a size that depends on the rate of the direction.
QUEUE: Final = Quantity(
    lambda value: DEFAULT_QUEUE if str(value).strip() == DEFAULT_QUEUE else _size(value),
    lambda size: size if size == DEFAULT_QUEUE else units.write_size(size),
    lambda size: f"{size / 1000:g}",
    kind="int",
    unit="bytes",
    in_contract=lambda size: size != DEFAULT_QUEUE,
)
SECONDS: Final = Quantity(_seconds, "{}s".format, str, kind="int", unit="s")
BYTES: Final = Quantity(_size, kind="int", unit="bytes")
COUNT: Final = Quantity(_count, kind="int")
SCALE: Final = Quantity(_number, "{:g}".format, kind="float")
JITTER: Final = Quantity(_jitter, _write_jitter, export=lambda value: value and _write_jitter(value))
CROSS: Final = Quantity(_cross, _write_cross, export=lambda value: value and _write_cross(value))
FLAG: Final = Quantity(_flag, units.on_off, kind="flag", accepted=units.ON_OFF)
TEXT: Final = Quantity(_text)
# A version of IP. TOML files and Python may give it as a number.
IP: Final = Quantity(lambda value: str(value) if type(value) is int else _text(value))
TEXT_OR_NONE: Final = Quantity(
    lambda value: None if value == "none" else _text(value),
    accepted=("none",),
    in_contract=lambda value: value is not None,
)
WORDS: Final = Quantity(_names, ",".join)
EXTRA_RTTS: Final = Quantity(
    _extra_rtts,
    lambda extra: ",".join(f"{host}={units.format_duration_us(us)}" for host, us in extra.items()),
    unit="ms",
    export=lambda extra: {host: _ms(us) for host, us in extra.items()},
)
# The name of a trace file. The contract's field has the milliseconds that the file lists.
TRACE: Final = Quantity(
    _text, kind="flag", export=lambda trace: trace is not None, in_contract=lambda _: False
)
SERVER: Final = Quantity(_server, shlex.join, export=lambda words: words and shlex.join(words))
COMMAND: Final = replace(SERVER, read=_command, write=str, in_contract=lambda _: False)
