"""Read the results of jobs from a store. Run the jobs without a stored result, and store their results."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

from fastopen.contract import Job, LoadRecord, WorldRecord, parse_record
from fastopen.contract.client_kinds import LOADER
from fastopen.contract.records import RecordError
from fastopen.engines.base import (
    ATTEMPTS_BY_KIND,
    Bodies,
    Engine,
    Event,
    JobEnded,
    JobStarted,
    LoadDone,
    WorldBuilt,
    bodies_digests,
    event_of,
)
from fastopen.engines.results_store import (
    Maker,
    Result,
    ResultsStore,
    inputs_of,
    key_of,
    with_job_id,
    without_job_id,
)


def can_be_stored(job: Job) -> bool:
    """Return True if the job's result can be stored: if fastopen's own client and servers run the job,
    because only they give the same result each time, and if the job captures no packets."""
    return job.client.kind == LOADER.label and job.origins.server is None and not job.packets


class StoredEngine:
    """An engine that reads results of jobs from a store, and runs jobs without a stored result on another
    engine. If the result of such a job can be stored, its records are yielded only after the job's end."""

    def __init__(self, engine: Engine, store: ResultsStore, maker: Maker) -> None:
        self._engine = engine
        self.parallel = engine.parallel
        self.store = store
        self.maker = maker
        self._digests: dict[str, str] = {}

    def run(self, jobs: Iterable[Job], bodies: Bodies, within_s: float | None = None) -> Generator[Event]:
        missing: list[Job] = []
        inputs_by_job: dict[str, tuple[str, ...]] = {}
        self._digests |= bodies_digests({page: bodies[page] for page in bodies.keys() - self._digests.keys()})
        for job in jobs:
            if can_be_stored(job):
                inputs = inputs_of(job, self.maker, self._digests.get(job.page.name, ""))
                if (events := self._found(key_of(inputs), job)) is not None:
                    yield from events
                    continue
                inputs_by_job[job.id] = inputs
            missing.append(job)
        if not missing:
            return
        with closing(self._engine.run(missing, bodies, within_s)) as made:
            yield from self._kept(made, {job.id: job for job in missing}, inputs_by_job)

    def _found(self, key: str, job: Job) -> list[Event] | None:
        result = self.store.get(key)
        if result is None:
            return None
        raws = [with_job_id(text, job.id) for text in result.records]
        try:
            records = [parse_record(raw) for raw in raws]
        except RecordError:
            return None
        loads = [(record.job, record.id) for record in records if isinstance(record, LoadRecord)]
        if loads != [(job.id, load.id) for load in job.loads]:
            return None
        self.store.found += len(loads)
        events = [
            event_of(record, raw)
            for record, raw in zip(records, raws, strict=True)
            if isinstance(record, WorldRecord | LoadRecord)
        ]
        return [JobStarted(job.id, 1), *events, JobEnded(job.id, None)]

    def _kept(
        self, made: Iterable[Event], jobs: dict[str, Job], inputs_by_job: dict[str, tuple[str, ...]]
    ) -> Iterator[Event]:
        """Yield the events in `made`, which come from the engine that runs the jobs. Hold back the records of
        each job in `inputs_by_job` (job id to `Result.inputs`) until its result is stored."""
        held: dict[str, list[Event]] = {}
        for event in made:
            if isinstance(event, JobStarted):
                if event.attempt > 1:
                    inputs_by_job.pop(event.job, None)
                yield event
            elif isinstance(event, JobEnded):
                events = held.pop(event.job, [])
                if event.job in inputs_by_job and event.fault is None:
                    result = result_of(jobs[event.job], self.maker, inputs_by_job[event.job], events)
                    if result is not None:
                        self.store.put(result)
                yield from events
                yield event
            elif event.record.job in inputs_by_job:
                held.setdefault(event.record.job, []).append(event)
            else:
                yield from held.pop(event.record.job, [])
                yield event


def result_of(job: Job, maker: Maker, inputs: tuple[str, ...], events: Iterable[Event]) -> Result | None:
    """Return the result to store for a job that gave these `events`. `inputs` is `Result.inputs`, and `maker`
    the program and kernel that ran the job. Return None if a page load is missing or must be repeated."""
    reported = [event for event in events if isinstance(event, WorldBuilt | LoadDone)]
    loads = [event.record for event in reported if isinstance(event, LoadDone)]
    if any(reason.kind in ATTEMPTS_BY_KIND for load in loads for reason in load.invalid):
        return None
    if len(reported) != 1 + len(loads) or [load.id for load in loads] != [load.id for load in job.loads]:
        return None
    try:
        records = tuple(without_job_id(event.raw, event.record.type, job.id) for event in reported)
    except ValueError:
        return None
    return Result(maker.digest, inputs, records)
