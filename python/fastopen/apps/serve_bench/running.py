"""Runs the jobs of a server benchmark, one world at a time, and collects their records."""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

from fastopen.apps.serve_bench.asked import Bench
from fastopen.apps.serve_bench.cells import BenchCell, cells_of, jobs_of
from fastopen.apps.serve_bench.results import BenchResult
from fastopen.common.errors import MachineError
from fastopen.contract import InvalidKind, Job, TransactionsRecord, WorldRecord
from fastopen.engines import HostEngine, VirtualEngine, find_program, kernels
from fastopen.engines.base import JobEnded, TransactionsDone, WorldBuilt
from fastopen.engines.host import WorldEngine

# Says nothing of the server: such transactions are made again, so often in all.
DISTURBED: Final = (InvalidKind.LINK_LATE, InvalidKind.GENERATOR_LATE)
ATTEMPTS: Final = 3


def run_bench(
    bench: Bench,
    engine: Literal["host", "virtual"],
    kernel: str | None,
    server: Sequence[str] | None,
    server_listen: bool,
    watch: Callable[[str, int, int], None],
) -> BenchResult:
    """Runs it. In virtual time nothing is left to chance, so that every cell is run once.

    `watch` is called with what is done, how many are, and of how many. Raises InputError, MachineError.
    """
    cells = cells_of(bench)
    repeats = bench.repeats if engine == "host" else 1
    program = find_program()
    runner: WorldEngine = (
        HostEngine(program, 1)
        if engine == "host"
        else VirtualEngine(program, kernels.find(kernel), min(len(os.sched_getaffinity(0)), len(cells)))
    )
    located = _located(server)
    jobs = list(jobs_of(bench, cells, repeats, located, server_listen))
    collecting = _Collecting(cells, len(jobs), watch)
    if engine == "virtual":
        collecting.run(runner, jobs)
    else:
        # One after another: rounds are what makes their comparison fair.
        for job in jobs:
            collecting.run(runner, [job])
    return BenchResult(bench, engine, tuple(cells), collecting.records, collecting.world)


def _located(server: Sequence[str] | None) -> list[str] | None:
    """With whole paths of the files that its words name."""
    if server is None:
        return None
    return [server[0], *(str(Path(word).absolute()) if Path(word).is_file() else word for word in server[1:])]


class _Collecting:
    """The records of a benchmark as they come."""

    def __init__(
        self, cells: Sequence[BenchCell], total: int, watch: Callable[[str, int, int], None]
    ) -> None:
        self._cells = cells
        self._total = total
        self._watch = watch
        self._done = 0
        self.records: dict[int, dict[int, TransactionsRecord]] = defaultdict(dict)
        self.world: WorldRecord | None = None

    def run(self, engine: WorldEngine, jobs: Sequence[Job]) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            again = []
            for record in self._run_once(engine, jobs):
                disturbed = any(reason.kind in DISTURBED for reason in record.invalid)
                if disturbed and attempt < ATTEMPTS:
                    again.append(record.job)
                    continue
                number, repeat = (int(part) for part in record.job.split("#"))
                self.records[number][repeat] = record
                self._done += 1
                cell = self._cells[number]
                self._watch(f"{cell.arm} {cell.factors['load']}", self._done, self._total)
            jobs = [job for job in jobs if job.id in again]
            if not jobs:
                return

    def _run_once(self, engine: WorldEngine, jobs: Sequence[Job]) -> list[TransactionsRecord]:
        records = []
        # Each in a kernel of its own, as a machine that was just started: the kernel counts orphaned sockets
        # and memory of all its namespaces, and a flood leaves many.
        for event in engine.run_together(([job] for job in jobs), {}):
            if isinstance(event, TransactionsDone):
                records.append(event.record)
            elif isinstance(event, WorldBuilt):
                self.world = event.record
            elif isinstance(event, JobEnded) and event.fault is not None:
                raise MachineError(event.fault)
        return records
