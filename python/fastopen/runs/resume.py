"""Restore the plan of a kept run, and compare the run with the requested experiment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastopen.common.errors import InputError
from fastopen.experiments import Experiment, Plan, make_plan
from fastopen.pages import Page
from fastopen.runs.reader import RunReader

SHOWN_DIFFERENCES = 4
# Keys that may differ in one experiment: texts for people, and names of pages, whose digests are compared.
NOT_COMPARED = ("title", "source", "notes", "pages")


def stored_plan(run: RunReader) -> Plan:
    """Plan a kept run again, and return the plan of its jobs. Raises InputError if jobs or cells differ."""
    experiment, jobs, cells = run.experiment(), run.jobs(), run.cells()
    repeats = max(experiment.repeats, run.repeats())
    longest = experiment.model_copy(update={"repeats": repeats})
    plan = planned_anew(run, longest)
    planned = {one.job.id: one for one in plan.jobs if one.job.id in jobs}
    if plan.cells != tuple(cells) or {job: one.job.seed for job, one in planned.items()} != jobs:
        message = "was started by another version of fastopen, which planned it differently"
        raise InputError(message, run.place, "run it again into a new folder")
    return replace(plan, experiment=experiment, jobs=tuple(planned.values()))


def planned_anew(run: RunReader, experiment: Experiment) -> Plan:
    """Plan an experiment with the pages of a run. Raises InputError if the run is damaged."""
    try:
        return make_plan(experiment, list(run.pages().values()), run.auto_engine())
    except InputError as error:
        raise InputError(f"damaged: {error.message}", run.place) from None


def check_same(run: RunReader, experiment: Experiment, pages: Sequence[Page], remedy: str = "") -> None:
    """Raise InputError with the differences and `remedy` if the run has another experiment or other pages."""
    there, here = (
        one.model_dump(mode="json", exclude=set(NOT_COMPARED)) for one in (run.experiment(), experiment)
    )
    found = list(_differences("", there, here))
    digests = [page.digest() for page in run.pages().values()]
    for number, page in enumerate(pages):
        if number >= len(digests) or page.digest() != digests[number]:
            found.append(f"another page {page.name}")
    if len(pages) < len(digests):
        found.append(f"{len(digests)} pages instead of {len(pages)}")
    if found:
        more = f", and {len(found) - SHOWN_DIFFERENCES} more" if len(found) > SHOWN_DIFFERENCES else ""
        message = "contains a run of another experiment: " + ", ".join(found[:SHOWN_DIFFERENCES]) + more
        raise InputError(message, run.place, remedy)


def _differences(name: str, there: Any, here: Any) -> Iterator[str]:
    """Yield a description of each leaf in which two documents differ, with both values."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in dict.fromkeys([*there, *here]):
            yield from _differences(f"{name}.{key}".lstrip("."), there.get(key), here.get(key))
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for number, (one, other) in enumerate(zip(there, here, strict=True)):
            yield from _differences(f"{name}[{number}]", one, other)
    elif there != here:
        if isinstance(there, list) and isinstance(here, list):
            yield f"{len(there)} {name} instead of {len(here)}"
        elif any(isinstance(one, Mapping | list) for one in (there, here)):
            yield f"another {name}" if there and here else f"{'with' if there else 'without'} {name}"
        else:
            yield f"{name} {there} instead of {here}"
