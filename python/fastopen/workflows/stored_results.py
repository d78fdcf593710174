"""What is done to a store of results: looking it over, making some again, removing what is old."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fastopen.contract import Job
from fastopen.engines import Engine, Event, JobEnded, LoadDone, Maker, ResultsStore, WorldBuilt
from fastopen.engines.results_store import (
    MARK,
    STALE_S,
    TEMPORARY,
    DamagedResultError,
    Result,
    head_of,
    read_result,
)
from fastopen.engines.stored import result_of
from fastopen.errors import InputError, unreadable

AT_ONCE = 300
"""Results that are made again together, for which kernels are started."""


@dataclass
class StoreFacts:
    """What is in a store."""

    results: int = 0
    bytes: int = 0
    damaged: int = 0
    unfinished: int = 0
    """Files that interrupted writers left."""
    makers: Counter[str] = field(default_factory=Counter)
    """Results by who made them (Maker.digest)."""
    disputed: int = 0
    """Jobs that came out differently."""


def open_store(folder: Path) -> ResultsStore:
    """One that is there. Raises InputError."""
    if not (folder / MARK).is_file():
        raise InputError("no store of results", str(folder), "fastopen run --store DIR makes one")
    return ResultsStore(folder)


def facts(store: ResultsStore) -> StoreFacts:
    """Reads the first bytes of each file. Raises InputError where it may not be read."""
    found = StoreFacts()
    for entry, size, _ in _files(store):
        if entry.name.startswith(TEMPORARY):
            found.unfinished += 1
            continue
        found.bytes += size
        maker = _maker(entry)
        if maker is None:
            found.damaged += 1
        else:
            found.results += 1
            found.makers[maker] += 1
    found.disputed = len([*(store.folder / "disputed").glob("*.kept")])
    return found


def _files(store: ResultsStore) -> Iterator[tuple["os.DirEntry[str]", int, float]]:
    """Each file with size and time; others may remove some meanwhile."""
    try:
        for entry in store.files():
            with suppress(FileNotFoundError):
                status = entry.stat()
                yield entry, status.st_size, status.st_mtime
    except OSError as error:
        raise unreadable(store.folder, error) from None


def _maker(entry: "os.DirEntry[str]") -> str | None:
    try:
        return head_of(entry.path)
    except OSError:
        return None


@dataclass(frozen=True)
class Pruning:
    """What is to go, besides what is damaged and what interrupted writers left."""

    older_than_s: float | None = None
    bytes: int | None = None
    """The oldest go until so much is left."""
    keep_maker: str | None = None
    """Results of all others go."""


def prune(store: ResultsStore, asked: Pruning, now: float) -> tuple[int, int]:
    """Removes files; returns how many, and how many bytes they had. Raises InputError."""
    going: list[tuple[str, int]] = []
    staying: list[tuple[float, int, str]] = []
    for entry, size, written in _files(store):
        if entry.name.startswith(TEMPORARY):
            if now - written > STALE_S:
                going.append((entry.path, size))
            continue
        maker = _maker(entry)
        old = asked.older_than_s is not None and now - written > asked.older_than_s
        other = asked.keep_maker is not None and maker != asked.keep_maker
        if maker is None or old or other:
            going.append((entry.path, size))
        else:
            staying.append((written, size, entry.path))
    left = sum(size for _, size, _ in staying)
    for _, size, path in sorted(staying):
        if asked.bytes is None or left <= asked.bytes:
            break
        going.append((path, size))
        left -= size
    try:
        for path, _ in going:
            Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"may not be changed: {error.strerror or error}", str(store.folder)) from None
    return len(going), sum(size for _, size in going)


@dataclass
class Verified:
    """What making some results again showed."""

    same: int = 0
    loads: int = 0
    damaged: int = 0
    of_others: int = 0
    """Made by another program or kernel."""
    not_again: int = 0
    """Which the machine disturbed, or whose recorded bodies are elsewhere."""
    disputed: list[tuple[str, Path, Path]] = field(default_factory=list)
    """Jobs with what was kept and what came out now, in files."""


def verify(
    store: ResultsStore,
    engine: Engine,
    maker: Maker,
    share: float,
    watch: Callable[[int], None] = lambda _: None,
    chance: random.Random | None = None,
) -> Verified:
    """Makes a share of the results again, one at least, and holds them against what is kept.

    What differs is taken out of use, with both kept. Raises InputError and MachineError.
    """
    drawn = chance or random.SystemRandom()
    paths = [entry.path for entry, *_ in _files(store) if not entry.name.startswith(TEMPORARY)]
    paths = drawn.sample(paths, min(len(paths), max(1, round(share * len(paths)))))
    found = Verified()
    for first in range(0, len(paths), AT_ONCE):
        kept: dict[str, tuple[Result, Job]] = {}
        for path in paths[first : first + AT_ONCE]:
            result = _read(path, found)
            if result is None:
                continue
            if result.maker != maker.digest:
                found.of_others += 1
            elif result.decided_by[1]:
                found.not_again += 1
            else:
                kept[result.key] = (result, result.job(result.key))
        _again(store, engine, maker, kept, found)
        watch(min(first + AT_ONCE, len(paths)))
    return found


def _read(path: str, found: Verified) -> Result | None:
    try:
        result = read_result(path)
        if result.key == Path(path).name:
            result.job(result.key)
            return result
    except (OSError, DamagedResultError, ValueError):
        pass
    found.damaged += 1
    return None


def _again(
    store: ResultsStore, engine: Engine, maker: Maker, kept: dict[str, tuple[Result, Job]], found: Verified
) -> None:
    made: dict[str, list[Event]] = {key: [] for key in kept}
    if not kept:
        return
    for event in engine.run([job for _, job in kept.values()], {}):
        if isinstance(event, WorldBuilt | LoadDone):
            made[event.record.job].append(event)
        elif isinstance(event, JobEnded) and event.fault is not None:
            made[event.job] = []
    for key, (result, job) in kept.items():
        again = result_of(job, maker, result.decided_by, made[key])
        if again is None:
            found.not_again += 1
        elif again == result:
            found.same += 1
            found.loads += len(job.loads)
        else:
            found.disputed.append((key, *store.dispute(result, again)))


def now() -> float:
    """Seconds, as files have them."""
    return time.time()
