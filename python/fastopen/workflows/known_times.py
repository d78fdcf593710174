"""Keep page load times of earlier searches, so that a search does not repeat their loads.

In virtual time, a job always gives the same times."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import TypeAdapter

from fastopen.common.resources import cache_folder
from fastopen.contract import Job, LoadRecord
from fastopen.engines.base import ATTEMPTS_BY_KIND, Event, JobEnded, JobStarted, Reported
from fastopen.engines.results_store import Maker, can_be_stored

FOLDER: Final = "explain"
KEY_CHARS: Final = 32
# A larger file is deleted. All searches of this project's experiments need 1 MB.
MAX_BYTES: Final = 64 * 2**20


class LoadTime(NamedTuple):
    """One load of a job: its id, its page load time in ns (None if invalid), and its number of requests."""

    load: str
    plt_ns: int | None
    requests: int


LINE: Final = TypeAdapter(tuple[str, tuple[LoadTime, ...]])


class KnownTimes:
    """Page load times, keyed by a digest of the job that measured them. If `maker`, the program and kernel
    that determine the times, is given, the times are stored in a file in the user's cache folder, one line of
    JSON for each job. Otherwise, they are only in memory."""

    def __init__(self, maker: Maker | None = None) -> None:
        self._file = None if maker is None else cache_folder(FOLDER) / f"{maker.digest}.jsonl"
        self._times = {} if self._file is None else dict(_read(self._file))

    def key(self, job: Job) -> str | None:
        """Return a digest of the job without its id; None if repeating the job may give different times."""
        if not can_be_stored(job):
            return None
        return hashlib.sha256(job.model_dump_json(exclude={"id"}).encode()).hexdigest()[:KEY_CHARS]

    def get(self, job: Job) -> tuple[LoadTime, ...] | None:
        """Return the known times of a job's loads; None if any is missing. `job.id` must be `key(job)`."""
        times = self._times.get(job.id, ())
        return times if {one.load for one in times} == {one.id for one in job.loads} else None

    def keep(self, jobs: Iterable[Job], events: Iterable[Event]) -> Iterator[tuple[str, LoadTime]]:
        """Yield (id of the job, time) for each load in `events`, which come from an engine that runs `jobs`.
        When a job that can be stored ends, keep its times under its id, which must be `key(job)`. Do not
        keep them if the machine may have made a load invalid, or if the engine restarted the job to repeat
        only some loads. If the file cannot be written, keep times in memory."""
        lasting = {job.id for job in jobs if can_be_stored(job)}
        times: defaultdict[str, list[LoadTime]] = defaultdict(list)
        for event in events:
            match event:
                case JobStarted(job, attempt) if attempt > 1:
                    lasting.discard(job)
                case Reported(LoadRecord() as record):
                    if any(reason.kind in ATTEMPTS_BY_KIND for reason in record.invalid):
                        lasting.discard(record.job)
                    one = LoadTime(record.id, record.plt_ns if record.valid else None, len(record.requests))
                    times[record.job].append(one)
                    yield record.job, one
                case JobEnded(job, None) if job in lasting:
                    self._add(job, tuple(times.pop(job, ())))

    def _add(self, key: str, times: tuple[LoadTime, ...]) -> None:
        self._times[key] = times
        if self._file is not None:
            with suppress(OSError):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                # Append in one piece, as another search may append too. The last line may be cut short.
                with self._file.open("ab", buffering=0) as file:
                    file.write(f"\n{json.dumps([key, times])}\n".encode())


def _read(file: Path) -> Iterator[tuple[str, tuple[LoadTime, ...]]]:
    """Yield the keys and times in a file. Skip damaged lines, which a killed search may have left."""
    with suppress(OSError):
        if file.stat().st_size > MAX_BYTES:
            file.unlink()
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                yield LINE.validate_json(line)
