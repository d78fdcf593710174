"""Maintain a store of finished page loads for reuse: inspect it, verify a sample of its results, prune it."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from fastopen.common import json_memory
from fastopen.common.errors import InputError, os_errors_as, unreadable
from fastopen.contract import Job
from fastopen.engines import Engine, Event, JobEnded, Maker, Reported, ResultsStore
from fastopen.engines.result_files import DamagedResultError, KeptFile, files_at
from fastopen.engines.results_store import (
    DISPUTED,
    HEAD_BYTES,
    MARK,
    STALE_S,
    Result,
    can_be_stored,
    read_head,
    read_result,
    result_of,
)

AT_ONCE = 300
"""The maximum number of results to repeat in one call of `Engine.run`, whose jobs can share kernels."""


@dataclass
class StoreFacts:
    """The number of files of each kind in a store. `bytes` is the size of all results and damaged files."""

    results: int = 0
    bytes: int = 0
    damaged: int = 0
    unfinished: int = 0
    """The number of temporary files, whose writers were interrupted or are still running."""
    makers: Counter[str] = field(default_factory=Counter)
    """Maps the digest of a program and kernel (`Maker.digest`) to the number of results that they made."""
    disputed: int = 0
    """The number of jobs with two different results."""


def open_store(place: str | os.PathLike[str]) -> ResultsStore:
    """Open an existing store. Raises InputError if there is none, MachineError if a URL is unreachable."""
    files = files_at(place)
    with os_errors_as(unreadable, files.place):
        if not files.exists(MARK):
            raise InputError("not a store of results", files.place, "fastopen run --store DIR makes one")
    return ResultsStore(place)


def facts(store: ResultsStore) -> StoreFacts:
    """Count the store's files by kind. Read only the head of each file; count files with an unreadable
    head as damaged. Raises InputError if the store's files cannot be listed."""
    found = StoreFacts()
    for file in _kept(store):
        if file.unfinished:
            found.unfinished += 1
            continue
        found.bytes += file.bytes
        maker = _maker(store, file)
        if maker is None:
            found.damaged += 1
        else:
            found.results += 1
            found.makers[maker] += 1
    found.disputed = sum(name.endswith(".kept") for name in store.files.names(DISPUTED))
    return found


def _kept(store: ResultsStore) -> Iterator[KeptFile]:
    with os_errors_as(unreadable, store.place):
        yield from store.files.kept()


def _maker(store: ResultsStore, file: KeptFile) -> str | None:
    """Return the digest of the program and kernel that made a result; None if the file is unreadable."""
    try:
        return read_head(store.files.read(file.name, HEAD_BYTES))[0]
    except (OSError, DamagedResultError):
        return None


def prune(
    store: ResultsStore,
    now_s: float,
    *,
    older_than_s: float | None = None,
    most_bytes: int | None = None,
    keep_maker: str | None = None,
) -> tuple[int, int]:
    """Remove damaged files, old temporary files, and results older than `older_than_s`. If `keep_maker` is
    given (the digest of a program and kernel), also remove the results of all other makers. If `most_bytes`
    is given, remove the oldest results until this size is reached. Return the number and size of the removed
    files. `now_s` is the time since the epoch. Raises InputError if the store cannot be read or changed."""
    going: list[KeptFile] = []
    staying: list[KeptFile] = []
    for file in _kept(store):
        if file.unfinished:
            if now_s - file.written_s > STALE_S:
                going.append(file)
            continue
        maker = _maker(store, file)
        old = older_than_s is not None and now_s - file.written_s > older_than_s
        other = keep_maker is not None and maker != keep_maker
        (going if maker is None or old or other else staying).append(file)
    left = sum(file.bytes for file in staying)
    for file in sorted(staying, key=attrgetter("written_s", "name")):
        if most_bytes is None or left <= most_bytes:
            break
        going.append(file)
        left -= file.bytes
    try:
        for file in going:
            store.files.remove(file.name)
    except OSError as error:
        raise InputError(f"cannot be changed: {error.strerror or error}", store.place) from None
    return len(going), sum(file.bytes for file in going)


@dataclass
class Verified:
    """The outcome of repeating stored results. `same` is the number of unchanged results, and `loads` the
    number of page loads in them. `of_others` is the number of results skipped because another program or
    kernel made them. `not_again` is the number that could not be repeated: they need recorded bodies, or this
    machine was too busy. `disputed` lists each changed result's key, and both versions' paths or URLs."""

    same: int = 0
    loads: int = 0
    damaged: int = 0
    of_others: int = 0
    not_again: int = 0
    disputed: list[tuple[str, str, str]] = field(default_factory=list)


def verify(
    store: ResultsStore, engine: Engine, maker: Maker, share: float, chance: random.Random | None = None
) -> Verified:
    """Compute a random `share` (up to 1) of the results again, at least one, and compare old and new results.

    `maker` identifies the program and kernel of `engine`. Results of other programs or kernels are skipped.
    If a job's results differ, both go to the folder DISPUTED. `chance` is the random generator; None for the
    system's. Raises InputError if the store is unreadable, and the errors of `Engine.run`."""
    drawn = chance or random.SystemRandom()
    names = [file.name for file in _kept(store) if not file.unfinished]
    names = drawn.sample(names, min(len(names), max(1, round(share * len(names)))))
    found = Verified()
    kept: dict[str, tuple[Result, Job]] = {}
    taken = 0
    for number, name in enumerate(names, 1):
        entry = _read(store, name)
        if entry is None:
            found.damaged += 1
        elif (result := entry[0]).maker != maker.digest:
            found.of_others += 1
        elif result.inputs[1]:
            found.not_again += 1
        else:
            kept[result.key] = entry
            taken += result.size + json_memory.estimated_bytes(result.inputs[-1])
        if len(kept) == AT_ONCE or taken > json_memory.MAX_BYTES or number == len(names):
            _repeat(store, engine, maker, kept, found)
            kept, taken = {}, 0
    return found


def _read(store: ResultsStore, name: str) -> tuple[Result, Job] | None:
    """Return a stored result and its job, or None if the file is damaged. A job that would run a program or
    read a file also counts as damaged, because anyone may be able to write to the store."""
    try:
        result = read_result(store.files, name)
        job = result.job(result.key)
    except (OSError, DamagedResultError, ValueError):
        return None
    runs_here = can_be_stored(job) and job.origins.bodies_file is None
    whole = store.name(result.key) == name and len(result.records) == 1 + len(job.loads)
    return (result, job) if runs_here and whole else None


def _repeat(
    store: ResultsStore, engine: Engine, maker: Maker, kept: dict[str, tuple[Result, Job]], found: Verified
) -> None:
    if not kept:
        return
    made: dict[str, list[Event]] = {key: [] for key in kept}
    for event in engine.run([job for _, job in kept.values()], {}):
        if isinstance(event, Reported):
            made[event.record.job].append(event)
        elif isinstance(event, JobEnded) and event.fault is not None:
            made[event.job] = []
    for key, (result, job) in kept.items():
        again = result_of(job, maker, result.inputs, made[key])
        if again is None:
            found.not_again += 1
        elif again == result:
            found.same += 1
            found.loads += len(job.loads)
        else:
            found.disputed.append((key, *store.dispute(result, again)))
