"""Restore the plan of a stored run. Check that its experiment and recorded responses match those given."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastopen.common.errors import InputError
from fastopen.engines.base import Bodies, bodies_digests
from fastopen.experiments import ASKED, Experiment, Plan, make_plan
from fastopen.pages import Page
from fastopen.runs.database import damaged
from fastopen.runs.reader import RunReader

SHOWN_DIFFERENCES = 3
# Keys in which runs of one experiment may differ: texts for people, and pages, which `check_same` compares.
NOT_COMPARED = {"title", "source", "notes", "pages"}


def stored_plan(run: RunReader) -> Plan:
    """Restore the plan of a run from its stored experiment and pages, with only the jobs that it stores.
    Raises InputError if another version of fastopen planned the stored jobs differently."""
    experiment, jobs, cells = run.experiment(), run.jobs(), run.cells()
    repeats = max(experiment.repeats, run.repeats())
    plan = planned_again(run, experiment.model_copy(update={"repeats": repeats}))
    planned = {one.job.id: one for one in plan.jobs if one.job.id in jobs}
    if plan.cells != tuple(cells) or {job: one.job.seed for job, one in planned.items()} != jobs:
        message = "was started by another version of fastopen, which planned it differently"
        raise InputError(message, run.place, "run it again into a new folder")
    return replace(plan, experiment=experiment, jobs=tuple(planned.values()))


def planned_again(run: RunReader, experiment: Experiment) -> Plan:
    """Plan `experiment` with the stored pages and engine of `run`. Raises InputError if they are damaged."""
    try:
        return make_plan(experiment, list(run.pages().values()), run.auto_engine())
    except InputError as error:
        raise damaged(error.message, run.place) from None


def check_same(run: RunReader, experiment: Experiment, pages: Sequence[Page], remedy: str = "") -> None:
    """Raise InputError if a run stores another experiment or other pages than the given ones. The error names
    the first differences, and gives the advice `remedy`."""
    there, here = (x.model_dump(mode="json", exclude=NOT_COMPARED) for x in (run.experiment(), experiment))
    found = list(dict.fromkeys(_differences("", there, here)))
    kept = [*run.pages().values()]
    for one, page in zip(kept, pages, strict=False):
        if one.digest() != page.digest():
            other = "another page" if one.name == page.name else f"page {one.name!r} instead of"
            found.append(f"{other} {page.name!r}")
    if len(pages) != len(kept):
        found.append(f"{len(kept)} pages instead of {len(pages)}")
    if found:
        more = f", and {len(found) - SHOWN_DIFFERENCES} more" if len(found) > SHOWN_DIFFERENCES else ""
        message = "holds a different experiment: it has " + ", ".join(found[:SHOWN_DIFFERENCES]) + more
        raise InputError(message, run.place, remedy)


def check_bodies(kept: Mapping[str, str], bodies: Bodies, place: str) -> None:
    """Raise InputError if the recorded response bodies of a page have changed since the run started. `kept`
    maps page names to digests of the bodies at that time. `place` is the run's path, for the message."""
    found = bodies_digests(bodies)
    for page in dict.fromkeys([*kept, *found]):
        if kept.get(page) != found.get(page):
            message = f"page {page} was served other recorded bodies when this run started"
            raise InputError(message, place, "give the unchanged inputs again: fastopen resume RUN INPUT...")


def _differences(name: str, there: Any, here: Any) -> Iterator[str]:
    """Yield phrases for the differences between two JSON values, such as `--rtt 20 instead of 50` if `there`
    has 20 and `here` has 50. `name` is the path of both values in the experiment, such as `networks[0]`."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in dict.fromkeys([*there, *here]):
            yield from _differences(f"{name}.{key}".lstrip("."), there.get(key), here.get(key))
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for number, (one, other) in enumerate(zip(there, here, strict=True)):
            yield from _differences(f"{name}[{number}]", one, other)
    elif there != here:
        field = re.sub(r"^\w+\[\d+\]\.", "", name)
        if isinstance(there, list) and isinstance(here, list):
            yield f"{len(there)} {field} instead of {len(here)}"
        elif any(isinstance(one, Mapping | list) for one in (there, here)):
            yield f"another {field}" if there and here else f"{'' if there else 'no '}{field}"
        else:
            yield "{} {} instead of {}".format(*_as_option(name, field, there, here))


def _as_option(name: str, field: str, *values: Any) -> tuple[Any, ...]:
    """Return the option that sets a field of an experiment, and `values` in the option's notation. If no
    option sets it, return `field` and the values in Python's notation. `name` is the field's full path."""
    part, _, rest = (f"network.{field}" if name.startswith("networks[") else field).partition(".")
    for factor in ASKED:
        if factor.part == part and (rest in factor.fields or rest == factor.setting):
            write = factor.quantity.write
            return factor.flag, *("none" if one is None else write(one) for one in values)
    return field, *(repr(one) if isinstance(one, str) else one for one in values)
