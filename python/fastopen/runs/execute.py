"""Executes a plan on engines into a run store: what the run still owes, one event after another."""

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from fastopen.contract.records import LoadRecord
from fastopen.engines import Engine, Event, JobStarted, LoadDone, WorldBuilt
from fastopen.engines.base import Bodies
from fastopen.errors import MachineError
from fastopen.experiments import EngineName, Plan, PlannedJob
from fastopen.runs.store import ATTEMPTS, RunStore


@dataclass
class RunOutcome:
    """How a run went. `faults` maps what worlds fell short of, to the end, to the jobs in which they did."""

    interrupted: bool = False
    faults: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunProgress:
    """What a watcher is told after each event: what runs now, what has just finished, how much is left."""

    running: tuple[str, ...]
    finished: LoadRecord | None
    left: int
    """Loads that were not reported yet; those that must be done again come on top once all are."""


def execute(
    plan: Plan,
    engine: Engine | Mapping[EngineName, Engine],
    bodies: Bodies,
    store: RunStore,
    watch: Callable[[RunProgress], None],
    *,
    finish: bool = True,
) -> RunOutcome:
    """Does on `engine`, or on the one of its name, what the store still owes of the plan.

    Every load is kept. Those that nothing but the machine disturbed are done again once all others are done,
    up to ATTEMPTS times in all. On KeyboardInterrupt it stops, keeps what is finished and returns. With
    `finish` False the run stays open for more jobs.

    Raises what the engine raises (InputError, MachineError), with all finished loads kept.
    """
    outcome = RunOutcome()
    faults: dict[str, str | None] = {}
    try:
        for _ in range(ATTEMPTS):
            owed = _owed(plan, store.pending())
            # An engine's events are a generator: closing it ends what it started, however this is left.
            with closing(_events(owed, engine, bodies)) as events:
                _keep(events, owed, store, watch, faults)
    except KeyboardInterrupt:
        outcome.interrupted = True
        store.set_status("interrupted")
    except BaseException:
        # The disk may be full: then what is on it stands, and the first error is the one to tell.
        with contextlib.suppress(MachineError):
            store.set_status("stopped")
        raise
    else:
        if finish:
            store.set_status("finished")
    for job, fault in faults.items():
        if fault is not None:
            outcome.faults.setdefault(fault, []).append(job)
    return outcome


def _owed(plan: Plan, pending: Mapping[str, list[str]]) -> list[PlannedJob]:
    """The jobs of the plan, in its order, with those of their loads that are still to be done."""
    return [
        replace(
            planned,
            job=planned.job.model_copy(
                update={"loads": [load for load in planned.job.loads if load.id in pending[planned.job.id]]}
            ),
        )
        for planned in plan.jobs
        if planned.job.id in pending
    ]


def _events(
    owed: Sequence[PlannedJob], engine: Engine | Mapping[EngineName, Engine], bodies: Bodies
) -> Generator[Event]:
    """What all engines say, one engine after another. Closing it ends the one that runs."""
    for name in dict.fromkeys(planned.comparison.engine for planned in owed):
        one = engine[name] if isinstance(engine, Mapping) else engine
        yield from one.run([p.job for p in owed if p.comparison.engine == name], bodies)


def _keep(
    events: Iterable[Event],
    owed: Sequence[PlannedJob],
    store: RunStore,
    watch: Callable[[RunProgress], None],
    faults: dict[str, str | None],
) -> None:
    """Writes what happens into the store. `faults` gets the last fault of each job, or None."""
    jobs = {planned.job.id: planned for planned in owed}
    left = sum(len(planned.job.loads) for planned in owed)
    running: dict[str, None] = {}
    for event in events:
        finished = None
        if isinstance(event, JobStarted):
            running[event.job] = None
        elif isinstance(event, WorldBuilt):
            store.add_world(event.record, event.raw)
        elif isinstance(event, LoadDone):
            finished = event.record
            store.add_load(jobs[finished.job], finished, event.raw)
            left -= 1
        else:
            running.pop(event.job, None)
            faults[event.job] = event.fault
            if event.fault is not None:
                store.add_fault(event.job, event.fault)
        watch(RunProgress(tuple(running), finished, left))
