"""A store of results by what decides them: what a job gave once is read, not made again.

In virtual time the same job gives the same bytes, so its results are found under a digest of all that decides
them. A folder holds a file for each job, which is there whole or is not taken; any number of processes and
machines may read and write at once. docs/decisions/results-store.md says why it is so.
"""

import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import zstandard

from fastopen.contract import CONTRACT, Job
from fastopen.errors import InputError, MachineError, unwritable

FORMAT: Final = "fastopen-result/1"
MARK: Final = "fastopen-store"
DISPUTED: Final = "disputed"
TEMPORARY: Final = ".new-"
STALE_S: Final = 86_400
LEVEL: Final = 3
# A page of 2,000 resources has records of 1 MB.
MAX_BYTES: Final = 256 * 2**20
HEAD_BYTES: Final = 256
# Lines of a key: the maker, the digest of recorded bodies, the job.
DECIDED_BY: Final = 3


class DamagedResultError(Exception):
    """A file that is no result, or not whole; the text says what is wrong."""


@dataclass(frozen=True)
class Maker:
    """What decides, besides the job, which bytes come out."""

    program: str
    """SHA-256 of the world program."""
    kernel: str
    """SHA-256 of the kernel."""
    arguments: tuple[str, ...]
    """What the kernel needs on its command line."""

    @property
    def digest(self) -> str:
        """Short, to tell makers apart."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]

    def text(self) -> str:
        """As JSON."""
        return json.dumps([CONTRACT, self.program, self.kernel, self.arguments])


@dataclass(frozen=True)
class Result:
    """What a job gave: the world's record and its loads', each without what stands before the job's name."""

    maker: str
    """Maker.digest"""
    decided_by: tuple[str, ...]
    """What the key is the digest of: the maker, the digest of recorded bodies, the job without its name."""
    records: tuple[str, ...]

    @property
    def key(self) -> str:
        """SHA-256 of all that decides the records."""
        return key_of(self.decided_by)

    def job(self, name: str) -> Job:
        """The job, under a name. Raises ValueError."""
        try:
            described = {**json.loads(self.decided_by[-1]), "id": name}
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no job: {error}") from None
        return Job.model_validate_json(json.dumps(described))

    def packed(self) -> bytes:
        """As a file holds it."""
        lines = [*self.decided_by, *self.records]
        body = zstandard.ZstdCompressor(level=LEVEL).compress("\n".join(lines).encode())
        digest = hashlib.sha256(body).hexdigest()
        head = f"{FORMAT} {digest} {self.maker} {len(self.decided_by)} {len(self.records)}\n"
        return head.encode() + body

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """Raises DamagedResultError."""
        maker, digest, decided, records = read_head(data)
        body = data[data.index(b"\n") + 1 :]
        if hashlib.sha256(body).hexdigest() != digest:
            raise DamagedResultError("cut short or changed")
        try:
            if not 0 <= zstandard.frame_content_size(body) <= MAX_BYTES:
                raise DamagedResultError("unpacks to more than any job has")
            lines = zstandard.ZstdDecompressor().decompress(body).decode().split("\n")
        except (zstandard.ZstdError, UnicodeDecodeError) as error:
            raise DamagedResultError(str(error)) from None
        if decided != DECIDED_BY or len(lines) != decided + records:
            raise DamagedResultError("has other records than it says")
        return cls(maker, tuple(lines[:decided]), tuple(lines[decided:]))


def read_result(path: str | Path) -> Result:
    """The result in a file. Raises DamagedResultError, and OSError where it cannot be read."""
    return Result.unpacked(_contents(path, MAX_BYTES))


def head_of(path: str | Path) -> str | None:
    """The maker of a result, by its first bytes; None where it is damaged. Raises OSError."""
    try:
        return read_head(_contents(path, HEAD_BYTES))[0]
    except DamagedResultError:
        return None


