"""Cache summaries, results and figures of stored runs until the files of the runs change."""

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from fastopen.analysis.attribution import RunAnalysis, analyse_run
from fastopen.analysis.comparison import Side, read_side
from fastopen.analysis.statistics import Results, collect
from fastopen.common.errors import InputError
from fastopen.experiments import Cell, Experiment, VaryingFactors, varying_factors
from fastopen.report.figures import Figure, overview_figures
from fastopen.runs import RunReader, RunStore, RunSummary, holds_run, run_folders, summary_of
from fastopen.runs.database import FILE

Result = TypeVar("Result")
# The number of threads that read runs. They share the interpreter lock, so more would only delay requests.
THREADS: Final = 4


class WorkerThreads:
    """Daemon threads that run at most `threads` functions at the same time. When the interpreter exits, it
    does not wait for daemon threads, so they do not delay Ctrl-C."""

    def __init__(self, threads: int = THREADS) -> None:
        self._free = asyncio.Semaphore(threads)

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        async with self._free:
            ended: Future[Result] = Future()
            ended.set_running_or_notify_cancel()  # if the waiting request is cancelled, the work continues

            def work() -> None:
                try:
                    ended.set_result(function(*arguments))
                except BaseException as error:  # `run` raises it in the caller
                    ended.set_exception(error)

            threading.Thread(target=work, daemon=True).start()
            return await asyncio.wrap_future(ended)


# The maximum numbers of large and of small values in the cache. The figures of 100,000 loads take 100 MB.
LARGE_KEPT: Final = 6
SMALL_KEPT: Final = 10_000


@dataclass(frozen=True)
class Outline:
    """The plan of a run. `cells` are its combinations of page, network, setup, engine and arm. `factors` are
    the settings that vary in the run."""

    experiment: Experiment
    cells: list[Cell]
    factors: VaryingFactors

    @classmethod
    def read(cls, run: RunReader) -> "Outline":
        """Read the plan of a run. Raises InputError if the run's file cannot be read."""
        experiment, cells = run.experiment(), run.cells()
        engines = tuple(dict.fromkeys(cell.engine for cell in cells))
        return cls(experiment, cells, varying_factors(experiment, engines))

    def cell_name(self, cell: Cell) -> str:
        """Return a cell's page, conditions and arm as text, such as `wikipedia-2018 at 20 ms, warm`."""
        name = self.factors.name(cell)
        return f"{cell.page}{f' at {name}' if name else ''}, {cell.arm.short_label}"


class _Memory:
    """A cache of values that were read from runs. It drops a value if the run's file has changed since the
    value was read, and the least recently used value if there are more than `most`."""

    def __init__(self, threads: WorkerThreads, most: int) -> None:
        self._threads, self._most = threads, most
        self._tasks: OrderedDict[tuple[object, ...], asyncio.Task[Any]] = OrderedDict()

    async def get(self, name: str, folder: Path, read: Callable[[Path], Result]) -> Result:
        key = (name, folder, _stamp(folder / FILE), _stamp(folder / f"{FILE}-wal"))
        task = self._tasks.get(key)
        if task is None:
            # Drop the value that was read before the file changed.
            for old in [one for one in self._tasks if one[:2] == key[:2]]:
                del self._tasks[old]
            task = self._tasks[key] = asyncio.create_task(self._threads.run(read, folder))
            while len(self._tasks) > self._most:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(key)
        try:
            # If the first request is cancelled, other requests may still wait for the same task.
            return await asyncio.shield(task)
        finally:
            if task.done() and (task.cancelled() or task.exception() is not None):
                self._tasks.pop(key, None)


def _opened(read: Callable[[RunStore], Result]) -> Callable[[Path], Result]:
    """Return a function that opens the run in a folder, calls `read` with the run, and returns the result."""

    def read_folder(folder: Path) -> Result:
        with RunStore.open(folder) as run:
            return read(run)

    return read_folder


class Kept:
    """The stored runs in a folder, with a cache of their data. A run is read when its data is first needed,
    and again after its file has changed. Methods raise InputError if run `name` is missing or unreadable."""

    def __init__(self, folder: Path) -> None:
        """Use the runs in `folder`, which contains the folders of runs or is itself the folder of one run."""
        self.folder = folder
        self.threads = WorkerThreads()
        self.drawing = WorkerThreads(1)
        """One thread for figures, because the drawing library can draw only one figure at a time."""
        self._large = _Memory(self.threads, LARGE_KEPT)
        self._small = _Memory(self.threads, SMALL_KEPT)

    def find(self, name: str) -> Path:
        """Return the folder of the run `name`. Raises InputError if there is no such run."""
        folder = self.folder if self.folder.absolute().name == name else self.folder / name
        if os.sep in name or name in ("", ".", "..") or not holds_run(folder):
            raise InputError("not a kept run", name, "the list of runs shows all of this folder")
        return folder

    async def read(self, name: str, read: Callable[[RunReader], Result]) -> Result:
        """Open a run, call `read` with it on a worker thread, and return the result without caching it."""
        return await self.threads.run(_opened(read), self.find(name))

    async def summaries(self) -> list[RunSummary]:
        """Return a summary of each run, newest first. Runs that cannot be read come last."""
        folders = await self.threads.run(run_folders, self.folder)
        found = [await self._summary(one) for one in folders]
        return sorted(found, key=lambda run: (bool(run.started), run.started), reverse=True)

    async def _summary(self, folder: Path) -> RunSummary:
        found = await self._small.get("summary", folder, summary_of)
        # The status can change without the file: the process that writes it may have ended.
        return await self.threads.run(summary_of, folder) if found.status in ("running", "stopped") else found

    async def outline(self, name: str) -> Outline:
        return await self._small.get("outline", self.find(name), _opened(Outline.read))

    async def counts(self, name: str) -> dict[int, tuple[int, int]]:
        """Map the index of each cell with results to its numbers of finished loads and of valid loads."""
        return await self._small.get("counts", self.find(name), _opened(RunReader.counts))

    async def results(self, name: str) -> Results:
        return await self._large.get("results", self.find(name), _opened(collect))

    async def analysis(self, name: str) -> RunAnalysis:
        """Return the results of a run with a breakdown of its page load times into waits."""
        results = await self.results(name)
        read = _opened(lambda store: analyse_run(store, results))
        return await self._large.get("analysis", self.find(name), read)

    async def figures(self, name: str) -> dict[str, Figure]:
        analysis = await self.analysis(name)
        return await self._large.get(
            "figures", self.find(name), lambda _: {one.name: one for one in overview_figures(analysis)}
        )

    async def side(self, name: str) -> Side:
        return await self._large.get("side", self.find(name), read_side)


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes when the file changes; None for a missing or empty file."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return (facts.st_ino, facts.st_size, facts.st_mtime_ns) if facts.st_size else None
