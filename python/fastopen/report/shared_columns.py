"""Build columns and entries that several tables share."""

from collections.abc import Callable
from typing import Final

from fastopen.common.grid import Column, Entry, Tone, keys
from fastopen.experiments import DesignPoint, Factor

MISSING: Final = "-"


def factor_entry(factor: Factor, point: DesignPoint) -> Entry:
    """Return a table entry with the value of one setting (`factor`), such as the RTT. `point`: the values of
    all settings in this row. If all rows have this value, the table shows it only once, as `RTT 20 ms`."""
    return Entry(factor.text_at(point) or "none", phrase=factor.full_phrase_at(point))


def known(
    value: float | None, text: Callable[[float], str] = "{:.1f}".format, tone: Tone = "", mark: str = ""
) -> Entry:
    """Return a table entry with `value`, formatted by `text`; with a hyphen if None. `tone`: its colour."""
    return Entry(MISSING) if value is None else Entry(text(value), tone, mark=mark, value=value)


def time_in(unit: str, milliseconds: float | None) -> Entry:
    """Return a table entry with a time in `unit`, which is `s` (shown as 1.648) or `ms` (63.4); with a hyphen
    if the time is None."""
    return known(milliseconds, lambda ms: f"{ms / 1000:.3f}" if unit == "s" else f"{ms:.1f}")


def cell_columns(*figures: str) -> tuple[Column, ...]:
    """Return the columns of a table: page, network and arm (use of TFO), then a column for each heading in
    `figures`."""
    return (*keys("page", "network", "arm"), *map(Column, map(str, figures)))