def _contents(path: str | Path, limit: int) -> bytes:
    """A file's first bytes. Raises DamagedResultError of a pipe or a device, which may never end; OSError."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise DamagedResultError("no file")
        return file.read(limit)


def read_head(data: bytes) -> tuple[str, str, int, int]:
    """Maker, digest of the body, and how many lines of it are of the key and of records."""
    head, end, _ = data[:HEAD_BYTES].partition(b"\n")
    form, *rest = head.decode(errors="replace").split(" ")
    if not end or form != FORMAT or len(rest) != 4 or not all(map(str.isdecimal, rest[2:])):
        raise DamagedResultError(f"does not begin with {FORMAT}")
    return rest[1], rest[0], int(rest[2]), int(rest[3])


def key_of(decided_by: Sequence[str]) -> str:
    """SHA-256 of lines."""
    return hashlib.sha256("\n".join(decided_by).encode()).hexdigest()


def decided_by(job: Job, maker: Maker, bodies: str) -> tuple[str, ...]:
    """All that decides what a job gives. `bodies` is the digest of recorded ones, or empty."""
    return (maker.text(), bodies, job.model_dump_json(exclude={"id"}))


class ResultsStore:
    """A folder of results. What goes wrong with it costs the store alone: nothing raises but disagreement."""

    def __init__(self, folder: Path) -> None:
        """A new one where the folder is empty or not there. Raises InputError, MachineError."""
        self.folder = folder
        self.found = self.written = 0
        """Loads."""
        self.seconds = 0.0
        """What reading and writing took."""
        self.complaint = ""
        """What went wrong first."""
        try:
            if not (folder / MARK).exists():
                folder.mkdir(parents=True, exist_ok=True)
                if any(not path.name.startswith(MARK) for path in folder.iterdir()):
                    raise InputError("not empty, and no store of results", str(folder), "name a new folder")
                (folder / MARK).write_text(f"{FORMAT}\n", encoding="ascii")
            elif not _is_ours(folder / MARK):
                raise InputError("a store of another fastopen", str(folder), "name a new folder")
        except OSError as error:
            raise unwritable(folder, error) from None

    def path(self, key: str) -> Path:
        """Where the result of a key is, or would be."""
        return self.folder / key[:2] / key

    def get(self, key: str) -> Result | None:
        """The result, where there is one that is whole."""
        started = time.perf_counter()
        try:
            result = read_result(self.path(key))
            return result if result.key == key else None
        except (FileNotFoundError, DamagedResultError):
            return None
        except OSError as error:
            self._complain("read", error)
            return None
        finally:
            self.seconds += time.perf_counter() - started

    def put(self, result: Result) -> None:
        """Keeps a result where there is none. Raises MachineError where another is there; both are kept."""
        started = time.perf_counter()
        path, data = self.path(result.key), result.packed()
        try:
            if (self.folder / DISPUTED / f"{result.key}.kept").exists():
                return
            path.parent.mkdir(exist_ok=True)
            if _create(path, data):
                self.written += len(result.records) - 1
            else:
                self._hold_against(path, data, result)
        except OSError as error:
            self._complain("written", error)
        finally:
            self.seconds += time.perf_counter() - started

    def _hold_against(self, path: Path, data: bytes, result: Result) -> None:
        """What is there already is the same, or is damaged and replaced; else determinism is broken."""
        try:
            there = read_result(path)
        except DamagedResultError:
            _replace(path, data)
            self.written += len(result.records) - 1
            return
        if there != result:
            kept = self.dispute(there, result)
            message = f"the same job gave other bytes before: {kept[0]} and {kept[1]}"
            raise MachineError(message, "neither is used any more; fastopen store verify tries others")

    def dispute(self, there: Result, again: Result) -> tuple[Path, Path]:
        """Takes a result out of use that came out otherwise, and keeps both. Raises OSError."""
        folder = self.folder / DISPUTED
        folder.mkdir(exist_ok=True)
        kept = folder / f"{there.key}.kept", folder / f"{there.key}.again"
        for path, result in zip(kept, (there, again), strict=True):
            _replace(path, result.packed())
        self.path(there.key).unlink(missing_ok=True)
        return kept

    def _complain(self, what: str, error: OSError) -> None:
        self.complaint = self.complaint or f"{self.folder}: cannot be {what}: {error.strerror or error}"

    def files(self) -> Iterator[os.DirEntry[str]]:
        """Every file of a result, and what interrupted writers left. Links may lead out of the store."""
        for folder in sorted(self.folder.iterdir()):
            if len(folder.name) == 2 and folder.is_dir() and not folder.is_symlink():
                with os.scandir(folder) as entries:
                    yield from entries


def _is_ours(mark: Path) -> bool:
    """Whether a store's mark is of this format; another process may be about to write it."""
    try:
        return _contents(mark, HEAD_BYTES).strip() in (b"", FORMAT.encode())
    except DamagedResultError:
        return False


def _create(path: Path, data: bytes) -> bool:
    """Writes a file that appears whole, unless there is one: then it is false."""
    if path.exists():
        return False
    new = _written(path, data)
    try:
        os.link(new, path)
    except FileExistsError:
        return False
    except PermissionError:  # a file system without links
        os.replace(new, path)
        return True
    finally:
        with suppress(FileNotFoundError):
            new.unlink()
    return True


def _replace(path: Path, data: bytes) -> None:
    os.replace(_written(path, data), path)


def _written(path: Path, data: bytes) -> Path:
    new = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    try:
        new.write_bytes(data)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
    return new


def without_name(raw: str, kind: str, job: str) -> str:
    """A record without its beginning, which names the job. Raises ValueError where it begins otherwise."""
    before = _beginning(kind, job)
    if not raw.startswith(before):
        raise ValueError(raw[:80])
    return kind + raw[len(before) :]


def with_name(record: str, job: str) -> str:
    """The record as a job of that name gives it."""
    kind, comma, rest = record.partition(",")
    return _beginning(kind, job) + comma + rest


def _beginning(kind: str, job: str) -> str:
    return f'{{"type":"{kind}","job":{json.dumps(job, ensure_ascii=False)}'
