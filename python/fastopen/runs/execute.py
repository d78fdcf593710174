"""Executes a plan on an engine into a run store, one event after another."""

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from fastopen.contract.records import LoadRecord
from fastopen.engines import Engine, Event, JobStarted, LoadDone, WorldBuilt
from fastopen.engines.base import Bodies
from fastopen.experiments import EngineName, Plan
from fastopen.runs.store import RunStore


@dataclass
class RunOutcome:
    """How a run went. `faults` maps what worlds fell short of to the jobs in which they did."""

    interrupted: bool = False
    faults: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunProgress:
    """What a watcher is told after each event: what runs now, and the load that has just finished."""

    running: tuple[str, ...]
    finished: LoadRecord | None


def execute(
    plan: Plan,
    engine: Engine | Mapping[EngineName, Engine],
    bodies: Bodies,
    store: RunStore,
    watch: Callable[[RunProgress], None],
) -> RunOutcome:
    """Runs every job on `engine`, or on the one of its name, and keeps every load.

    On KeyboardInterrupt it stops, keeps what is finished and returns.

    Raises what the engine raises (InputError, MachineError), with all finished loads kept.
    """
    outcome = RunOutcome()
    jobs = {planned.job.id: planned for planned in plan.jobs}
    running: dict[str, None] = {}
    try:
        # An engine's events are a generator: closing it ends what it has started, however this loop is left.
        with closing(_events(plan, engine, bodies)) as events:
            for event in events:
                finished = None
                if isinstance(event, JobStarted):
                    running[event.job] = None
                elif isinstance(event, WorldBuilt):
                    store.add_world(event.record, event.raw)
                elif isinstance(event, LoadDone):
                    finished = event.record
                    store.add_load(jobs[finished.job], finished, event.raw)
                else:
                    running.pop(event.job, None)
                    store.end_job(event.job, event.fault)
                    if event.fault is not None:
                        outcome.faults.setdefault(event.fault, []).append(event.job)
                watch(RunProgress(tuple(running), finished))
    except KeyboardInterrupt:
        outcome.interrupted = True
        store.set_status("interrupted")
    except BaseException:
        store.set_status("stopped")
        raise
    else:
        store.set_status("finished")
    return outcome


def _events(plan: Plan, engine: Engine | Mapping[EngineName, Engine], bodies: Bodies) -> Generator[Event]:
    """What all engines say, one engine after another. Closing it ends the one that runs."""
    for name in plan.engines:
        one = engine[name] if isinstance(engine, Mapping) else engine
        yield from one.run([p.job for p in plan.jobs if p.comparison.engine == name], bodies)
