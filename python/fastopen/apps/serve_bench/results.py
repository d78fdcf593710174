"""Run the jobs of a server benchmark, and compute the results for each combination of settings (cell)."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any, Final, Literal

from fastopen.analysis.statistics.intervals import Interval, median_interval
from fastopen.apps.serve_bench.bench import Bench, BenchCell, cells_of, flood_words, jobs_of
from fastopen.common.errors import MachineError
from fastopen.common.grouping import grouped
from fastopen.contract import InvalidKind, Job, Origins, ServerCore, TransactionsRecord, WorldRecord
from fastopen.engines import HostEngine, VirtualEngine, find_program, kernels
from fastopen.engines.base import JobEnded, Reported
from fastopen.engines.worlds import WorldEngine

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9, 100.0)
# The largest share of the server's core that other processes may use, in addition to one tick of the clock.
OTHERS_SHARE: Final = 0.02
TICK_US: Final = 10_000
# The counters of the server's kernel to report if they have grown.
OF_SERVER: Final = (
    "TCPFastOpenPassive",
    "TCPFastOpenPassiveFail",
    "TCPFastOpenPassiveAltKey",
    "TCPFastOpenCookieReqd",
    "TCPFastOpenListenOverflow",
    "ListenDrops",
    "ListenOverflows",
    "SyncookiesSent",
    "SyncookiesRecv",
    "SyncookiesFailed",
    "TCPReqQFullDrop",
    "TCPReqQFullDoCookies",
    "TCPAbortOnMemory",
    "RetransSegs",
)
# Faults of the machine, not of the server. A job with such a fault runs up to TRANSACTION_ATTEMPTS times.
DISTURBED: Final = (InvalidKind.LINK_LATE, InvalidKind.GENERATOR_LATE)
TRANSACTION_ATTEMPTS: Final = 3


@dataclass(frozen=True)
class BenchFigure:
    """A median over `n` repeats with its 95 % confidence interval, which is None with too few repeats."""

    median: float
    interval: Interval | None
    n: int


def figure(values: Iterable[float | None]) -> BenchFigure | None:
    """Return the median of all values except None, with its confidence interval; None if all are None."""
    known = [value for value in values if value is not None]
    return BenchFigure(median(known), median_interval(known), len(known)) if known else None


def percentile(histogram: Mapping[int, int], percent: float) -> int | None:
    """Return the nearest-rank percentile of a histogram, which maps values to counts; None if it is empty."""
    left = sum(histogram.values()) * percent / 100
    for value in sorted(histogram):
        left -= histogram[value]
        if left <= 1e-9:
            return value
    return max(histogram, default=None)


def is_alone(core: ServerCore) -> bool:
    """Return True if other processes hardly used the server's core, so its busy time is due to the server."""
    others_us = max(core.user_us + core.nice_us + core.system_us - core.server_threads_us, core.nice_us)
    return others_us <= OTHERS_SHARE * core.elapsed_us + TICK_US


def threads_us(record: TransactionsRecord) -> float | None:
    """Return the server threads' processor time per answered transaction, in us; None if unknown."""
    if record.core is None or not record.answered:
        return None
    return record.core.server_threads_us / record.answered


def core_us(record: TransactionsRecord) -> float | None:
    """Return the busy time of the server's core per answered transaction, in us. Return None if other
    processes used this core, if another core received the server's packets, or if nothing was measured."""
    core = record.core
    if core is None or not record.answered or not core.steered or not is_alone(core):
        return None
    return max(core.elapsed_us - core.idle_us - core.stolen_us, 0) / record.answered


def segments(record: TransactionsRecord) -> float | None:
    """Return the number of TCP segments that the server sent and received per answered transaction; None if
    there was a SYN flood or no response."""
    if record.flood_syns or not record.answered:
        return None
    counted = record.counters.origins
    return sum(counted.get(name, 0) for name in ("InSegs", "OutSegs", "RetransSegs")) / record.answered


