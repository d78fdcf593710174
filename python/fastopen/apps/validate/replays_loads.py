"""Replay each recording over the network that it implies, and compare it with the recorded load event."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Final

from fastopen.common.errors import InputError
from fastopen.contract import LoadRecord
from fastopen.contract.job import LOAD_TIMEOUT_MAX_US
from fastopen.experiments import Cell, EngineName, Plan, PlannedJob, make_plan
from fastopen.pages import ImportedPage, Page
from fastopen.workflows.engines import auto_engine
from fastopen.workflows.page_loads import last_records
from fastopen.workflows.replays import Replay, Rules, ValidatedReplay, cause_of, replay_of
from fastopen.workflows.run import Watch, run_in_memory

# A replay that takes this many times as long as its recording counts as hanging.
TIMEOUT_FACTOR: Final = 4


@dataclass(frozen=True)
class Skipped:
    """A page that was not validated, and the reason."""

    page: str
    reason: str


@dataclass(frozen=True)
class ReplayValidation:
    """The results for all pages, in the order in which the pages were given."""

    validated: tuple[ValidatedReplay, ...]
    unreplayable: tuple[Skipped, ...]
    """Pages whose recordings do not contain enough to replay them."""
    failed: tuple[Skipped, ...]
    """Pages whose replay failed."""
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
    watch: Watch = lambda _: None,
) -> ReplayValidation:
    """Replay each recording, on the host `repeats` times, and use the median. Raises MachineError."""
    chosen = engine or auto_engine(kernel)
    replays, unreplayable = _replays(imported, rules or Rules())
    plans = [_plan(replay, chosen, repeats) for replay in replays]
    if not plans:
        return ReplayValidation((), tuple(unreplayable), (), chosen, None)
    records: defaultdict[int, list[LoadRecord]] = defaultdict(list)
    with run_in_memory(_side_by_side(plans), kernel, jobs, watch) as run:
        for row, record in last_records(run.store):
            records[row.cell].append(record)
    validated: list[ValidatedReplay] = []
    failed: list[Skipped] = []
    for number, replay in enumerate(replays):
        done = [record for record in records[number] if record.valid and record.plt_ns is not None]
        if done:
            validated.append(_validated(replay, done))
        else:
            failed.append(Skipped(replay.page.name, _why(records[number])))
    booted = run.results.environment.get("virtual_kernel", {}).get("name")
    return ReplayValidation(tuple(validated), tuple(unreplayable), tuple(failed), chosen, booted)


def _replays(imported: Iterable[ImportedPage], rules: Rules) -> tuple[list[Replay], list[Skipped]]:
    replays: list[Replay] = []
    skipped: list[Skipped] = []
    for one in imported:
        try:
            replays.append(replay_of(one, rules))
        except InputError as error:
            remedy = f"; {error.remedy}" if error.remedy else ""
            skipped.append(Skipped(one.page.name, error.message + remedy))
    return replays, skipped


def _plan(replay: Replay, engine: EngineName, repeats: int) -> Plan:
    """Plan a replay. A load may take the usual limit or, if longer, TIMEOUT_FACTOR times its recording."""
    asked = replay.experiment(repeats).model_copy(update={"engines": [engine]})
    plan = make_plan(asked, [replay.loaded_page()])
    least = min(round(TIMEOUT_FACTOR * replay.recorded_ms * 1000), LOAD_TIMEOUT_MAX_US)
    jobs = tuple(
        replace(
            planned,
            job=planned.job.model_copy(update={"load_timeout_us": max(planned.job.load_timeout_us, least)}),
        )
        for planned in plan.jobs
    )
    return replace(plan, jobs=jobs)


def _side_by_side(plans: Sequence[Plan]) -> Plan:
    """Merge plans of one cell each, so that pages load in parallel. Numbers make the pages' names unique."""
    cells: list[Cell] = []
    jobs: list[PlannedJob] = []
    pages: list[Page] = []
    for number, plan in enumerate(plans):
        name = f"{number}:{plan.pages[0].name}"
        pages.append(plan.pages[0].model_copy(update={"name": name}))
        cells.append(replace(plan.cells[0], index=number, page=name, network=number, setup=number))
        for planned in plan.jobs:
            job = planned.job.model_copy(update={"id": f"{number}:{planned.job.id}"})
            of_load = dict.fromkeys(planned.cells, number)
            jobs.append(PlannedJob(job, cells[-1].comparison, planned.repeat, of_load))
    every = [plan.experiment for plan in plans]
    asked = {
        "pages": [page.name for page in pages],
        "networks": [one.networks[0] for one in every],
        "setups": [one.setups[0] for one in every],
    }
    return Plan(every[0].model_copy(update=asked), tuple(pages), tuple(cells), tuple(jobs))


def _validated(replay: Replay, records: Sequence[LoadRecord]) -> ValidatedReplay:
    """Compare the recording with the load that has the median PLT (the lower of the two in the middle)."""
    middle = median_low([record.plt_ns or 0 for record in records])
    record = next(record for record in records if record.plt_ns == middle)
    cause = cause_of(replay.page, replay.recording, replay.held_ms, record)
    return ValidatedReplay(replay, middle / 1e6, cause, tuple(_lookups_ms(replay, record)))


def _lookups_ms(replay: Replay, record: LoadRecord) -> Iterator[tuple[float, float]]:
    recorded: dict[str, float] = {}
    for resource, exchange in zip(replay.page.resources, replay.recording.exchanges, strict=True):
        recorded[resource.host] = recorded.get(resource.host) or exchange.lookup
    for one in record.lookups:
        if one.answered_ns is not None:
            yield recorded[one.host], (one.answered_ns - one.asked_ns) / 1e6


def _why(records: Sequence[LoadRecord]) -> str:
    reasons = [f"{one.kind}: {one.detail}" for record in records for one in record.invalid]
    return reasons[0] if reasons else "the load did not finish"
