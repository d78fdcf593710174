"""Execute the plan of a run on engines, which load pages in emulated networks, and store the records."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final

from fastopen.common.errors import MachineError
from fastopen.common.grouping import grouped
from fastopen.contract import LoadRecord, WorldRecord
from fastopen.engines import Engine, Event, JobEnded, JobStarted, Reported
from fastopen.engines.base import ATTEMPTS_BY_KIND, Bodies
from fastopen.experiments import EngineName, Plan, PlannedJob, repeats_to_the_byte
from fastopen.runs.facts import NOTHING_ELSE, Watched
from fastopen.runs.store import RunStore, attempts_for

# A run stops if this many loads of an arm are invalid for the same reason, and no load of the arm is valid.
INVALID_ALIKE: Final = 3
# Loads that the machine disturbed are repeated in rounds. Such loads stop a run only from this round on.
ROUNDS_OF_HOPE: Final = 3
BUSY: Final = "is too busy, or too slow for this network (--engine virtual does not depend on its speed)"
# The assumed time of the next round of repeats, as a multiple of the time that the last round took.
SLACK: Final = 1.15
_Load = tuple[str, str]
"""The ids of a job and of a load in it."""
_Place = tuple[str, int]
"""The name of a page, and the index of a setup."""


@dataclass
class RunOutcome:
    """The result of executing a run. If it stopped early, the first three fields show the reason."""

    interrupted: bool = False
    out_of_time: bool = False
    """True if the time limit ended the run before each page had one load on each network with each setup."""
    hopeless: str = ""
    """The reason why all loads of one arm (use of TFO) were invalid, if this stopped the run; else empty."""
    faults: dict[str, list[str]] = field(default_factory=dict)
    """Maps each fault to the ids of the jobs whose last emulated network had this fault."""
    packets_dropped: int = 0
    """The number of packets that were not stored, because the buffer for the packets of a load was full."""
    took_s: float = 0.0
    """The run's duration in seconds; 0 if the run had no time limit."""


@dataclass(frozen=True)
class RunProgress:
    """The progress of a run. Of `loads` page loads, `done` have finished."""

    running: tuple[str, ...]
    """The ids of the jobs that are running."""
    finished: LoadRecord | None
    """The record of the load that has just finished; None if another event is reported."""
    done: int
    loads: int
    invalid: int
    """The number of finished loads whose last attempt is invalid."""
    repeated: int
    """The number of further attempts at loads that the machine disturbed."""
    left: int
    """The number of unfinished loads in this round. Later rounds only repeat loads that were disturbed."""

    def counts(self) -> str:
        """Return the numbers of loads as text, such as `90 of 360 loads, 3 repeated, 8 invalid`."""
        repeated = f", {self.repeated} repeated" if self.repeated else ""
        invalid = f", {self.invalid} invalid" if self.invalid else ""
        return f"{self.done} of {self.loads} loads{repeated}{invalid}"


