"""Run the jobs of a server benchmark, and collect their records."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from fastopen.apps.serve_bench.bench import Bench, cells_of, jobs_of
from fastopen.apps.serve_bench.results import BenchResult
from fastopen.common.errors import MachineError
from fastopen.contract import InvalidKind, Job, TransactionsRecord, WorldRecord
from fastopen.engines import HostEngine, VirtualEngine, find_program, kernels
from fastopen.engines.base import JobEnded, TransactionsDone, WorldBuilt
from fastopen.engines.host import WorldEngine

# Faults of the machine, not of the server. Such transactions are repeated, in up to ATTEMPTS attempts.
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
    """Run a benchmark. In virtual time each cell runs only once, because repeats give the same result.

    `watch` gets the finished cell, and the numbers of done and all jobs. Raises InputError, MachineError."""
    cells = cells_of(bench)
    repeats = bench.repeats if engine == "host" else 1
    program = find_program()
    runner: WorldEngine = (
        HostEngine(program, 1)
        if engine == "host"
        else VirtualEngine(program, kernels.find(kernel), min(len(os.sched_getaffinity(0)), len(cells)))
    )
    jobs = list(jobs_of(bench, cells, repeats, _located(server), server_listen))
    worlds: list[WorldRecord] = []
    records: dict[int, dict[int, TransactionsRecord]] = defaultdict(dict)
    # In real time the jobs run one after another, in rounds, which makes their comparison fair.
    batches = [jobs] if engine == "virtual" else [[job] for job in jobs]
    made = chain.from_iterable(_records(runner, batch, worlds) for batch in batches)
    for done, record in enumerate(made, start=1):
        number, repeat = (int(part) for part in record.job.split("#"))
        records[number][repeat] = record
        watch(f"{cells[number].arm} {cells[number].factors['load']}", done, len(jobs))
    return BenchResult(bench, engine, tuple(cells), records, worlds[-1] if worlds else None)


def _located(server: Sequence[str] | None) -> list[str] | None:
    """Return the command with absolute paths for arguments that are files."""
    if server is None:
        return None
    return [server[0], *(str(Path(word).absolute()) if Path(word).is_file() else word for word in server[1:])]


def _records(
    engine: WorldEngine, jobs: Sequence[Job], worlds: list[WorldRecord]
) -> Iterator[TransactionsRecord]:
    """Yield the records of the jobs. Jobs that the machine disturbed are repeated."""
    for attempt in range(1, ATTEMPTS + 1):
        again = []
        for record in _run_once(engine, jobs, worlds):
            if attempt < ATTEMPTS and any(reason.kind in DISTURBED for reason in record.invalid):
                again.append(record.job)
            else:
                yield record
        jobs = [job for job in jobs if job.id in again]


def _run_once(
    engine: WorldEngine, jobs: Sequence[Job], worlds: list[WorldRecord]
) -> list[TransactionsRecord]:
    records = []
    # Each job runs in its own kernel, as on a machine that has just started: the kernel counts orphaned
    # sockets and memory of all its namespaces, and a flood leaves many.
    for event in engine.run_together(([job] for job in jobs), {}):
        if isinstance(event, TransactionsDone):
            records.append(event.record)
        elif isinstance(event, WorldBuilt):
            worlds.append(event.record)
        elif isinstance(event, JobEnded) and event.fault is not None:
            raise MachineError(event.fault)
    return records
