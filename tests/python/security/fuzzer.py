"""Test every reader with randomly broken inputs: it must accept them, or refuse them with one line of error.

A reader's memory and time are limited. `python -m fastopen.pages.fuzz --seconds 600` (used by `make fuzz`)
tries new inputs. It writes an input that reveals a fault to the working directory. Move it to tests/corpus
when the fault is fixed: every later run begins with the inputs there.
"""

from __future__ import annotations

import argparse
import copy
import gc
import gzip
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pydantic import ValidationError

from fastopen.analysis.audit.table import read_table
from fastopen.analysis.statistics import collect
from fastopen.common.errors import InputError
from fastopen.common.resources import packaged_folder
from fastopen.contract import Job, parse_record
from fastopen.contract.records import ContractVersionError, RecordError
from fastopen.experiments import load_experiment
from fastopen.experiments.trace import read_trace
from fastopen.pages import load_pages, packaged_pages, page_json
from fastopen.pages.model import parse_page
from fastopen.report import results_document
from fastopen.runs import RunStore, stored_plan
from fastopen.runs.export import export
from made_up_run import made_up_page, made_up_plan, made_up_run
from pages.importers.test_mahimahi import recording
from pages.importers.test_mirror import mirror
from pages.importers.test_warc import archive
from pages.sites import site
from places import GOLDEN, ROOT

MAX_S: Final = 10
# Far longer than a process waits for a processor on a busy machine.
MAX_WAIT_S: Final = 600
MAX_KIB: Final = 512 * 1024
# In memory, because removing a folder from a disk takes longer than reading most inputs.
MEMORY: Final = Path("/dev/shm")
CORPUS: Final = ROOT / "tests" / "corpus"
# Pieces of text that occur in the formats, or that are known to cause faults.
_TOKENS: Final = [
    b"", b"\x00", b"\xff", b"\r\n", b"\r\n\r\n", b" ", b'"', b"'", b"{", b"}", b"[", b"]", b"<", b"=",
    b",", b":", b"-1", b"0", b"1e999", b"NaN", b"99999999999999999999", b"9" * 5000, b"\xe2\x80\xa8",
    b"\xed\xa0\x80", b"../", b"http://", b"file:///etc/passwd", b"WARC/1.0", b"Content-Length: ",
    b"Transfer-Encoding: chunked", b"HTTP/1.1 ", b"\x1f\x8b\x08", b"PK\x03\x04", b"true", b"null", b"inf",
    b"[" * 5000, b"a" * 70_000,
]  # fmt: skip

_ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 304, 2**31, 2**63, 10**400, -(10**30), 0.1, -0.0, 1e308, float("nan"),
    float("inf"), "", " ", "-1", "0", "1e9", "\x00", "\ud800", "ü" * 50, "x" * 70_000, [], {}, [[]], {"": {}},
    "http://a.test/", "HTTPS://A.TEST:0/%zz#?", "http://[::1", "data:,x", "//b.test", "javascript:void(0)",
    "2024-05-01T10:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.9999999-12:00", "script",
)  # fmt: skip
_SMALL: Final = {
    "log": {
        "pages": [{"id": "p", "startedDateTime": "2024-05-01T10:00:00Z", "pageTimings": {"onLoad": 500}}],
        "entries": [
            {
                "pageref": "p",
                "startedDateTime": f"2024-05-01T10:00:00.{index:03}Z",
                "time": 80,
                "request": {"method": "GET", "url": f"http://h{index % 3}.test/{index}", "headers": [
                    {"name": "Referer", "value": "http://h0.test/0"}]},
                "response": {"status": 301 if index == 0 else 200, "redirectURL": "http://h1.test/1",
                             "headers": [{"name": "content-type", "value": "text/html"}],
                             "content": {"size": 9, "text": "some text", "mimeType": "text/css"},
                             "bodySize": 9, "headersSize": -1},
                "timings": {"connect": 20, "wait": 40, "receive": index, "_queued": 1},
                "_initiator": {"type": "script", "stack": {"callFrames": [{"url": "http://h0.test/3"}],
                                                           "parent": {"callFrames": []}}},
                "_resourceType": ("document", "script", "image", "font", "xhr")[index % 5],
            }
            for index in range(8)
        ],
    }
}  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A reader to test: its function, and samples of its input (files, or folders packed as ZIP)."""

    name: str
    samples: Callable[[Path], list[bytes]]
    read: Callable[[Path], object]
    is_json: bool = False
    is_folder: bool = False


def _pages(file: Path) -> object:
    """Read a file leniently and strictly. A second lenient reading must give the same pages, and each page
    must stay the same when it is written and read again."""
    found = []
    for lenient in (False, True):
        try:
            found = load_pages([file], lenient=lenient, max_unpacked=64 * 2**20)
        except InputError as error:
            _one_line(error, file)
    if found:
        assert found == load_pages([file], lenient=True, max_unpacked=64 * 2**20), "two readings differ"
    for imported in found:
        written = page_json(imported.page)
        assert parse_page(json.loads(written), "written") == imported.page
    return found


def _one_line(error: InputError, file: Path) -> None:
    message = str(error)
    assert all(line.isprintable() for line in message.split("\n")), message
    assert str(file) in message, message


def _run(folder: Path) -> object:
    """Read a run as `show`, `export` and `resume` do."""
    with RunStore.open(folder) as run:
        document = results_document(collect(run))
        json.dumps(document, allow_nan=False)
        for form in ("csv", "parquet", "har"):
            export(run, folder / form, form)
        list(run.load_records(run.loads()))
        stored_plan(run)
        return run.pending()


def _made_up_run(folder: Path) -> list[bytes]:
    plan = made_up_plan([made_up_page("made-up", 3)], (20,), repeats=2)
    return [_packed(made_up_run(folder / "run", plan))]


def _packed(folder: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as whole:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            whole.writestr(str(file.relative_to(folder)), file.read_bytes())
    return out.getvalue()


def _unpack(data: bytes, folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        for name in whole.namelist():
            place = folder / name
            if ".." not in Path(name).parts and not Path(name).is_absolute() and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(whole.read(name))


def _har(_: Path) -> list[bytes]:
    smaller: Any = copy.deepcopy(_SMALL)
    del smaller["log"]["entries"][2:]
    return [json.dumps(seed).encode() for seed in (_SMALL, *[smaller] * 3)]


def _warc(_: Path) -> list[bytes]:
    return [
        archive(site(), packed=packed, chunked=chunked)
        for packed in (False, True)
        for chunked in (False, True)
    ]


def _wacz(_: Path) -> list[bytes]:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as whole:
        whole.writestr("archive/data.warc.gz", archive(site()))
        whole.writestr("pages/pages.jsonl", '{"format": "x"}\n{"url": "http://a.test/"}\n')
    return [out.getvalue()]


def _mahimahi(folder: Path) -> list[bytes]:
    return [_packed(recording(folder))]


def _mirror(folder: Path) -> list[bytes]:
    return [_packed(mirror(folder))]


def _page(_: Path) -> list[bytes]:
    small, large = (packaged_pages()[name].read_bytes() for name in ("example", "wikipedia-tcp"))
    return [*[small] * 3, large]


def _experiments(_: Path) -> list[bytes]:
    folder = packaged_folder("experiments")
    return [] if folder is None else [file.read_bytes() for file in sorted(folder.glob("*.toml"))]


def _published(_: Path) -> list[bytes]:
    folder = packaged_folder("experiments")
    return [] if folder is None else [b"".join((folder / "published.csv").read_bytes().splitlines(True)[:6])]


def _golden(*names: str) -> Callable[[Path], list[bytes]]:
    return lambda _: [(GOLDEN / name).read_bytes() for name in names]


TARGETS: Final = [
    Target("har", _har, _pages, is_json=True),
    Target("warc", _warc, _pages),
    Target("wacz", _wacz, _pages),
    Target("mahimahi", _mahimahi, _pages, is_folder=True),
    Target("mirror", _mirror, _pages, is_folder=True),
    Target("page", _page, _pages, is_json=True),
    Target("list", lambda _: [b"# a list\nexample\n"], _pages),
    Target("job", _golden("job.json", "job-minimal.json"),
           lambda file: Job.model_validate_json(file.read_bytes()), is_json=True),
    Target("records", _golden("world.json", "load.json", "end.json", "error.json"),
           lambda file: parse_record(file.read_bytes()), is_json=True),
    Target("toml", _experiments, lambda file: load_experiment(str(file))),
    Target("run", _made_up_run, _run, is_folder=True),
    Target("published", _published, read_table),
    Target("trace", lambda _: [b"1\n2\n2\n40\n"], lambda file: read_trace(file)),
]  # fmt: skip


def broken(target: Target, sample: bytes, rng: random.Random) -> bytes:
    """Return a sample with some random changes."""
    if target.is_folder or (sample.startswith(b"PK\x03\x04") and rng.random() < 0.8):
        return _broken_member(sample, rng)
    if target.is_json and rng.random() < 0.7:
        return json.dumps(mutated(json.loads(sample), rng, rng.choice((1, 1, 2, 5, 20)))).encode()
    if sample.startswith(b"\x1f\x8b") and rng.random() < 0.8:
        return gzip.compress(_broken_bytes(gzip.decompress(sample), rng), 1)
    return _broken_bytes(sample, rng)


def _broken_member(sample: bytes, rng: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sample)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            data = old.read(name)
            if name == chosen:
                if name.endswith(".sqlite") and rng.random() < 0.8:
                    data = _broken_database(data, rng)
                elif data.startswith(b"\x1f\x8b") and rng.random() < 0.8:
                    data = gzip.compress(_broken_bytes(gzip.decompress(data), rng), 1)
                else:
                    data = _broken_bytes(data, rng)
            new.writestr(name, data)
    return out.getvalue()


def _broken_bytes(sample: bytes, rng: random.Random) -> bytes:
    data = bytearray(sample)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((0, 1, 1, 4, 64, 4096)))
        kind = rng.randrange(5)
        if kind == 0:
            data[at:end] = rng.choice(_TOKENS)
        elif kind == 1:
            del data[at:end]
        elif kind == 2:
            data[at:at] = data[at:end]
        elif kind == 3:
            other = rng.randrange(len(data) + 1)
            data[at:end] = data[other : other + end - at]
        else:
            data[at:end] = rng.randbytes(end - at)
    return bytes(data)


def _broken_database(sample: bytes, rng: random.Random) -> bytes:
    """Replace values of some rows. JSON values, compressed or not, are decoded, changed and encoded again.

    Values may become NULL or change their type, as in a damaged file: SQLite checks types only on writing."""
    database = open_bytes(sample)
    schema, untyped = schemas(database)
    database = open_bytes(with_schema(database, untyped))
    for _ in range(rng.choice((1, 1, 2, 4))):
        _, table = rng.choice(schema)
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        rows = [row for (row,) in database.execute(f"SELECT rowid FROM {table}")]
        if not rows:
            continue
        column, row = rng.choice(columns), rng.choice(rows)
        ((value,),) = database.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,))
        new = rng.choice((None, -1, 0.5, "a", b"a")) if rng.random() < 0.2 else _broken_value(value, rng)
        try:
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, row))
        except (sqlite3.Error, OverflowError):
            continue
    return with_schema(database, schema)


def schemas(database: sqlite3.Connection) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the pairs (SQL, name) of a run's tables, as they are and without types of columns."""
    schema = list(database.execute("SELECT sql, name FROM sqlite_schema WHERE sql IS NOT NULL"))
    types = re.compile(r" INTEGER(?! PRIMARY)| TEXT| BLOB| NOT NULL| STRICT")
    return schema, [(types.sub("", sql), name) for sql, name in schema]


