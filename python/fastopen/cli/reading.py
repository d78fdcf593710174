"""Reading pages out of what the user gives, with a bar where that takes long. On standard error."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from fastopen.cli.output import errors_console
from fastopen.cli.progress import LiveBar
from fastopen.pages import ImportedPage, load_pages
from fastopen.pages.budget import MAX_UNPACKED_BYTES

# What is read within this needs no bar.
BAR_AFTER_S: Final = 0.5


def read_pages(
    inputs: Iterable[Path | str],
    library: Sequence[Path | str] = (),
    *,
    lenient: bool = False,
    max_unpacked: int = MAX_UNPACKED_BYTES,
    quiet: bool = False,
) -> list[ImportedPage]:
    """`load_pages`, with progress unless `quiet`."""
    with LiveBar(errors_console(), quiet, after_s=BAR_AFTER_S) as bar:
        show = reading_progress(bar)
        return load_pages(inputs, library, lenient=lenient, max_unpacked=max_unpacked, progress=show)


def reading_progress(bar: LiveBar) -> Callable[[str, int, int], None]:
    """Shows how much of a file is read."""

    def show(file: str, done: int, total: int) -> None:
        bar.update(f"reading {file}: {100 * done // max(total, 1)} %", done, total)

    return show
