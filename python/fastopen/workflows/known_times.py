"""Keep page load times of earlier searches, so that a search does not repeat their loads.

In virtual time, a job always gives the same times."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastopen.common.resources import cache_folder
from fastopen.contract import Job, LoadRecord
from fastopen.engines.base import ATTEMPTS_BY_KIND
from fastopen.engines.results_store import Maker
from fastopen.engines.stored import can_be_stored

FOLDER: Final = "explain"
KEY_CHARS: Final = 32
# A file of this size is not read, and begins anew. All searches of this project's experiments need 2 MB.
MAX_BYTES: Final = 64 * 2**20


@dataclass(frozen=True)
class LoadTime:
    """The page load time of one load of a job in nanoseconds; None if the load was not valid."""

    load: str
    plt_ns: int | None
    requests: int


class KnownTimes:
    """Page load times by digest of the job. With a `maker` (program and kernel), they are kept in a file of
    the user's cache folder, one line of JSON for each job. Without one, they are kept only in memory."""

    def __init__(self, maker: Maker | None = None) -> None:
        self._file = None if maker is None else cache_folder(FOLDER) / f"{maker.digest}.jsonl"
        self._times = {} if self._file is None else dict(_read(self._file))

    def key(self, job: Job) -> str | None:
        """Return a digest of the job without its id; None if another run may give other times."""
        if not can_be_stored(job):
            return None
        return hashlib.sha256(job.model_dump_json(exclude={"id"}).encode()).hexdigest()[:KEY_CHARS]

    def get(self, job: Job) -> tuple[LoadTime, ...] | None:
        """Return the times of a job whose id is its `key`; None if they are not known."""
        times = self._times.get(job.id, ())
        return times if {one.load for one in times} == {one.id for one in job.loads} else None

    def keep(self, jobs: Iterable[Job], records: Mapping[str, Collection[LoadRecord]]) -> None:
        """Keep the times of jobs whose id is their `key` and whose loads all have a final result. `records`
        maps ids of jobs to records of their loads. If the file cannot be written, keep them in memory."""
        lines: list[str] = []
        for job in jobs:
            loads = records.get(job.id, ())
            repeated = any(reason.kind in ATTEMPTS_BY_KIND for one in loads for reason in one.invalid)
            all_loads = {one.id for one in loads} == {one.id for one in job.loads}
            if all_loads and not repeated and job.id == self.key(job):
                times = self._times[job.id] = tuple(map(load_time, loads))
                lines.append(json.dumps([job.id, [[one.load, one.plt_ns, one.requests] for one in times]]))
        if self._file is not None and lines:
            with suppress(OSError):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("a", encoding="utf-8") as file:
                    # The last line may have been cut short.
                    file.write("\n".join(["", *lines, ""]))


def load_time(record: LoadRecord) -> LoadTime:
    return LoadTime(record.id, record.plt_ns if record.valid else None, len(record.requests))


def _read(file: Path) -> Iterable[tuple[str, tuple[LoadTime, ...]]]:
    """Yield the keys and times in a file. Skip damaged lines, which a killed search may leave."""
    with suppress(OSError):
        if file.stat().st_size > MAX_BYTES:
            file.unlink()
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError, RecursionError):
                key, loads = json.loads(line)
                yield (
                    str(key),
                    tuple(LoadTime(str(load), _whole(ns), int(count)) for load, ns, count in loads),
                )


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
