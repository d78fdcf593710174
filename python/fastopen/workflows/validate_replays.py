"""Validates replays: each recording over the network that it implies, compared with its own load event."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Final

from fastopen.contract import Job, LoadRecord
from fastopen.contract.job import LOAD_TIMEOUT_MAX_US
from fastopen.engines import Engine
from fastopen.engines.base import JobStarted, LoadDone
from fastopen.errors import InputError
from fastopen.experiments import EngineName, Plan, make_plan
from fastopen.pages import ImportedPage
from fastopen.replay_validation import Replay, Rules, ValidatedReplay, cause_of, replay_of
from fastopen.workflows.engines import EngineSet, auto_engine

# A replay that takes so many times the time of its recording has hung.
TIMEOUT_FACTOR: Final = 4


@dataclass(frozen=True)
class Skipped:
    """A page that was not validated, and why."""

    page: str
    reason: str


@dataclass(frozen=True)
class ReplayValidation:
    """All pages, in the order in which they were given."""

    validated: tuple[ValidatedReplay, ...]
    unreplayable: tuple[Skipped, ...]
    """What the recordings do not say enough of."""
    failed: tuple[Skipped, ...]
    """What could not be replayed."""
    engine: EngineName
    kernel: str | None


def validate_replays(
    imported: Sequence[ImportedPage],
    *,
    engine: EngineName | None = None,
    repeats: int = 3,
    kernel: str | None = None,
    jobs: int | None = None,
    rules: Rules | None = None,
    watch: Callable[[str, int], None] | None = None,
) -> ReplayValidation:
    """Replays each recording; on the host `repeats` times, of which the median counts.

    `watch` is called with the page that starts and how many loads are left. Raises MachineError where this
    machine lacks what the engine needs.
    """
    chosen = engine or auto_engine(kernel)
    replays, unreplayable = _replays(imported, rules or Rules())
    plans = [_plan(replay, chosen, repeats) for replay in replays]
    if not plans:
        return ReplayValidation((), tuple(unreplayable), (), chosen, None)
    engines = EngineSet.of(plans[0], kernel, jobs)
    records = _records(plans, engines.engines[chosen], watch)
    validated: list[ValidatedReplay] = []
    failed: list[Skipped] = []
    for replay, of_page in zip(replays, records, strict=True):
        done = [record for record in of_page if record.valid and record.plt_ns is not None]
        if done:
            validated.append(_validated(replay, done))
        else:
            failed.append(Skipped(replay.page.name, _why(of_page)))
    kernel_name = None if engines.kernel is None else engines.kernel.name
    return ReplayValidation(tuple(validated), tuple(unreplayable), tuple(failed), chosen, kernel_name)


def _replays(imported: Iterable[ImportedPage], rules: Rules) -> tuple[list[Replay], list[Skipped]]:
    replays: list[Replay] = []
    skipped: list[Skipped] = []
    for one in imported:
        try:
            replays.append(replay_of(one, rules))
        except InputError as error:
            remedy = f" ({error.remedy})" if error.remedy else ""
            skipped.append(Skipped(one.page.name, error.message + remedy))
    return replays, skipped


def _plan(replay: Replay, engine: EngineName, repeats: int) -> Plan:
    """Its jobs may take as long as the recording did, and more, however long that was."""
    asked = replay.experiment(repeats).model_copy(update={"engines": [engine]})
    plan = make_plan(asked, [replay.page])
    least = min(round(TIMEOUT_FACTOR * replay.recorded_ms * 1000), LOAD_TIMEOUT_MAX_US)
    jobs = tuple(
        replace(
            planned,
            job=planned.job.model_copy(update={"load_timeout_us": max(planned.job.load_timeout_us, least)}),
        )
        for planned in plan.jobs
    )
    return replace(plan, jobs=jobs)


def _records(
    plans: Sequence[Plan], engine: Engine, watch: Callable[[str, int], None] | None
) -> list[list[LoadRecord]]:
    """The loads of each plan, in their order. Pages of the same name are told apart by their place."""
    jobs = list(_jobs(plans))
    place = {job.id: number for number, job in jobs}
    found: defaultdict[int, list[LoadRecord]] = defaultdict(list)
    left = len(jobs)
    with closing(engine.run((job for _, job in jobs), {})) as events:
        for event in events:
            if isinstance(event, JobStarted) and watch is not None:
                watch(plans[place[event.job]].pages[0].name, left)
            elif isinstance(event, LoadDone):
                left -= 1
                found[place[event.record.job]].append(event.record)
    return [found[number] for number in range(len(plans))]


def _jobs(plans: Sequence[Plan]) -> Iterator[tuple[int, Job]]:
    for number, plan in enumerate(plans):
        for planned in plan.jobs:
            job = planned.job
            yield number, job.model_copy(update={"id": f"{number}:{job.id}"})


def _validated(replay: Replay, records: Sequence[LoadRecord]) -> ValidatedReplay:
    """By the load with the median PLT (the lower of two in the middle)."""
    middle = median_low([record.plt_ns or 0 for record in records])
    record = next(record for record in records if record.plt_ns == middle)
    cause = cause_of(replay.page, replay.recording, replay.held_ms, record)
    return ValidatedReplay(replay, middle / 1e6, cause)


def _why(records: Sequence[LoadRecord]) -> str:
    reasons = [f"{one.kind}: {one.detail}" for record in records for one in record.invalid]
    return reasons[0] if reasons else "the load did not finish"
