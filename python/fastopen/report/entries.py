"""Make columns and entries that several tables share."""

from collections.abc import Callable
from typing import Final

from fastopen.common.grid import Column, Entry, Tone
from fastopen.experiments import ArmName, Factor, Point

MISSING: Final = "-"


def of_factor(factor: Factor, point: Point) -> Entry:
    """Return a factor's value as an entry. If all rows have this value, the subtitle shows its phrase."""
    return Entry(factor.text_at(point) or "none", phrase=factor.full_phrase_at(point))


def known(value: float | None, text: Callable[[float], str] = "{:.1f}".format, tone: Tone = "") -> Entry:
    """Return a figure as an entry; a hyphen if it is None."""
    return Entry(MISSING) if value is None else Entry(text(value), tone, value=value)


def cell_columns(*figures: str) -> tuple[Column, ...]:
    """Return the columns of a table of cells: page, network and arm, then the given figures."""
    heads = (Column(name, "key") for name in ("page", "network", "arm"))
    return (*heads, *(Column(str(name)) for name in figures))


def cell_heads(page: str, place: str, arm: ArmName) -> tuple[Entry, ...]:
    return (Entry(page), Entry(place), Entry(arm))
