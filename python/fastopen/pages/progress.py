"""Callbacks that report the progress of importers."""

from collections.abc import Callable

# Called with the amount that is read of an input and its total, in bytes or files.
Progress = Callable[[int, int], None]
# Called with the input that is being read, the amount that is read of all inputs, and their total.
FileProgress = Callable[[str, int, int], None]


def part_of(progress: Progress, number: int, parts: int) -> Progress:
    """Return the callback for file `number` (from 0) of `parts` files, as if all had the same size."""

    def show(done: int, total: int) -> None:
        progress(number * total + done, parts * total)

    return show


def silent(done: int, total: int) -> None:
    """Ignore the progress."""
