"""What a person sees while a kernel is built: one line a stage, and a live one. On standard error."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from fastopen.kernels import Stage

LINE_EVERY_S: Final = 15.0


class BuildWatcher:
    """A line for each stage that ended with the time it took; below it a live line on a terminal.

    Elsewhere a line at each stage's start and every 15 s. `quiet`: nothing.
    """

    def __init__(self, console: Console, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._quiet = quiet
        self._clock = clock
        self._stage_started = self._last_line = clock()
        self._stage: Stage | None = None
        self._live: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if not self._quiet and self._console.is_terminal:
            self._live = Progress(
                SpinnerColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                console=self._console,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            if error is None:
                self._end_stage()
            self._live.stop()

    def __call__(self, stage: Stage) -> None:
        """Takes what is done now."""
        if self._quiet:
            return
        new = self._stage is None or self._stage.name != stage.name
        if new:
            self._end_stage()
            self._stage_started = self._clock()
        self._stage = stage
        if self._live is not None:
            if new or self._task is None:
                self._task = self._next_task()
            total = max(stage.total, stage.done) or None
            self._live.update(
                self._task, description=escape(_description(stage)), completed=stage.done, total=total
            )
        elif new or self._clock() - self._last_line >= LINE_EVERY_S:
            self._last_line = self._clock()
            self._console.print(_description(stage), markup=False, soft_wrap=True)

    def _next_task(self) -> TaskID:
        """A fresh line, whose clock starts now."""
        assert self._live is not None
        if self._task is not None:
            self._live.remove_task(self._task)
        return self._live.add_task("", total=None)

    def _end_stage(self) -> None:
        if self._stage is None or self._live is None:
            return
        took = self._clock() - self._stage_started
        message = f"{self._stage.name}, {self._stage.detail}"
        self._console.print(f"{took:6.1f} s  {message}", markup=False, soft_wrap=True)


def _description(stage: Stage) -> str:
    counted = f": {stage.done} files of about {max(stage.total, stage.done)}" if stage.total else ""
    return f"{stage.name} {stage.detail}{counted}".strip()
