"""Store the results of jobs, so that a job with the same inputs need not run again.

In virtual time, a job always produces the same bytes. Its result is stored in a file that is named by a
digest of the inputs. Processes and machines may share a store, because files are written atomically
(docs/decisions/results-store.md). `StoredEngine` runs only the jobs without a stored result."""

import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Self

import zstandard

from fastopen.common import json_memory
from fastopen.common.errors import InputError, MachineError, os_errors_as, unwritable
from fastopen.contract import CONTRACT, Job
from fastopen.contract.client_kinds import LOADER
from fastopen.contract.records import RecordError
from fastopen.engines.base import (
    ATTEMPTS_BY_KIND,
    Bodies,
    Engine,
    Event,
    JobEnded,
    JobStarted,
    Reported,
    bodies_digests,
    loads_in,
)
from fastopen.engines.result_files import (
    FOLDER_NAME_CHARS,
    TEMPORARY,
    DamagedResultError,
    ResultFiles,
    files_at,
)

FORMAT: Final = "fastopen-result/1"
MARK: Final = "fastopen-store"
DISPUTED: Final = "disputed"
STALE_S: Final = 86_400
LEVEL: Final = 3
# The maximum size of an unpacked result. The record of a load of 2,000 resources has 1 MB.
MAX_BYTES: Final = 64 * 2**20
# The maximum number of records of a job: one of the world, and one of each load.
MAX_RECORDS: Final = 10_001
HEAD_BYTES: Final = 256
# The number of texts in `Result.inputs`.
INPUT_COUNT: Final = 3


@dataclass(frozen=True)
class Maker:
    """The program and kernel that ran a job. With the job and recorded bodies, they determine the result."""

    program: str
    """The SHA-256 of the world program."""
    kernel: str
    """The SHA-256 of the kernel."""
    arguments: tuple[str, ...]
    """The arguments that the kernel needs on its command line."""

    @property
    def digest(self) -> str:
        """Return a short hexadecimal digest that identifies the program and kernel."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]

    def text(self) -> str:
        return json.dumps([CONTRACT, self.program, self.kernel, self.arguments])


@dataclass(frozen=True)
class Result:
    """A job's stored result. `records` are JSON records of its network and loads, without the job's id."""

    maker: str
    """The digest of the Maker: the program, kernel and arguments that made the result."""
    inputs: tuple[str, ...]
    """The job's inputs: `Maker.text()`, the digest of recorded bodies, and the job as JSON without its id."""
    records: tuple[str, ...]

    @property
    def key(self) -> str:
        return key_of(self.inputs)

    def job(self, name: str) -> Job:
        """Rebuild the job, with `name` as its id. Raises ValueError if the stored text is not a valid job."""
        try:
            described = {**json.loads(self.inputs[-1]), "id": name}
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no job: {error}") from None
        return Job.model_validate_json(json.dumps(described))

    @property
    def size(self) -> int:
        """Return the number of characters of the result before compression."""
        return sum(len(line) + 1 for line in (*self.inputs, *self.records))

    def packed(self) -> bytes:
        lines = [*self.inputs, *self.records]
        body = zstandard.ZstdCompressor(level=LEVEL).compress("\n".join(lines).encode())
        digest = hashlib.sha256(body).hexdigest()
        head = f"{FORMAT} {digest} {self.maker} {len(self.inputs)} {len(self.records)}\n"
        return head.encode() + body

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """Parse the content of a result's file. Raises DamagedResultError if the content is damaged."""
        maker, digest, input_count, records = read_head(data)
        body = data[data.index(b"\n") + 1 :]
        if hashlib.sha256(body).hexdigest() != digest:
            raise DamagedResultError("was cut short or changed")
        try:
            if not 0 <= zstandard.frame_content_size(body) <= MAX_BYTES or records > MAX_RECORDS:
                raise DamagedResultError("is larger than the result of any job")
            text = zstandard.ZstdDecompressor().decompress(body)
            if input_count != INPUT_COUNT or text.count(b"\n") + 1 != input_count + records:
                raise DamagedResultError("has other numbers of lines than its head")
            lines = text.decode().split("\n")
        except (zstandard.ZstdError, UnicodeDecodeError) as error:
            raise DamagedResultError(str(error)) from None
        if any(json_memory.is_too_much(line) for line in lines):
            raise DamagedResultError("needs more memory than the result of any job")
        return cls(maker, tuple(lines[:input_count]), tuple(lines[input_count:]))


