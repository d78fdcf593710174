"""Progress of importers."""

from collections.abc import Callable

# How many bytes of a file are read, and how many it has.
Progress = Callable[[int, int], None]
# The same of several: which is being read, and how much of all.
FileProgress = Callable[[str, int, int], None]


def part_of(progress: Progress, number: int, parts: int) -> Progress:
    """Return the progress of one of several files, as if all had the same size. The first has number 0."""

    def show(done: int, total: int) -> None:
        progress(number * total + done, parts * total)

    return show


def silent(done: int, total: int) -> None:
    """Says nothing."""
