"""Executes a plan on engines into a run store: what the run still owes, one event after another."""

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from fastopen.contract.records import LoadRecord
from fastopen.engines import Engine, Event, JobEnded, JobStarted, LoadDone, WorldBuilt
from fastopen.engines.base import Bodies
from fastopen.errors import MachineError
from fastopen.experiments import EngineName, Plan, PlannedJob
from fastopen.runs.store import ATTEMPTS, RunStore

Engines = Engine | Mapping[EngineName, Engine]


@dataclass
class RunOutcome:
    """How a run went. `faults` maps what worlds fell short of, to the end, to the jobs in which they did."""

    interrupted: bool = False
    faults: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunProgress:
    """Where an execution is after an event. Every load counts once, however often it is done."""

    running: tuple[str, ...]
    """Jobs."""
    finished: LoadRecord | None
    """The load that the event reported."""
    done: int
    asked: int
    invalid: int
    """Of those that are done, by their last attempt."""
    again: int
    """Attempts beyond the first: loads that the machine disturbed are done again."""
    left: int
    """Loads to be reported until all are done, or done again."""

    def counts(self) -> str:
        """`90 of 360 loads, 3 done again, 8 invalid`."""
        again = f", {self.again} done again" if self.again else ""
        invalid = f", {self.invalid} invalid" if self.invalid else ""
        return f"{self.done} of {self.asked} loads{again}{invalid}"


def execute(
    plan: Plan,
    engine: Engines,
    bodies: Bodies,
    store: RunStore,
    watch: Callable[[RunProgress], None],
    more_jobs: Callable[[], Sequence[PlannedJob]] = tuple,
) -> RunOutcome:
    """Does on `engine`, or on the one of its name, what the store still owes of the plan.

    Every load is kept. Those that nothing but the machine disturbed are done again once all others are done,
    up to ATTEMPTS times in all. Then `more_jobs` says what is to be added to the run, until that is nothing.
    On KeyboardInterrupt it stops, keeps what is finished and returns.

    Raises what the engine raises (InputError, MachineError), with all finished loads kept.
    """
    execution = _Execution(engine, bodies, store, watch)
    jobs: Sequence[PlannedJob] = plan.jobs
    interrupted = False
    try:
        while jobs:
            execution.do(jobs)
            jobs = more_jobs()
            if jobs:
                store.add_jobs(jobs)
    except KeyboardInterrupt:
        interrupted = True
        store.set_status("interrupted")
    except BaseException:
        # The disk may be full: then what is on it stands, and the first error is the one to tell.
        with contextlib.suppress(MachineError):
            store.set_status("stopped")
        raise
    else:
        store.set_status("finished")
    return RunOutcome(interrupted, execution.faults())


class _Execution:
    """What has happened since it started."""

    def __init__(
        self, engine: Engines, bodies: Bodies, store: RunStore, watch: Callable[[RunProgress], None]
    ) -> None:
        self._engine = engine
        self._bodies = bodies
        self._store = store
        self._watch = watch
        self._asked = self._reported = self._left = 0
        self._done: set[tuple[str, str]] = set()  # jobs and loads
        self._invalid: set[tuple[str, str]] = set()
        self._running: dict[str, None] = {}
        self._faults: dict[str, str | None] = {}  # by job, of its last world

    def faults(self) -> dict[str, list[str]]:
        """See RunOutcome."""
        faults: dict[str, list[str]] = {}
        for job, fault in self._faults.items():
            if fault is not None:
                faults.setdefault(fault, []).append(job)
        return faults

    def do(self, jobs: Sequence[PlannedJob]) -> None:
        """Does what is pending of the jobs, and again what was disturbed."""
        for attempt in range(ATTEMPTS):
            owed = _owed(jobs, self._store.pending())
            self._left = sum(len(planned.job.loads) for planned in owed)
            self._asked += self._left if attempt == 0 else 0
            planned_of = {planned.job.id: planned for planned in owed}
            # An engine's events are a generator: closing it ends what it started, however this is left.
            with closing(self._events(owed)) as events:
                for event in events:
                    self._keep(event, planned_of)

    def _events(self, owed: Sequence[PlannedJob]) -> Generator[Event]:
        """What all engines report, one engine after another. Closing it ends the one that runs."""
        for name in dict.fromkeys(planned.comparison.engine for planned in owed):
            one = self._engine[name] if isinstance(self._engine, Mapping) else self._engine
            yield from one.run([p.job for p in owed if p.comparison.engine == name], self._bodies)

    def _keep(self, event: Event, planned_of: Mapping[str, PlannedJob]) -> None:
        """Writes what happened into the store."""
        finished: LoadRecord | None = None
        match event:
            case JobStarted(job):
                self._running[job] = None
            case WorldBuilt(record, raw):
                self._store.add_world(record, raw)
            case LoadDone(finished, raw):
                self._store.add_load(planned_of[finished.job], finished, raw)
                self._left -= 1
                self._reported += 1
                load = (finished.job, finished.id)
                self._done.add(load)
                (self._invalid.discard if finished.valid else self._invalid.add)(load)
            case JobEnded(job, fault):
                self._running.pop(job, None)
                self._faults[job] = fault
                if fault is not None:
                    self._store.add_fault(job, fault)
        self._watch(
            RunProgress(
                running=tuple(self._running),
                finished=finished,
                done=len(self._done),
                asked=self._asked,
                invalid=len(self._invalid),
                again=self._reported - len(self._done),
                left=self._left,
            )
        )


def _owed(jobs: Iterable[PlannedJob], pending: Mapping[str, list[str]]) -> list[PlannedJob]:
    """The jobs, in their order, with those of their loads that are still to be done."""
    return [
        replace(
            planned,
            job=planned.job.model_copy(
                update={"loads": [load for load in planned.job.loads if load.id in pending[planned.job.id]]}
            ),
        )
        for planned in jobs
        if planned.job.id in pending
    ]
