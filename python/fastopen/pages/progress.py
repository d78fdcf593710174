"""How importers say how far they are."""

from __future__ import annotations

from collections.abc import Callable

# How many bytes of a file are read, and how many it has.
Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Says nothing."""
