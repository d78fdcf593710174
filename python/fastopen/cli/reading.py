"""Reading pages out of what the user gives, with a bar where that takes long. On standard error."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fastopen.cli.output import errors_console
from fastopen.pages import ImportedPage, load_pages

# What is read within this needs no bar.
BAR_AFTER_S: Final = 0.5
LINE_EVERY_S: Final = 10.0


def read_pages(
    inputs: Iterable[Path | str],
    library: Sequence[Path | str] = (),
    *,
    lenient: bool = False,
    quiet: bool = False,
) -> list[ImportedPage]:
    """`load_pages`, which says how far it is unless `quiet`."""
    with ReadingWatcher(errors_console(), quiet) as watcher:
        return load_pages(inputs, library, lenient=lenient, progress=watcher)


class ReadingWatcher:
    """A live bar on a terminal, else a line every ten seconds, else (`quiet`) nothing. A context manager."""

    def __init__(self, console: Console, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._quiet = quiet
        self._clock = clock
        self._started = self._last_line = clock()
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, file: str, done: int, total: int) -> None:
        """Takes how much of a file is read."""
        now = self._clock()
        if self._quiet or now - self._started < BAR_AFTER_S:
            return
        if self._console.is_terminal:
            self._show(file, done, total)
        elif now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            self._console.print(f"reading {file}: {100 * done // max(total, 1)} %", markup=False)

    def _show(self, file: str, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = Progress(
                TextColumn("reading {task.description}", markup=False),
                BarColumn(bar_width=24),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
        if file not in self._tasks:
            self._tasks[file] = self._bar.add_task(Path(file).name, total=total)
        self._bar.update(self._tasks[file], completed=done, total=total)