@dataclass(frozen=True)
class CellRow:
    """The results of a server benchmark with one combination of settings (`cell`). `records` maps the
    number of each repeat to its result, if it is valid. `baseline` has the valid results of the same
    settings without TFO, and is empty if `cell` is without TFO. `repeats` counts the results, valid or not.
    `reasons` maps each kind of invalid result to the number of such results and the detail of the first."""

    cell: BenchCell
    records: Mapping[int, TransactionsRecord]
    baseline: Mapping[int, TransactionsRecord]
    repeats: int
    reasons: Mapping[str, tuple[int, str]]

    def histogram(self, name: str) -> dict[Any, int]:
        """Add up all records' histograms `name`, such as `latency_us`. Return counts, keyed by value."""
        added: Counter[Any] = Counter()
        for one in self.records.values():
            added.update(dict(getattr(one, name)))
        return dict(added)

    def total(self, name: str) -> int:
        """Add up the field `name`, such as `answered`, of all records."""
        return sum(getattr(one, name) for one in self.records.values())

    @property
    def per_second(self) -> float | None:
        """Return the responses per second from the first to the last response; None if there are too few."""
        return self._rate("answered", "answered_over_us")

    def _rate(self, count: str, over_us: str) -> float | None:
        over, intervals = self.total(over_us), self.total(count) - len(self.records)
        return intervals * 1e6 / over if over and intervals > 0 else None

    @property
    def server_counters(self) -> dict[str, int]:
        """Return the nonzero growth of the server kernel's counters over all repeats, keyed by name."""
        counted: Counter[str] = Counter()
        for one in self.records.values():
            counted.update(one.counters.origins)
        return {name: counted[name] for name in OF_SERVER if counted[name]}

    @property
    def each(self) -> dict[str, BenchFigure | None]:
        """Return figures per answered transaction, keyed as in the JSON document. Each is the median over all
        repeats; None if no repeat has a value."""
        records = self.records.values()
        return {
            "segments": figure(map(segments, records)),
            "cpu_threads_us": figure(map(threads_us, records)),
            "cpu_threads_change_percent": self.threads_change,
            "cpu_core_us": figure(map(core_us, records)),
        }

    @property
    def threads_change(self) -> BenchFigure | None:
        """Return the median change, in percent, of the server threads' processor time per answered
        transaction compared with the same repeats without TFO; None if there are no results without TFO."""
        both = self.records.keys() & self.baseline.keys()
        pairs = [(threads_us(self.baseline[one]), threads_us(self.records[one])) for one in sorted(both)]
        return figure(100 * (after - before) / before for before, after in pairs if before and after)

    def as_json(self) -> dict[str, Any]:
        latency_us, lateness_us = self.histogram("latency_us"), self.histogram("lateness_us")
        return {
            "arm": self.cell.arm,
            "arrivals": {self.cell.arrivals: self.cell.count},
            "tfo_queue": self.cell.tfo_queue,
            "syncookies": self.cell.syncookies,
            "flood": flood_words(self.cell.flood),
            "new_key": self.cell.new_key,
            "valid": len(self.records),
            "invalid": {kind: count for kind, (count, _) in self.reasons.items()},
            **{
                name: self.total(name) for name in ("begun", "not_begun", "answered", "syn_data", "fallbacks")
            },
            "failures": self.histogram("failures"),
            "per_second": self.per_second,
            "arrivals_per_second": self._rate("begun", "arrived_over_us"),
            "latency_us": {f"{p:g}": percentile(latency_us, p) for p in PERCENTILES},
            "late": self.total("late"),
            "lateness_us": {f"{p:g}": percentile(lateness_us, p) for p in PERCENTILES},
            "retransmits": self.total("retransmits"),
            "flood_syns": self.total("flood_syns"),
            **{name: one and asdict(one) for name, one in self.each.items()},
            "server_counters": self.server_counters,
        }