class TimeLimit:
    """A time limit for a run, counted from the creation of this object. A run does all repeats that fit."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._began = clock()

    def rounds(self, jobs: Iterable[PlannedJob], at_once: int = 1) -> Iterator[Sequence[PlannedJob]]:
        """Yield groups of jobs to run, until the time left is too short for another group.

        The first group has the first repeat of each page, network and setup. A later group has one repeat, or
        several if one repeat has fewer than `at_once` jobs, the number of jobs that can run at once."""
        by_repeat = grouped((planned.repeat, planned) for planned in jobs)
        repeats = [by_repeat[number] for number in sorted(by_repeat)]
        last_s, size = 0.0, 1
        while repeats:
            started = self.elapsed_s
            if started + SLACK * last_s > self.seconds:
                return
            of_round, repeats = repeats[:size], repeats[size:]
            yield [planned for of_repeat in of_round for planned in of_repeat]
            last_s = self.elapsed_s - started
            size = max(1, at_once // len(of_round[0]))

    @property
    def left_s(self) -> float:
        """Return the number of seconds until the limit; 0 after the limit."""
        return max(0.0, self.seconds - self.elapsed_s)

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began


def execute(
    plan: Plan,
    engine: Engine | Mapping[EngineName, Engine],
    bodies: Bodies,
    store: RunStore,
    watch: Callable[[RunProgress], None],
    more_jobs: Callable[[], Sequence[PlannedJob]] = tuple,
    *,
    keep_going: bool = False,
    watched: Watched = NOTHING_ELSE,
    limit: TimeLimit | None = None,
) -> RunOutcome:
    """Run the plan's page loads that `store` does not have yet, and write their records into `store`.

    `engine` loads the pages, or maps each engine name in the plan to an engine. `bodies` are the recorded
    response bodies. `watch` is called after each event. `watched` selects additional data to store, such as
    packets. When all jobs are done, `more_jobs` is called for further jobs, until it returns an empty
    sequence. With `limit`, run only repeats for which there is time, and do not call `more_jobs`. Unless
    `keep_going`, stop early if the first loads with the same use of TFO are all invalid for the same reason.

    Return on KeyboardInterrupt. Raises the engine's InputError or MachineError. Finished loads are stored."""
    engines = engine if isinstance(engine, Mapping) else dict.fromkeys(plan.engines, engine)
    execution = _Execution(engines, bodies, store, watch, keep_going, watched)
    jobs: Sequence[PlannedJob] = plan.jobs
    outcome = execution.outcome
    try:
        if limit is not None:
            for of_round in limit.rounds(jobs, execution.at_once(jobs)):
                execution.run(of_round, limit)
            store.drop_undone()
            jobs = ()
        while jobs:
            execution.run(jobs)
            jobs = more_jobs()
            if jobs:
                store.add_jobs(jobs)
    except KeyboardInterrupt:
        outcome.interrupted = True
        store.set_status("interrupted")
    except _HopelessError as error:
        outcome.hopeless = str(error)
        store.set_status("interrupted")
    except BaseException:
        # If the disk is full, the status cannot be written either. Report the first error.
        with contextlib.suppress(MachineError):
            store.set_status("stopped")
        raise
    else:
        # First repeats that the limit left out stay planned, and are run on resuming.
        outcome.out_of_time = limit is not None and bool(store.pending())
        store.set_status("out of time" if outcome.out_of_time else "finished")
    outcome.faults = grouped((fault, job) for job, fault in execution.faults.items() if fault is not None)
    outcome.took_s = 0.0 if limit is None else limit.elapsed_s
    return outcome


class _HopelessError(Exception):
    """Raised to stop a run, because all loads with one arm (use of TFO) are invalid for the same reason."""