def read_result(files: ResultFiles, name: str) -> Result:
    """Read a result from a file. Raises DamagedResultError, or OSError if the file cannot be read."""
    return Result.unpacked(files.read(name, MAX_BYTES))


def read_head(data: bytes) -> tuple[str, str, int, int]:
    """Parse the first line of a result's file. Return (`Result.maker`, digest of the rest of the file,
    number of inputs, number of records). Raises DamagedResultError if the line is invalid."""
    head, end, _ = data[:HEAD_BYTES].partition(b"\n")
    form, *rest = head.decode(errors="replace").split(" ")
    if not end or form != FORMAT or len(rest) != 4 or not all(map(str.isdecimal, rest[2:])):
        raise DamagedResultError(f"does not begin with {FORMAT}")
    if not rest[1].isalnum():  # commands print the maker, so refuse control characters
        raise DamagedResultError("has an invalid head")
    return rest[1], rest[0], int(rest[2]), int(rest[3])


def key_of(inputs: Sequence[str]) -> str:
    """Return the key of a result: the SHA-256 of the inputs that determine it, in hexadecimal."""
    return hashlib.sha256("\n".join(inputs).encode()).hexdigest()


def inputs_of(job: Job, maker: Maker, bodies: str) -> tuple[str, ...]:
    """Return the inputs that determine a job's result, as strings: the program and kernel (`maker`), the
    digest of the recorded responses (`bodies`), and the job without its id."""
    return (maker.text(), bodies, job.model_dump_json(exclude={"id"}))


class ResultsStore:
    """A store of results of jobs, in a folder or at a URL. Failed reads and writes raise no errors."""

    def __init__(self, place: str | os.PathLike[str]) -> None:
        """Open the store at `place`, or create one if the folder or URL is empty or new. Raises InputError
        if it has other files or another version's store. Raises InputError or MachineError, depending on the
        cause, if it cannot be reached or written."""
        self.files = files_at(place)
        self.place = self.files.place
        self.found = self.written = 0
        """The numbers of loads that were found in the store, and that were written to it."""
        self.seconds = 0.0
        """The seconds spent on reading and writing."""
        self.complaint = ""
        """The message of the first failure to read or write; empty if there was none."""
        with os_errors_as(unwritable, self.place):
            try:
                mark = self.files.read(MARK, HEAD_BYTES).strip()
            except FileNotFoundError:
                mark = b""
                if any(not name.startswith((MARK, TEMPORARY)) for name in self.files.names()):
                    raise InputError("is not empty and not a store", self.place, "use a new folder") from None
                self.files.write(MARK, f"{FORMAT}\n".encode())
            except DamagedResultError:
                mark = b"?"
        if mark not in (b"", FORMAT.encode()):
            remedy = "use that version, or a new folder"
            raise InputError("was written by another version of fastopen", self.place, remedy)

    @staticmethod
    def name(key: str) -> str:
        """Return the name of the file for the result with this key."""
        return f"{key[:FOLDER_NAME_CHARS]}/{key}"

    def get(self, key: str) -> Result | None:
        """Return the result stored under `key`; None if it is missing, damaged or unreadable."""
        found = None
        with self._using("read"), suppress(FileNotFoundError, DamagedResultError):
            found = read_result(self.files, self.name(key))
        return found if found is not None and found.key == key else None

    def put(self, result: Result) -> None:
        """Store a result, unless it is too large, or results of the same job have differed before. If the
        stored result of the job differs, move both results to the folder DISPUTED, and raise MachineError."""
        if result.size > MAX_BYTES:
            return
        with self._using("written"):
            name, data = self.name(result.key), result.packed()
            if self.files.exists(f"{DISPUTED}/{result.key}.kept"):
                return
            stored = None
            if not self.files.write(name, data):
                try:
                    stored = read_result(self.files, name)
                except DamagedResultError:
                    self.files.write(name, data, replace=True)
            if stored is None:
                self.written += len(result.records) - 1
            elif stored != result:
                kept, again = self.dispute(stored, result)
                message = f"the same job gave two different results: {kept} and {again}"
                remedy = "neither is used any more; check others with fastopen store verify"
                raise MachineError(message, remedy)

    def dispute(self, stored: Result, new: Result) -> tuple[str, str]:
        """Move the stored result of a job to the folder DISPUTED, and write a new, different result of this
        job there, so that neither is used. Return the paths or URLs of both files. May raise OSError."""
        names = f"{DISPUTED}/{stored.key}.kept", f"{DISPUTED}/{stored.key}.again"
        for name, result in zip(names, (stored, new), strict=True):
            self.files.write(name, result.packed(), replace=True)
        self.files.remove(self.name(stored.key))
        return f"{self.place}/{names[0]}", f"{self.place}/{names[1]}"

    @contextmanager
    def _using(self, what: str) -> Iterator[None]:
        """Add the time of the `with` block, which reads or writes files, to `seconds`. If the block raises
        OSError, set `complaint` instead of raising it. `what` is `read` or `written`, for the message."""
        started = time.perf_counter()
        try:
            yield
        except OSError as error:
            self.complaint = self.complaint or f"{self.place}: cannot be {what}: {error.strerror or error}"
        finally:
            self.seconds += time.perf_counter() - started