@dataclass(frozen=True)
class BenchResult:
    """The result of running a server benchmark. `records` maps the index of a cell in `cells` to the cell's
    records, keyed by repeat. `world` describes the last emulated network; None if there was none."""

    bench: Bench
    engine: Literal["host", "virtual"]
    cells: tuple[BenchCell, ...]
    records: Mapping[int, Mapping[int, TransactionsRecord]]
    world: WorldRecord | None

    @cached_property
    def rows(self) -> list[CellRow]:
        valid = {
            cell: {repeat: one for repeat, one in self.records.get(number, {}).items() if one.valid}
            for number, cell in enumerate(self.cells)
        }
        rows = []
        for number, cell in enumerate(self.cells):
            records = self.records.get(number, {})
            firsts = (record.invalid[0] for record in records.values() if record.invalid)
            details = grouped((reason.kind, reason.detail) for reason in firsts)
            reasons = {str(kind): (len(found), found[0]) for kind, found in details.items()}
            baseline = {} if cell.arm == "off" else valid.get(replace(cell, arm="off"), {})
            rows.append(CellRow(cell, valid[cell], baseline, len(records), reasons))
        return rows

    @property
    def holds(self) -> bool:
        """Return True if there is a valid result for every combination of settings."""
        return all(row.records for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "kernel": None if self.world is None else self.world.kernel,
            "rtt_us": self.bench.rtt,
            "duration_us": self.bench.duration,
            "size_bytes": self.bench.size,
            "hosts": self.bench.hosts,
            "repeats": self.bench.repeats if self.engine == "host" else 1,
            "seed": self.bench.seed,
            "published": dict(self.bench.published),
            "rows": [row.as_json() for row in self.rows],
        }


def run_bench(
    bench: Bench,
    engine: Literal["host", "virtual"],
    kernel: str | None,
    origins: Origins,
    watch: Callable[[str, int, int], None],
) -> BenchResult:
    """Run each combination of a benchmark's settings. Repeat only if `engine` is `host` (real time).

    `kernel` names the kernel for virtual time. `origins` has the settings of the server, except its TFO
    queue. `watch` is called after each job with a progress text, the number of finished jobs, and the total
    number of jobs."""
    cells = cells_of(bench)
    repeats = bench.repeats if engine == "host" else 1
    program = find_program()
    runner: WorldEngine = (
        HostEngine(program, 1)
        if engine == "host"
        else VirtualEngine(program, kernels.find(kernel), min(len(os.sched_getaffinity(0)), len(cells)))
    )
    jobs = list(jobs_of(bench, cells, repeats, origins))
    worlds: list[WorldRecord] = []
    records: dict[int, dict[int, TransactionsRecord]] = defaultdict(dict)
    # In real time the jobs run one after another, in rounds, which makes their comparison fair.
    for done, record in enumerate(_records(runner, jobs, worlds), start=1):
        number, repeat = (int(part) for part in record.job.split("#"))
        records[number][repeat] = record
        cell = cells[number]
        watch(f"{done} of {len(jobs)}: {cell.arm} {cell.factors['load']}", done, len(jobs))
    return BenchResult(bench, engine, tuple(cells), records, worlds[-1] if worlds else None)


def _records(
    engine: WorldEngine, jobs: Sequence[Job], worlds: list[WorldRecord]
) -> Iterator[TransactionsRecord]:
    """Run the jobs, and yield each result when its job ends. After all jobs, run those again for which this
    machine was too busy for exact timing, up to TRANSACTION_ATTEMPTS times. Append the description of each
    emulated network to `worlds`. Raises MachineError if a job cannot run."""
    for attempt in range(1, TRANSACTION_ATTEMPTS + 1):
        again: set[str] = set()
        # In virtual time, each job runs in its own, newly booted kernel. A kernel counts orphaned sockets and
        # memory of all its namespaces together, and a SYN flood leaves many such sockets.
        for event in engine.run_together(([job] for job in jobs), {}):
            match event:
                case Reported(TransactionsRecord() as record):
                    disturbed = any(reason.kind in DISTURBED for reason in record.invalid)
                    if disturbed and attempt < TRANSACTION_ATTEMPTS:
                        again.add(record.job)
                    else:
                        yield record
                case Reported(WorldRecord() as world):
                    worlds.append(world)
                case JobEnded(_, str() as fault):
                    raise MachineError(fault)
        jobs = [job for job in jobs if job.id in again]