@dataclass
class _Execution:
    """The state of a run in progress: the number of page loads to run (`_loads`), of finished attempts
    (`_reported`), and of loads still to finish in this round (`_left`). Round 0 runs each load once. Later
    rounds repeat loads that the machine disturbed, for example because it was busy."""

    engines: Mapping[EngineName, Engine]
    bodies: Bodies
    store: RunStore
    watch: Callable[[RunProgress], None]
    keep_going: bool
    watched: Watched
    outcome: RunOutcome = field(default_factory=RunOutcome)
    _loads: int = 0
    _reported: int = 0
    _left: int = 0
    _round: int = 0
    _done: set[_Load] = field(default_factory=set)
    _invalid: set[_Load] = field(default_factory=set)
    _invalid_alike: dict[str, dict[str, tuple[_Place, tuple[str, ...]]] | None] = field(default_factory=dict)
    """Maps the id that all loads of an arm share to the arm's invalid loads: a dict from job ids to the page,
    setup and kinds of invalidity of the job's load. Maps it to None if any load of the arm was valid."""
    _places: set[_Place] = field(default_factory=set)
    _running: dict[str, None] = field(default_factory=dict)
    faults: dict[str, str | None] = field(default_factory=dict)
    """Maps each job to the fault of its last emulated network, or to None if the network had no fault."""

    def at_once(self, jobs: Iterable[PlannedJob]) -> int:
        """Return the number of emulated networks that every engine of these jobs can run at once."""
        names = {planned.comparison.engine for planned in jobs}
        return min((self.engines[name].parallel for name in names), default=1)

    def run(self, jobs: Sequence[PlannedJob], limit: TimeLimit | None = None) -> None:
        """Run the loads that are not done. Then repeat, in rounds, the loads that the machine disturbed."""
        watched = self.watched.model_dump()
        self._places |= {(one.comparison.page, one.comparison.setup) for one in jobs}
        for self._round in range(max(ATTEMPTS_BY_KIND.values())):
            pending = self.store.pending()
            owed = [
                replace(planned, job=planned.job.model_copy(update={"loads": loads, **watched}))
                for planned in jobs
                if (loads := [one for one in planned.job.loads if one.id in pending.get(planned.job.id, ())])
            ]
            if not owed or (limit is not None and not limit.left_s):
                return
            self._left = sum(len(planned.job.loads) for planned in owed)
            self._loads += self._left if self._round == 0 else 0
            planned_of = {planned.job.id: planned for planned in owed}
            for name, of_engine in grouped((one.comparison.engine, one.job) for one in owed).items():
                left_s = None if limit is None else limit.left_s
                # Closing the engine's generator ends its processes, even after an exception.
                with closing(self.engines[name].run(of_engine, self.bodies, left_s)) as events:
                    for event in events:
                        self._keep(event, planned_of)
                        if limit is not None and not limit.left_s:
                            return

    def _keep(self, event: Event, planned_of: Mapping[str, PlannedJob]) -> None:
        finished: LoadRecord | None = None
        match event:
            case JobStarted(job):
                self._running[job] = None
            case Reported(WorldRecord() as record, raw):
                self.store.add_world(record, raw)
            case Reported(LoadRecord() as finished, raw, packets):
                self.store.add_load(planned_of[finished.job], finished, raw, packets)
                self.outcome.packets_dropped += 0 if packets is None else packets.dropped
                self._left -= 1
                self._reported += 1
                load = (finished.job, finished.id)
                self._done.add(load)
                (self._invalid.discard if finished.valid else self._invalid.add)(load)
            case JobEnded(job, fault):
                self._running.pop(job, None)
                self.faults[job] = fault
                if fault is not None:
                    self.store.add_fault(job, fault)
        self.watch(
            RunProgress(
                running=tuple(self._running),
                finished=finished,
                done=len(self._done),
                loads=self._loads,
                invalid=len(self._invalid),
                repeated=self._reported - len(self._done),
                left=self._left,
            )
        )
        if finished is not None and not self.keep_going:
            self._check_hope(planned_of[finished.job], finished)

    def _check_hope(self, planned: PlannedJob, load: LoadRecord) -> None:
        """Record a finished load. Raise _HopelessError if all finished loads with this use of TFO are invalid
        for the same reason. These must be at least INVALID_ALIKE loads, and cover every page and setup."""
        comparison = planned.comparison
        if load.valid:
            self._invalid_alike[load.id] = None
        found = self._invalid_alike.setdefault(load.id, {})
        if found is None:
            return
        exact = repeats_to_the_byte(self.store.experiment(), comparison)
        disturbed = attempts_for((reason.kind for reason in load.invalid), exact=exact) > 1
        if disturbed and self._round < ROUNDS_OF_HOPE:
            return
        kinds = tuple(sorted({reason.kind for reason in load.invalid}))
        found[load.job] = (comparison.page, comparison.setup), kinds
        places, reasons = map(set, zip(*found.values(), strict=True))
        if len(found) >= INVALID_ALIKE and places == self._places and len(reasons) == 1 and self._left:
            first = load.invalid[0]
            arm = self.store.cells()[planned.cells[load.id]].arm.label
            message = f"the first {len(found)} loads of {arm} are invalid: {first.kind}: {first.detail}"
            remedy = f"; this machine {BUSY}" if disturbed else ""
            raise _HopelessError(message + remedy)
