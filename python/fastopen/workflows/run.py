"""Carries a run out, in a terminal and in a notebook alike: what it begins and goes on with, when it ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fastopen.engines.base import Bodies
from fastopen.errors import InputError
from fastopen.experiments import Experiment, Plan
from fastopen.pages import ImportedPage
from fastopen.runs import RunOutcome, RunProgress, RunStore, execute, stored_plan
from fastopen.runs.bodies import bodies_digests, check_bodies
from fastopen.statistics import Results, UntilInterval, collect
from fastopen.workflows.engines import EngineSet

Watch = Callable[[RunProgress], None]


@dataclass(frozen=True)
class Inputs:
    """What the pages of a run were loaded from: recorded bodies are read there again when it goes on."""

    paths: tuple[str, ...] = ()
    library: tuple[str, ...] = ()
    lenient: bool = False

    def as_json(self) -> dict[str, Any]:
        """As a run keeps it, to be found from another folder too."""
        return {
            "inputs": [_lasting(text) for text in self.paths],
            "library": [_lasting(text) for text in self.library],
            "lenient": self.lenient,
        }


def bodies_of(plan: Plan, imported: Sequence[ImportedPage]) -> Bodies:
    """The recorded bodies of each page of the plan, by its name."""
    return {page.name: one.bodies for page, one in zip(plan.pages, imported, strict=False)}


def kept_options(
    kernel: str | None, until: UntilInterval | None, inputs: Inputs, bodies: Bodies
) -> dict[str, Any]:
    """What a kept run needs to go on by itself."""
    return {
        "kernel": kernel,
        "until": None if until is None else until.as_json(),
        **inputs.as_json(),
        "bodies": bodies_digests(bodies),
    }


@dataclass(frozen=True)
class Rest:
    """What a kept run goes on with."""

    plan: Plan
    bodies: Bodies
    worker: EngineSet
    until: UntilInterval | None


def rest_of(
    store: RunStore,
    imported: Sequence[ImportedPage],
    *,
    kernel: str | None,
    jobs: int | None,
    until: UntilInterval | None,
) -> Rest:
    """What is to be done of a kept run; kernel and precision are its own where they are None.

    Raises InputError where it is finished, or where it would not be the same run.
    """
    if store.status == "finished" and not store.pending():
        remedy = "fastopen show prints it; name a new folder to run it again"
        raise InputError("this run is finished", store.place, remedy)
    plan = stored_plan(store)
    bodies, options = bodies_of(plan, imported), store.options
    check_bodies(options.get("bodies", {}), bodies, store.place)
    worker = EngineSet.of(plan, kernel or options.get("kernel"), jobs)
    return Rest(plan, bodies, worker, until or UntilInterval.of_json(options.get("until")))


def carry(store: RunStore, rest: Rest, watch: Watch) -> tuple[RunOutcome, Results]:
    """Does what the run owes and, where a precision is asked for, as much more as that needs.

    Raises what `execute` does; what is finished is kept.
    """
    plan, until = rest.plan, rest.until
    outcome = execute(plan, rest.worker.engines, rest.bodies, store, watch, finish=until is None)
    results = collect(store)
    while until is not None and not outcome.interrupted:
        more = until.more_jobs(results, store)
        if not more:
            store.set_status("finished")
            break
        store.add_jobs(more)
        plan = replace(plan, jobs=(*plan.jobs, *more))
        outcome = execute(plan, rest.worker.engines, rest.bodies, store, watch, finish=False)
        results = collect(store)
    return outcome, replace(results, status=store.status)


def check_hosts(experiment: Experiment, imported: Sequence[ImportedPage]) -> None:
    """A host that no page asks is a slip of the pen, which would make no difference in silence."""
    known = {host for one in imported for host in one.page.hosts()}
    for network in experiment.networks:
        for host in network.host_extra_rtt_us:
            if host not in known:
                raise InputError(
                    f"no page asks the host {host}", "--extra-rtt", "fastopen page show names them"
                )


def _lasting(text: str) -> str:
    return str(Path(text).absolute()) if Path(text).exists() else text
