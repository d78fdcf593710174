"""Entries of tables that several tables have."""

from fastopen.common.grid import Entry
from fastopen.experiments import Factor, Point


def of_factor(factor: Factor, point: Point) -> Entry:
    """The value of a factor, in a column of its own or in the words that stand instead of one."""
    return Entry(factor.text_at(point) or "none", phrase=factor.full_phrase_at(point))