def without_job_id(raw: str, kind: str, job: str) -> str:
    """Return the JSON text of a record without the job's id, so that equal results have equal texts. `kind`
    is the record's type. `with_job_id` is the inverse. Raises ValueError if `raw` lacks the type or id."""
    before = _beginning(kind, job)
    if not raw.startswith(before):
        raise ValueError(raw[:80])
    return kind + raw[len(before) :]


def with_job_id(record: str, job: str) -> str:
    """Return the JSON text of a record from which `without_job_id` removed the id, with the id `job`."""
    kind, comma, rest = record.partition(",")
    return _beginning(kind, job) + comma + rest


def _beginning(kind: str, job: str) -> str:
    return f'{{"type":"{kind}","job":{json.dumps(job, ensure_ascii=False)}'


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
        try:
            events = [Reported.parsed(with_job_id(text, job.id)) for text in result.records]
        except RecordError:
            return None
        loads = [(record.job, record.id) for record in loads_in(events)]
        if loads != [(job.id, load.id) for load in job.loads]:
            return None
        self.store.found += len(loads)
        return [JobStarted(job.id, 1), *events, JobEnded(job.id, None)]

    def _kept(
        self, made: Iterable[Event], jobs: dict[str, Job], inputs_by_job: dict[str, tuple[str, ...]]
    ) -> Iterator[Event]:
        """Yield the events in `made`, which come from the engine that runs the jobs. Hold back the records of
        each job in `inputs_by_job` (job id to `Result.inputs`) until its result is stored."""
        held: defaultdict[str, list[Event]] = defaultdict(list)
        for event in made:
            job = event.record.job if isinstance(event, Reported) else event.job
            if isinstance(event, JobStarted) and event.attempt > 1:
                inputs_by_job.pop(job, None)
            if job in inputs_by_job:
                if isinstance(event, Reported):
                    held[job].append(event)
                    continue
                if isinstance(event, JobEnded) and event.fault is None:
                    result = result_of(jobs[job], self.maker, inputs_by_job[job], held[job])
                    if result is not None:
                        self.store.put(result)
            yield from held.pop(job, ())
            yield event


def result_of(job: Job, maker: Maker, inputs: tuple[str, ...], events: Iterable[Event]) -> Result | None:
    """Return the result to store for a job that gave these `events`. `inputs` is `Result.inputs`, and `maker`
    the program and kernel that ran the job. Return None if a page load is missing or must be repeated."""
    reported = [event for event in events if isinstance(event, Reported)]
    loads = list(loads_in(reported))
    if any(reason.kind in ATTEMPTS_BY_KIND for load in loads for reason in load.invalid):
        return None
    if len(reported) != 1 + len(loads) or [load.id for load in loads] != [load.id for load in job.loads]:
        return None
    try:
        records = tuple(without_job_id(event.raw, event.record.type, job.id) for event in reported)
    except ValueError:
        return None
    return Result(maker.digest, inputs, records)
