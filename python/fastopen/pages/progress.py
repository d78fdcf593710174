"""Define callbacks that report the progress of importers."""

from collections.abc import Callable

# Called with the amount of an input that was read so far and the total, in bytes or files.
Progress = Callable[[int, int], None]
# Called with the input that is being read, the amount of all inputs that was read so far, and the total.
FileProgress = Callable[[str, int, int], None]


def part_of(progress: Progress, number: int, parts: int) -> Progress:
    """Return a callback for file `number` (from 0). It reports the progress over `parts` equal files."""

    def show(done: int, total: int) -> None:
        progress(number * total + done, parts * total)

    return show


def silent(done: int, total: int) -> None:
    """Ignore the progress."""
