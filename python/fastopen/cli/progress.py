"""Show progress bars on standard error."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from fastopen.cli.output import errors_console, nothing_to_compare_when_interrupted, print_message
from fastopen.common.closing import Closing
from fastopen.experiments import Pace
from fastopen.runs import RunProgress, TimeLimit

SHOWN_JOBS: Final = 2
LINE_EVERY_S: Final = 10.0
# The smallest estimated duration of a run, in seconds, that is printed before the run or in a warning.
ANNOUNCED_S: Final = 60.0
# The numbers of loads and seconds after which the estimated duration is reliable enough for a warning.
PACE_LOADS: Final = 5
PACE_AFTER_S: Final = 5.0
# A warning is printed if a run takes longer than the printed duration by at least this factor.
LONGER: Final = 1.5


@dataclass(eq=False)
class LiveBar(Closing):
    """A progress bar on a terminal. Elsewhere, it prints a line every ten seconds. It shows nothing in the
    first `after_s` seconds, and nothing at all if `quiet` is True."""

    console: Console
    quiet: bool
    clock: Callable[[], float] = time.monotonic
    after_s: float = 0.0
    _bar: Progress | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._started = self._last_line = self.clock()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, markup=False, soft_wrap=True)

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self._started

    def update(self, text: str, done: int, total: int | None, *, now: bool = False) -> None:
        """Show `done` of `total` steps, with `text`. `total` is None if it is unknown. Without a terminal,
        print `text` as a line, at most once in LINE_EVERY_S seconds unless `now` is True."""
        if self.quiet or self.elapsed_s < self.after_s:
            return
        if self.console.is_terminal:
            if self._bar is None:
                columns = (TimeElapsedColumn(), BarColumn(bar_width=24))
                text_column = TextColumn("{task.description}", markup=False)
                self._bar = Progress(*columns, text_column, console=self.console, transient=True)
                self._bar.add_task("")
                self._bar.start()
            (task,) = self._bar.tasks
            task.total = total
            self._bar.update(task.id, completed=done, description=text)
        elif now or self.clock() - self._last_line >= LINE_EVERY_S:
            self._last_line = self.clock()
            self.print(text)


@dataclass(eq=False, kw_only=True)
class RunWatcher(LiveBar):
    """A progress bar of a run that also shows the estimated time left. The estimate comes from the prediction
    `pace` or, if it is None, from the mean time of a load so far. `limit` is the run's time limit, if any.

    `expected_s` is the estimated duration that was printed before the run, or 0. If the run takes much
    longer, print a warning that ends with the result of `shorter(seconds)`: ways to shorten the run."""

    pace: Pace | None = None
    expected_s: float = 0.0
    shorter: Callable[[float], str] | None = None
    limit: TimeLimit | None = None

    def __call__(self, progress: RunProgress) -> None:
        reported = progress.done + progress.repeated
        left_s = self.elapsed_s * progress.left / reported if reported else None
        if self.pace is not None:
            if progress.finished is not None:
                self.pace.finished(progress.finished.job, progress.finished.id)
            # `pace` covers only first attempts. After these, only repetitions of invalid loads remain.
            left_s = self.pace.left_s(self.elapsed_s) if progress.done < progress.loads else left_s
        if self.limit is not None and left_s is not None:
            left_s = min(left_s, self.limit.left_s)
        if left_s is not None and reported >= PACE_LOADS and self.elapsed_s >= PACE_AFTER_S:
            self._warn(progress, self.elapsed_s + left_s)
        left = "" if left_s is None else f", {shown_duration(left_s)} left"
        more = len(progress.running) - SHOWN_JOBS
        running = ", ".join(progress.running[:SHOWN_JOBS]) + (f" and {more} more" if more > 0 else "")
        self.update(f"{progress.counts()}{left}, now {running}", progress.done, progress.loads)

    def _warn(self, progress: RunProgress, total_s: float) -> None:
        """Warn, at most once, if the estimated duration `total_s` is much longer than the user expects."""
        long = total_s >= max(ANNOUNCED_S, LONGER * self.expected_s)
        if long and self.shorter is not None and not self.quiet:
            words = f"loads take {shown_duration(total_s)} at the pace of the first loads"
            self.print(f"{progress.loads:,} {words}{self.shorter(total_s)}")
        self.shorter = None


@contextmanager
def page_watchers(*, quiet: bool) -> Iterator[Callable[[str], RunWatcher]]:
    """Yield a function that returns a progress bar for the page with a given name, and removes the bar of the
    previous page. On Ctrl-C in the `with` block, print a message and exit."""
    with nothing_to_compare_when_interrupted(), ExitStack() as bars:

        def watch(page: str) -> RunWatcher:
            bars.close()  # remove the bar of the previous page
            if not quiet and not errors_console().is_terminal:
                print_message(f"loading {page}")
            return bars.enter_context(RunWatcher(errors_console(), quiet))

        yield watch


def shown_duration(seconds: float) -> str:
    """Format a duration: `40 s`, `3 min 20 s`, `1 h 05 min`."""
    total_s = int(seconds + 0.5)
    if total_s < 60:
        return f"{total_s} s"
    if total_s < 3600:
        return f"{total_s // 60} min {total_s % 60:02} s"
    return f"{total_s // 3600} h {total_s % 3600 // 60:02} min"
