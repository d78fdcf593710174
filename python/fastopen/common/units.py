"""Parse and format times, rates, sizes and percentages: `20ms`, `4mbit`, `96kB`, `1%`."""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

from fastopen.common.errors import any_of

_NUMBER: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([^\s0-9.].*?)?\s*", re.ASCII | re.DOTALL)
_DURATIONS_US: Final = {"us": 1, "µs": 1, "ms": 1_000, "s": 1_000_000}
_RATES_BIT_PER_S: Final = {"bit": 1, "kbit": 1_000, "mbit": 1_000_000, "gbit": 1_000_000_000}
_SIZES_BYTES: Final = {
    "B": 1,
    "kB": 1_000,
    "KB": 1_000,
    "MB": 1_000_000,
    "GB": 1_000_000_000,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
NO_LIMIT: Final = ("none", "unlimited")
_PREFIXES: Final = (("G", 10**9), ("M", 10**6), ("k", 10**3))


class UnitError(ValueError):
    """Raised if a quantity cannot be parsed. The text describes the fault and the accepted formats."""


def parse_duration_us(text: str, example: str = "20ms") -> int:
    """Parse `20ms`, `1s`, `0.5ms` or `250us` into microseconds. Raises UnitError, which names `example`."""
    return _parse(text, _DURATIONS_US, "a time", example, "microsecond")


def parse_rate_bit_per_s(text: str) -> int | None:
    """Parse `4mbit`, `256kbit` or `4 Mbit/s` into bit/s; None for `none` (no limit). Raises UnitError."""
    lowered = text.strip().lower()
    if lowered in NO_LIMIT:
        return None
    if lowered.endswith("bps"):
        # tc(8) reads mbps as megabytes a second, most other programs as megabits.
        raise UnitError(f"{text!r} is ambiguous (bits or bytes); write 4mbit for 4 megabits per second")
    return _parse(
        lowered.removesuffix("/s"), _RATES_BIT_PER_S, "a rate", "4mbit, or none for no limit", "bit/s", text
    )


def parse_size_bytes(text: str) -> int | None:
    """Parse `96kB`, `150000` or `64KiB` into bytes; None for `none` (no limit). Raises UnitError."""
    if text.strip().lower() in NO_LIMIT:
        return None
    if text.strip().isdecimal():
        text = text.strip() + "B"
    return _parse(text, _SIZES_BYTES, "a size", "96kB, or 1500 for bytes", "byte")


def parse_fraction(text: str, most: float = 1) -> float:
    """Parse a percentage such as `1%` into a fraction, such as 0.01. Raises UnitError."""
    share = float(_number(text, {"%": 1}, "a percentage", "1%") / 100)
    if share > most:
        raise UnitError(f"{text!r} is more than 100%; write for example 1%")
    return share


def _parse(text: str, units: Mapping[str, int], what: str, example: str, base: str, shown: str = "") -> int:
    value = _number(text, units, what, example, shown)
    if value != value.to_integral_value():
        raise UnitError(f"{shown or text!r} is finer than one {base}; round it")
    if value >= 2**63:
        raise UnitError(f"{shown or text!r} is too large")
    return int(value)


def _number(text: str, units: Mapping[str, int], what: str, example: str, shown: str = "") -> Decimal:
    shown = repr(shown or text)
    match = _NUMBER.fullmatch(text)
    if match is None:
        fault = "is negative" if _NUMBER.fullmatch(text.strip().removeprefix("-")) else f"is not {what}"
        raise UnitError(f"{shown} {fault}; write for example {example}")
    number, unit = match.groups()
    if unit is None and Decimal(number) != 0:
        raise UnitError(f"{shown} has no unit; write for example {example}")
    if unit not in (None, *units):
        raise UnitError(f"{shown} has an unknown unit; use {any_of(units)}, such as {example}")
    try:
        return Decimal(number) * units.get(unit, 1)
    except InvalidOperation:
        raise UnitError(f"{shown} is not {what}; write for example {example}") from None


def format_duration_us(microseconds: int) -> str:
    """Format a time in s or ms: `20ms`, `1s`, `0.5ms`. `parse_duration_us` converts the text back."""
    for unit in ("s", "ms"):
        if microseconds and microseconds % _DURATIONS_US[unit] == 0:
            return f"{microseconds // _DURATIONS_US[unit]}{unit}"
    return f"{_plain(Decimal(microseconds) / 1000)}ms"


def format_rate(bit_per_s: int | None) -> str:
    """Format a rate for people: `4 Mbit/s`, `256 kbit/s`, or `no limit` for None."""
    return _with_prefix(bit_per_s, "bit/s")


def format_bytes(size: int | None) -> str:
    """Format a size in bytes for people: `96 kB`, or `no limit` for None."""
    return _with_prefix(size, "B")


def _with_prefix(value: int | None, unit: str) -> str:
    if value is None:
        return "no limit"
    prefix, factor = next((one for one in _PREFIXES if value >= one[1]), ("", 1))
    return f"{_plain(Decimal(value) / factor)} {prefix}{unit}"


def write_rate(bit_per_s: int | None) -> str:
    """Format a rate: `4mbit`, or `none` for None. `parse_rate_bit_per_s` converts the text back."""
    if bit_per_s is None:
        return NO_LIMIT[0]
    return format_rate(bit_per_s).removesuffix("/s").replace(" ", "").lower()


def write_size(size: int | None) -> str:
    """Format a size in its shortest form: `96kB`, `64KiB`, `none`. `parse_size_bytes` converts it back."""
    if size is None:
        return NO_LIMIT[0]
    return min((f"{_plain(Decimal(size) / factor)}{unit}" for unit, factor in _SIZES_BYTES.items()), key=len)


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"


ON_OFF: Final = ("on", "off")


def on_off(value: bool) -> str:
    return ON_OFF[not value]
