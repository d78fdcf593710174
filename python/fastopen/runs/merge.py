"""Merge runs that each hold a part of one experiment, such as shards, into a new run.

Merging does not change the given runs. The new run appears only when everything is copied. It has every job
of the experiment, in the plan's order, so it shows which loads are missing, and can be resumed."""

import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastopen.common.closing import on_error
from fastopen.common.errors import InputError
from fastopen.experiments import Plan, Shard, repeats_to_the_byte
from fastopen.experiments.plan import ranges
from fastopen.runs import database as files
from fastopen.runs.database import damaged
from fastopen.runs.resume import check_same, planned_again
from fastopen.runs.rows import PACKETS, kept_packets, packets_name
from fastopen.runs.store import NONE, Attempts, RunStore, set_fact, write_plan

Load = tuple[str, str]
"""The ids of a job and of a load in it."""
_FIGURES: Final = (
    "valid, plt_ns, requests, connections, syn_data_connections, handshakes_ns, retransmitted, invalid"
)
"""Columns that are equal for all repetitions of a load in virtual time."""
_LOADS: Final = f"""
SELECT loads.number, jobs.id, loads.id, attempt, record_zlib, {_FIGURES}, started_unix_ms
FROM loads JOIN jobs ON jobs.number = loads.job JOIN records ON records.load = loads.number
"""  # noqa: S608  # no user's text is in it
_ADD_LOAD: Final = f"""
INSERT INTO loads (number, job, id, attempt, cell, repeat, {_FIGURES}, started_unix_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""  # noqa: S608
_LOAD_FIGURES: Final = f"SELECT {_FIGURES} FROM loads WHERE number = ?"  # noqa: S608
_WORLDS: Final = """
SELECT jobs.id, rtt_us_asked, rtt_us_measured, record_zlib FROM worlds JOIN jobs ON jobs.number = worlds.job
ORDER BY worlds.number
"""
_ADD_WORLD: Final = "INSERT INTO worlds (job, rtt_us_asked, rtt_us_measured, record_zlib) VALUES (?, ?, ?, ?)"


def merge(folders: Sequence[Path], output: Path) -> "Merging":
    """Merge runs of one experiment, such as parts that were run on several machines, into a run in the new
    folder `output`. Return the numbers of loads, and descriptions of missing and duplicate loads.

    If several runs have the same load, copy the load from the first run in which it needs no further attempt;
    if there is none, from the first run that has it. Raises InputError if a folder holds no run of the same
    experiment or if the runs used different programs or kernels, and MachineError if writing fails."""
    if files.holds_run(output):
        raise InputError("contains a run already", str(output), "use a new folder")
    with RunStore.open(folders[0]) as first:
        merging = Merging(planned_again(first, first.experiment()), first)
    for folder in folders:
        with RunStore.open(folder) as part:
            merging.add(part)
    database, lock = files.create(output, lambda database: merging.write(database, output))
    RunStore(database, output, lock).close()
    return merging


@dataclass
class _Part:
    """A run to merge, with its numbers of page loads: planned (`loads`), not finished yet (`owed`), and
    finished, but copied from another run (`duplicates`)."""

    folder: Path
    shard: Shard | None
    status: str
    environment: dict[str, Any]
    loads: int
    jobs: frozenset[str]
    owed: int
    duplicates: int = 0

    @property
    def name(self) -> str:
        """Return the name for messages: the path of the run, after the number of its shard if it has one."""
        return str(self.folder) if self.shard is None else f"shard {self.shard} ({self.folder})"


class Merging:
    """A merge in progress: `add` each run, then `write` the new run. Only one given run is open at a time."""

    def __init__(self, plan: Plan, first: RunStore) -> None:
        self._plan = plan
        self.loads = plan.loads()
        """Number of loads in the experiment."""
        self._kept = first.unparsed_plan()
        self._options = {name: value for name, value in first.options.items() if name != "shard"}
        self._planned = {planned.job.id: planned for planned in plan.jobs}
        self._parts: list[_Part] = []
        self._chosen: dict[Load, tuple[_Part, Attempts]] = {}
        """The part from which each load is copied, and the attempts at the load in this part."""
        self._numbers: dict[tuple[str, str, int], int] = {}

    def add(self, run: RunStore) -> None:
        """Check `run`, and choose the loads to copy from it: those that no earlier run has finished. Raises
        InputError if `run` belongs to another experiment, or is not comparable with earlier runs."""
        assert run.folder is not None
        if run.folder.resolve() in {part.folder.resolve() for part in self._parts}:
            raise InputError("is given twice", str(run.folder), "give it once")
        jobs = run.jobs()
        self._check(run, jobs)
        attempts, loads = run.attempts(), run.loads_asked()
        part = _Part(
            *(run.folder, run.shard, run.status, run.environment, loads),
            frozenset(jobs),
            owed=loads - sum(made.settled for made in attempts.values()),
        )
        if self._parts:
            _check_alike(self._parts[0], part)
        self._parts.append(part)
        for load, made in attempts.items():
            if load[1] not in self._planned[load[0]].cells:
                raise damaged(f"{load[0]} has no load {load[1]}", run.place)
            _, before = self._chosen.get(load, (None, None))
            if before is None or (made.settled and not before.settled):
                self._chosen[load] = (part, made)
            else:
                part.duplicates += made.settled

    def _check(self, run: RunStore, jobs: Mapping[str, int]) -> None:
        if run.unparsed_plan() != self._kept:
            check_same(run, self._plan.experiment, self._plan.pages, "merge only shards of one experiment")
            there, here = ({cell.engine: 0 for cell in one} for one in (run.cells(), self._plan.cells))
            if there != here:
                message = f"was planned for engine {', '.join(there)}, the first run for {', '.join(here)}"
                raise InputError(message, run.place, "run all shards with one --engine")
        if run.options.get("bodies", {}) != self._options.get("bodies", {}):
            message = "used other recorded bodies than the first run"
            raise InputError(message, run.place, "run it again with the same inputs")
        for job, seed in jobs.items():
            planned = self._planned.get(job)
            if planned is None:
                message = f"contains {job}, which its experiment does not plan"
                raise InputError(message, run.place, "merge only runs without --until-ci")
            if planned.job.seed != seed:
                message = "was planned by another version of fastopen"
                raise InputError(message, run.place, "run it again into a new folder")

    def write(self, database: sqlite3.Connection, output: Path) -> None:
        """Copy the chosen loads into `database` (the new run), and their packets into the folder `output`.
        Raises InputError if runs disagree on a load that virtual time repeats exactly."""
        for planned in self._plan.jobs:
            for load in planned.job.loads:
                _, attempts = self._chosen.get((planned.job.id, load.id), (None, NONE))
                for attempt in range(1, attempts.made + 1):
                    self._numbers[planned.job.id, load.id, attempt] = len(self._numbers) + 1
        database.execute("PRAGMA cache_size = -65536")  # 64 MiB
        first = self._parts[0].environment
        merged = [
            {**part.environment, **({} if part.shard is None else {"shard": str(part.shard)})}
            for part in self._parts
        ]
        write_plan(database, self._plan, {**first, "merged": merged}, self._options)
        set_fact(database, "status", "finished" if self.done == self.loads else "interrupted")
        of_job = dict(database.execute("SELECT id, number FROM jobs"))
        with on_error(lambda: shutil.rmtree(output / PACKETS, ignore_errors=True)):
            for part in self._parts:
                with RunStore.open(part.folder) as run:
                    self._copy(part, run, database, of_job, output)

    def _copy(
        self, part: _Part, run: RunStore, database: sqlite3.Connection, of_job: dict[str, int], output: Path
    ) -> None:
        """Copy the loads chosen from `part`, which is open as `run`, into `database`, and their packets into
        the folder `output`. `of_job` maps the ids of jobs to their row numbers in `database`."""
        taken = set[str]()
        for own_number, job, load, attempt, record, *figures in run.rows_of(_LOADS):
            number = self._numbers.get((job, load, attempt))
            if number is None:  # an attempt that was not chosen, or a load that was written after `add`
                continue
            planned = self._planned[job]
            source, made = self._chosen[job, load]
            if source is part:
                taken.add(job)
                row = (number, of_job[job], load, attempt, planned.cells[load], planned.repeat, *figures)
                database.execute(_ADD_LOAD, row)
                database.execute("INSERT INTO records VALUES (?, ?)", (number, record))
                if (kept := kept_packets(part.folder, own_number, job, load)) is not None:
                    (output / PACKETS).mkdir(exist_ok=True)
                    shutil.copyfile(kept, output / PACKETS / packets_name(number, job, load))
            elif made.settled and repeats_to_the_byte(self._plan.experiment, planned.comparison):
                stored = database.execute(_LOAD_FIGURES, (number,)).fetchone()
                # The load is not stored yet if it was chosen from a part that is copied later.
                if stored is not None and stored != tuple(figures[:-1]):
                    message = f"{part.name} and {source.name} differ in {job} {load}"
                    remedy = "one of them is wrong: run both again"
                    raise InputError(f"{message}, which virtual time repeats exactly", remedy=remedy)
        worlds = ((of_job[job], *world) for job, *world in run.rows_of(_WORLDS) if job in taken)
        database.executemany(_ADD_WORLD, worlds)
        faults = ((of_job[job], fault) for job, fault in run.faults() if job in taken)
        database.executemany("INSERT INTO faults VALUES (?, ?)", faults)

    @property
    def done(self) -> int:
        return sum(made.settled for _, made in self._chosen.values())

    @property
    def duplicates(self) -> tuple[str, ...]:
        """Return a phrase such as `PATH: 3 loads` for each run with loads that are copied from other runs."""
        return tuple(f"{part.name}: {part.duplicates} loads" for part in self._parts if part.duplicates)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return messages on incomplete runs and on shards or jobs in no run. Empty if no load is missing."""
        return tuple(self._missing()) if self.done < self.loads else ()

    def _missing(self) -> Iterator[str]:
        for part in self._parts:
            if part.owed:
                still = ", and is still running" if part.status == "running" else ""
                yield f"{part.name} has done {part.loads - part.owed} of {part.loads} loads{still}"
        given = frozenset[str]().union(*(part.jobs for part in self._parts))
        absent = [n for n, planned in enumerate(self._plan.jobs) if planned.job.id not in given]
        counts = {part.shard.count for part in self._parts if part.shard is not None}
        if absent and len(counts) == 1:
            (count,) = counts
            numbers = sorted({n % count + 1 for n in absent})
            yield f"no folder has shard{'s' if len(numbers) > 1 else ''} {ranges(numbers)} of {count}"
        elif absent:
            yield f"{len(absent)} of {len(self._plan.jobs)} jobs are in no folder"


def _check_alike(first: _Part, part: _Part) -> None:
    """Raise InputError if two runs differ in the program that emulates networks or in the virtual kernel."""

    def of(part: _Part, *keys: str) -> set[str]:
        environments = [part.environment, *part.environment.get("resumed", ())]
        environments += part.environment.get("merged", ())
        found = set()
        for value in environments:
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                found.add(str(value))
        return found

    for what, keys in (
        ("version of the world program", ("versions", "fastopen-world")),
        ("build of the world program", ("program_sha256",)),
        ("kernel of the virtual engine", ("virtual_kernel", "sha256")),
    ):
        here, there = of(first, *keys), of(part, *keys)
        if here != there or len(here) > 1:
            shown = " and ".join(sorted(one[:16] for one in here | there))
            message = f"ran with another {what} than {first.name}: {shown}"
            raise InputError(message, part.name, "run it again with the same one")
