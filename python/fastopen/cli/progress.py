"""What a person sees while loads run: what runs now, how many are left, when it ends. On standard error."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from fastopen.cli.output import errors_console
from fastopen.runs import RunProgress

SHOWN_JOBS: Final = 2
LINE_EVERY_S: Final = 10.0


class RunWatcher:
    """A live bar on a terminal, else a line every ten seconds, else (`quiet`) nothing. A context manager.

    Jobs come in a shuffled order, so the mean pace so far is an honest guess of the pace to come.
    """

    def __init__(self, console: Console, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._quiet = quiet
        self._clock = clock
        self._started = self._last_line = clock()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if not self._quiet and self._console.is_terminal:
            self._bar = Progress(
                BarColumn(bar_width=24),
                TextColumn("{task.fields[counts]}"),
                TextColumn("{task.description}", style="dim"),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("building worlds", total=None, counts="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: RunProgress) -> None:
        """Takes what has just happened."""
        counts = f"{progress.counts()}{self._time_left(progress)}"
        if self._bar is not None and self._task is not None:
            running = _shown(progress.running)
            done, asked = progress.done, progress.asked
            self._bar.update(self._task, completed=done, total=asked, counts=counts, description=running)
        elif not self._quiet and self._clock() - self._last_line >= LINE_EVERY_S:
            self._last_line = self._clock()
            line = f"{counts}, now {_shown(progress.running)}"
            self._console.print(line, markup=False, soft_wrap=True)

    def _time_left(self, progress: RunProgress) -> str:
        reported = progress.done + progress.again
        if not reported:
            return ""
        left_s = (self._clock() - self._started) * progress.left / reported
        return f", {shown_duration(left_s)} left"


def page_watchers(bars: ExitStack, *, quiet: bool) -> Callable[[str], RunWatcher]:
    """A function that gives each page, loaded one after the other, a watcher; `bars` ends the last."""

    def watch(page: str) -> RunWatcher:
        bars.close()  # of the page before
        if not quiet and not errors_console().is_terminal:
            errors_console().print(f"loading {page}", markup=False)
        return bars.enter_context(RunWatcher(errors_console(), quiet))

    return watch


def _shown(running: tuple[str, ...]) -> str:
    more = len(running) - SHOWN_JOBS
    return ", ".join(running[:SHOWN_JOBS]) + (f" and {more} more" if more > 0 else "")


def shown_duration(seconds: float) -> str:
    """`40 s`, `3 min 20 s`, `1 h 05 min`."""
    total_s = int(seconds + 0.5)
    if total_s < 60:
        return f"{total_s} s"
    if total_s < 3600:
        return f"{total_s // 60} min {total_s % 60:02} s"
    return f"{total_s // 3600} h {total_s % 3600 // 60:02} min"