def open_bytes(data: bytes) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.deserialize(data)
    return database


def with_schema(database: sqlite3.Connection, schema: Iterable[tuple[str, str]]) -> bytes:
    """Close the database. Return its content, with `schema` as the pairs (SQL, name) of its tables."""
    with closing(database):
        database.execute("PRAGMA writable_schema = ON")
        database.executemany("UPDATE sqlite_schema SET sql = ? WHERE name = ?", schema)
        database.commit()
        return bytes(database.serialize())


def _broken_value(value: object, rng: random.Random) -> object:
    if isinstance(value, int):
        return rng.choice((-1, 0, 1, 2, 99, 2**31, 2**62, -(2**63), value + 1, rng.getrandbits(40)))
    data = value if isinstance(value, bytes) else str(value).encode()
    packed = data[:1] == b"\x78"
    try:
        text = zlib.decompress(data) if packed else data
        changed = json.dumps(mutated(json.loads(text), rng, rng.choice((1, 1, 2, 5)))).encode()
    except (ValueError, zlib.error):
        return _broken_bytes(data, rng).decode("latin-1")
    if packed:
        return zlib.compress(changed, 1)
    return changed.decode() if isinstance(value, str) else changed


def mutated(value: Any, rng: random.Random, changes: int) -> Any:
    """Return a copy of `value` with `changes` places replaced, removed, doubled or swapped."""
    root: list[Any] = [json.loads(json.dumps(value))]
    for _ in range(changes):
        holder, key = _place(root, rng)
        kind = rng.randrange(4)
        if kind == 0 and (isinstance(holder, dict) or len(holder) > 1):
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif kind == 2:
            other, where = _place(root, rng)
            copied = json.dumps(other[where])
            if len(copied) < 100_000:
                holder[key] = json.loads(copied)
        else:
            holder[key] = copy.deepcopy(rng.choice(_ODD))
    return root[0]


