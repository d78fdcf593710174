"""Build columns and entries that several tables of results share."""

from collections.abc import Callable
from typing import Final

from fastopen.common.grid import Column, Entry, Tone, keys
from fastopen.experiments import DesignPoint, Factor

MISSING: Final = "-"


def factor_entry(factor: Factor, point: DesignPoint) -> Entry:
    """Return a table entry with the value that the setting `factor` has in `point`, the settings of a row. If
    all rows have the same value, the entry's `phrase`, such as `RTT 20 ms`, replaces the column."""
    return Entry(factor.text_at(point) or "none", phrase=factor.full_phrase_at(point))


def known(
    value: float | None, text: Callable[[float], str] = "{:.1f}".format, tone: Tone = "", mark: str = ""
) -> Entry:
    """Return a table entry with `value`, formatted by `text`; a hyphen for None. `mark` refers to a note."""
    return Entry(MISSING) if value is None else Entry(text(value), tone, mark=mark, value=value)


def time_in(unit: str, milliseconds: float | None) -> Entry:
    """Return a table entry with a time in `unit` (`s` or `ms`): `1.648` or `63.4`, or a hyphen for None."""
    return known(milliseconds, lambda ms: f"{ms / 1000:.3f}" if unit == "s" else f"{ms:.1f}")


def cell_columns(*figures: str) -> tuple[Column, ...]:
    """Return the columns of a table with a row for each page, network and arm: a column for each of these
    three, then a column of numbers for each heading in `figures`."""
    return (*keys("page", "network", "arm"), *map(Column, map(str, figures)))
