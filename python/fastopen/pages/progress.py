"""How importers say how far they are."""

from __future__ import annotations

from collections.abc import Callable

# How many bytes of a file are read, and how many it has.
Progress = Callable[[int, int], None]
# The same of several: which is being read, and how much of all.
FileProgress = Callable[[str, int, int], None]


def part_of(progress: Progress, number: int, parts: int) -> Progress:
    """Of one of several files, as if each were as large as the others; the first has number 0."""

    def show(done: int, total: int) -> None:
        progress(number * total + done, parts * total)

    return show


def silent(done: int, total: int) -> None:
    """Says nothing."""