def _place(root: list[Any], rng: random.Random) -> tuple[Any, Any]:
    """Return (holder, key) of a random member, at any depth, of the objects and lists in `root`."""
    holder: Any = root
    key: Any = 0
    while isinstance(holder[key], (dict, list)) and holder[key] and rng.random() < 0.85:
        holder = holder[key]
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    return holder, key


class Finding(AssertionError):  # noqa: N818  # it is no error of the fuzzer
    """A fault of a reader: an unexpected exception, or too much time or memory."""


@contextmanager
def _limited() -> Iterator[None]:
    """Raise Finding in the block after MAX_S of processor time, or after MAX_WAIT_S of wall time."""

    def late(_: int, __: FrameType | None) -> None:
        raise Finding(f"it took more than {MAX_S} s of processor, or {MAX_WAIT_S} s")

    before = {number: signal.signal(number, late) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_PROF, MAX_S)
    signal.setitimer(signal.ITIMER_REAL, MAX_WAIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


class Memory:
    """Checks that the process has never grown by more than MAX_KIB."""

    def __init__(self) -> None:
        # Reset the peak (proc_pid_clear_refs(5)), which may be of another test in this process.
        Path("/proc/self/clear_refs").write_text("5")
        self._before = _memory_kib("VmRSS")

    def check(self) -> None:
        # getrusage(2) is fast, but its peak may be of the program before exec, so it is only a first check.
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._before > MAX_KIB:
            used = _memory_kib("VmHWM") - self._before
            if used > MAX_KIB:
                raise Finding(f"it took {used // 1024} MiB of memory")


def _memory_kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def tried(target: Target, data: bytes, file: Path, memory: Memory) -> bool:
    """Return True if the reader accepted the input, False if it refused it. Raises Finding otherwise."""
    if target.is_folder:
        shutil.rmtree(file, ignore_errors=True)
        file.mkdir()
        _unpack(data, file)
    else:
        file.write_bytes(data)
    try:
        with _limited():
            target.read(file)
        memory.check()
    except InputError as error:
        _one_line(error, file)
        return False
    except (ValidationError, RecordError, ContractVersionError):
        # Errors for data that only programs write; callers of these readers name the place.
        return False
    except Exception as error:
        raise Finding(f"{type(error).__name__}: {error}") from error
    return True


def fuzz(target: Target, seed: int, seconds: float, inputs: int, place: Path) -> tuple[int, int]:
    """Read broken samples until time or inputs are used up. Return the numbers of read and accepted inputs.

    If the reader fails, writes the input to the working directory and raises Finding.
    """
    rng = random.Random(f"{seed} {target.name}")
    work = place / "samples"
    work.mkdir(parents=True)
    samples = target.samples(work)
    memory = Memory()
    done = taken = 0
    until = time.monotonic() + seconds
    kept = CORPUS / target.name
    pending = [file.read_bytes() for file in sorted(kept.iterdir())] if kept.is_dir() else []
    while done < inputs and time.monotonic() < until:
        data = pending.pop() if pending else broken(target, rng.choice(samples), rng)
        try:
            taken += tried(target, data, place / "input", memory)
        except BaseException as error:
            file = Path(f"fuzz-{target.name}-{seed}-{done}")
            file.write_bytes(data)
            print(f"{target.name}: input {done} of seed {seed}, kept as {file}: {error!r}", file=sys.stderr)
            raise
        done += 1
    return done, taken


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m security.fuzzer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--inputs", type=int, default=sys.maxsize, help="of each target, at most")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    names = [target.name for target in TARGETS]
    parser.add_argument("targets", nargs="*", choices=[[], *names], metavar="TARGET", help=", ".join(names))
    asked = parser.parse_args()
    chosen = [target for target in TARGETS if not asked.targets or target.name in asked.targets]
    # Test each reader in a new process, so that its memory can be measured.
    ended = [_alone(target, asked.seed, asked.seconds / len(chosen), asked.inputs) for target in chosen]
    sys.exit(1 if any(ended) else 0)


def _alone(target: Target, seed: int, seconds: float, inputs: int) -> int:
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 1
    try:
        gc.freeze()
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
            done, taken = fuzz(target, seed, seconds, inputs, Path(name))
        print(
            f"{target.name}: {done} inputs of seed {seed}: {taken} taken, {done - taken} refused", flush=True
        )
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
