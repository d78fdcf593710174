"""Create and open a run's SQLite file. A lock on its folder ensures that only one process writes it.

Columns hold the data that tables and lists of results show. The full records of loads are many times larger.
They are compressed (zlib) in a separate table, so that queries on the columns need not read them.

The cost of reading a run is limited: the time of queries, the size of their rows, and the size of records. A
damaged or malicious file of a few kilobytes can yield endless rows, because its B-trees may share pages. It
can also hold records that decompress to any size. Larger files may cost more, as larger valid runs do."""

import fcntl
import marshal
import os
import re
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from fastopen.common import json_memory
from fastopen.common.closing import Closing, on_error
from fastopen.common.errors import InputError, MachineError, os_errors_as, unreadable, unwritable
from fastopen.runs.rows import PACKETS

FILE: Final = "run.sqlite"
APPLICATION_ID: Final = 0x66_6F_70_6E  # "fopn"
# Increase the version when a program that reads the old version would misread the new one.
VERSION: Final = 2

SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE pages (
    name TEXT PRIMARY KEY, position INTEGER NOT NULL, digest TEXT NOT NULL, page TEXT NOT NULL
) STRICT;
CREATE TABLE cells (
    id INTEGER PRIMARY KEY, page TEXT NOT NULL REFERENCES pages, network INTEGER NOT NULL,
    setup INTEGER NOT NULL, arm TEXT NOT NULL, engine TEXT NOT NULL
) STRICT;
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, page TEXT NOT NULL REFERENCES pages,
    network INTEGER NOT NULL, setup INTEGER NOT NULL, engine TEXT NOT NULL, repeat INTEGER NOT NULL,
    seed INTEGER NOT NULL, loads TEXT NOT NULL
) STRICT;
CREATE TABLE worlds (
    number INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs, rtt_us_asked INTEGER NOT NULL,
    rtt_us_measured INTEGER NOT NULL, record_zlib BLOB NOT NULL
) STRICT;
CREATE TABLE faults (job INTEGER NOT NULL REFERENCES jobs, fault TEXT NOT NULL) STRICT;
CREATE TABLE loads (
    number INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs, id TEXT NOT NULL,
    attempt INTEGER NOT NULL, cell INTEGER NOT NULL REFERENCES cells, repeat INTEGER NOT NULL,
    valid INTEGER NOT NULL, plt_ns INTEGER, requests INTEGER NOT NULL, connections INTEGER NOT NULL,
    syn_data_connections INTEGER NOT NULL, handshakes_ns INTEGER NOT NULL, retransmitted INTEGER NOT NULL,
    started_unix_ms INTEGER NOT NULL, invalid TEXT NOT NULL, UNIQUE (job, id, attempt)
) STRICT;
CREATE TABLE records (load INTEGER PRIMARY KEY REFERENCES loads, record_zlib BLOB NOT NULL) STRICT;
"""
# A query may take STEPS steps of SQLite's virtual machine, and STEPS_A_BYTE more for each byte of the file. A
# query of all loads takes about 100 steps for each load, and a load takes 1000 bytes on the disk.
STEPS: Final = 2_000_000
STEPS_A_BYTE: Final = 20
STEPS_OF_LOOKUP: Final = 50_000
"""The number of steps of SQLite's virtual machine that a query for one load or job may take."""
STEPS_A_CALL: Final = 10_000  # between two calls of SQLite's progress handler
# The rows of a query may be this many times as large as the file, because they repeat names stored once.
ROWS_OF_FILE: Final = 8
SMALL_BYTES: Final = 65_536
MAX_VALUE_BYTES: Final = 64 * 2**20
# The record of a load of 2,000 resources has 1 MB. The largest possible record has 26 MB: 10,000 requests on
# as many connections, with TCP samples (crates/world/src/capture/tcp_trace.rs) and screenshots.
MAX_RECORD_BYTES: Final = 32 * 2**20
# Compression shrinks records to about a tenth. Bytes beyond this multiple of the compressed size are excess,
# and the records read from one run may have MAX_EXCESS_BYTES of excess in total.
USUAL_RATIO: Final = 50
MAX_EXCESS_BYTES: Final = 256 * 2**20
# The name of a run's file until the file is complete. If no process holds the folder's lock, the writer was
# killed, and the file can be removed.
UNFINISHED: Final = FILE + ".new"
# The names of a run's database and of the files that SQLite writes beside it.
OWN_FILES: Final = re.compile(rf"{re.escape(FILE)}(\.new)?(-wal|-shm|-journal)?")
SQLITE: Final = b"SQLite format 3\0"
LIST_THEM: Final = "run fastopen ls to list kept runs"
WITHOUT_JOURNAL: Final = "PRAGMA journal_mode = MEMORY"


def damaged(fault: object, place: str) -> InputError:
    """Return the error for content of a run's file that fastopen never writes. `place` is the run's path."""
    return InputError(f"damaged: {fault}", place, "run the experiment again, or restore a backup")


class Limits:
    """Limits on the time and memory for reading a run, since its file may be damaged or malicious."""

    def __init__(self, database: sqlite3.Connection, folder: Path) -> None:
        """Limit queries of `database`, the run in `folder`, and let signals such as Ctrl-C interrupt them."""
        self._database = database
        self._folder = folder
        self._size = 0
        self._steps = 0
        self._excess = MAX_EXCESS_BYTES
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        # Python handles signals only between its own instructions, so SQLite must call a Python function.
        database.set_progress_handler(self._is_over, STEPS_A_CALL)

    def _is_over(self) -> bool:
        self._steps -= STEPS_A_CALL
        return self._steps < 0

    def rows(self, query: str, values: tuple[object, ...] = (), *, lookup: bool = False) -> Iterator[Any]:
        """Yield the rows of an SQL query with the parameters `values`. Set `lookup` to lower the time limit
        of a query for one load or job. Raises InputError for a query beyond a limit, or a damaged file."""
        if not lookup:
            self._size = 0
            for name in (FILE, f"{FILE}-wal"):
                with suppress(FileNotFoundError):
                    self._size += os.stat(self._folder / name).st_size
        # If queries are nested, the limit of the outer query stays, because it is larger.
        self._steps = max(self._steps, STEPS_OF_LOOKUP if lookup else STEPS + STEPS_A_BYTE * self._size)
        left = ROWS_OF_FILE * (self._size + SMALL_BYTES)
        try:
            for row in self._database.execute(query, values):
                # marshal is the quickest way to measure the size of SQLite's values.
                size = len(marshal.dumps(row))
                left -= size
                if left < 0:
                    raise self._endless()
                texts = row if size > json_memory.LITTLE else ()
                if any(isinstance(one, str) and json_memory.is_too_much(one) for one in texts):
                    raise damaged("a text in it needs too much memory", str(self._folder))
                yield row
        except UnicodeDecodeError:  # in SQLite's message about a damaged schema
            raise damaged("a text in it is not UTF-8", str(self._folder)) from None
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
                raise damaged(error, str(self._folder)) from None
            # An exception from a signal handler also interrupts the query.
            raise self._endless() if self._steps < 0 else KeyboardInterrupt from None

    def _endless(self) -> InputError:
        return damaged("it gives more data than its file can hold", str(self._folder))

    def unpacked(self, packed: bytes) -> bytes:
        """Decompress a JSON record of a load or network. Raises InputError if it is damaged or too large."""
        unpack = zlib.decompressobj()
        try:
            text = unpack.decompress(packed, MAX_RECORD_BYTES)
        except (zlib.error, TypeError) as error:
            raise damaged(error, str(self._folder)) from None
        self._excess -= max(0, len(text) - USUAL_RATIO * len(packed))
        if unpack.unconsumed_tail or self._excess < 0:
            raise damaged("a record is larger than any load's", str(self._folder))
        if not unpack.eof:
            raise damaged("a record is cut short", str(self._folder))
        if json_memory.is_too_much(text):
            raise damaged("a record needs more memory than any load's", str(self._folder))
        return text


def holds_run(folder: Path) -> bool:
    """Return True if the folder can be read and contains a run's file. The content is not checked."""
    return os.path.exists(folder / FILE)


def is_database(path: Path) -> bool:
    """Return True if a file begins like an SQLite database. Raises InputError if it cannot be read."""
    with os_errors_as(unreadable, path):
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE


def create(
    folder: Path, fill: Callable[[sqlite3.Connection], None]
) -> tuple[sqlite3.Connection, "FolderLock"]:
    """Create the database file of a new run in `folder`, and call `fill` to write its content. Return a
    connection for writing, and the lock on the folder. Raises InputError if the folder is not empty, is in
    use or cannot be written. Raises MachineError if the disk is full."""
    new = folder / UNFINISHED
    with os_errors_as(unwritable, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            lock = undo.enter_context(FolderLock(folder))
            _check_usable(folder)
            _remove_unfinished(folder)
            undo.callback(_remove_unfinished, folder)
            with writing(str(folder)), closing(sqlite3.connect(new)) as database:
                create_tables(database, fill)
            _to_disk(new)
            new.rename(folder / FILE)
            _to_disk(folder)
            created = _connect_for_writing(folder)
            undo.pop_all()
    return created, lock


def _check_usable(folder: Path) -> None:
    """Raise InputError if a new run cannot be created in this folder, which the caller has locked."""
    if holds_run(folder):
        raise InputError("another process started a run there", str(folder), "repeat this command")
    # A merge copies packets before the run's file has its final name.
    half_merged = {PACKETS} if (folder / UNFINISHED).exists() else set()
    names = {path.name for path in folder.iterdir()} - half_merged
    if any(not name.startswith(UNFINISHED) for name in names):
        raise InputError("is not empty and not a run", str(folder), "use a new folder for the run")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError("cannot be written: no permission", str(folder))


def _remove_unfinished(folder: Path) -> None:
    """Remove the files that an interrupted creation of a run has left in a folder."""
    # Packets first: without the file UNFINISHED, they would count as the user's files.
    if (folder / UNFINISHED).exists() and (folder / PACKETS).is_dir():
        shutil.rmtree(folder / PACKETS)
    for left in folder.glob(UNFINISHED + "*"):
        left.unlink()


def create_tables(database: sqlite3.Connection, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Create a run's tables in a new database, mark its format, and call `fill` to write the content."""
    database.executescript(
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};" + SCHEMA
    )
    with database:
        fill(database)


def open_for_reading(folder: Path) -> tuple[sqlite3.Connection, Limits]:
    """Open the database of a run read-only. Return the connection, and limits on the cost of queries. Raises
    InputError if the file is not a run or is damaged."""
    path = folder / FILE
    with os_errors_as(unreadable, folder):
        # Refuse other kinds of files: SQLite would wait for ever when it opens a pipe.
        own = (one for one in folder.glob(FILE + "*") if OWN_FILES.fullmatch(one.name))
        strange = [one.name for one in own if not one.is_file()]
        if not path.is_file():
            raise InputError("not a kept run: it has no " + FILE, str(folder), LIST_THEM)
    if strange:
        raise InputError(f"{strange[0]} is not a file", str(folder), "remove it")
    if not os.access(path, os.R_OK):
        raise InputError("cannot be read: no permission", str(path))
    with reading(str(path)):
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        limits = Limits(database, folder)
        with on_error(database.close):
            _check_marks(limits, path)
            _check_types(limits, path)
    return database, limits


def open_for_writing(folder: Path) -> sqlite3.Connection:
    """Check the whole database of a run, and open it for writing. Raises InputError if it is damaged."""
    checked, limits = open_for_reading(folder)
    with closing(checked):
        ((result,),) = limits.rows("PRAGMA quick_check(1)")
    if result != "ok":
        raise InputError(f"damaged: {result}", str(folder / FILE), "fastopen export saves the readable part")
    return _connect_for_writing(folder)


@contextmanager
def reading(place: str) -> Iterator[None]:
    """In a `with` block, convert SQLite's errors to InputErrors that report the file `place` as damaged."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise damaged(error, place) from None


@contextmanager
def writing(place: str) -> Iterator[None]:
    """In a `with` block, convert SQLite's errors on writing into MachineError (unwritable file) or InputError
    (damaged file). `place` is the path for the message."""
    try:
        yield
    except sqlite3.OperationalError as error:
        message = f"{place}: the run cannot be written: {error}"
        remedy = "free some space there, raise ulimit -f, or use another folder"
        raise MachineError(message, remedy) from None
    except sqlite3.DatabaseError as error:  # a new row contradicts stored rows
        raise damaged(error, place) from None


class FolderLock(Closing):
    """An exclusive lock on a run's folder, for a `with` block. The kernel releases it if the process dies."""

    def __init__(self, folder: Path) -> None:
        """Acquire the lock. Raises InputError if another process (or another FolderLock) holds it."""
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise InputError("another process is executing this run", str(folder)) from None

    def close(self) -> None:
        os.close(self._descriptor)


def check_in_place(folder: Path, opened: os.stat_result) -> None:
    """Raise MachineError if the run's file was moved or removed, because writes would be lost. `opened` is
    the result of `stat` for the file when it was opened."""
    with suppress(OSError):
        if os.path.samestat((folder / FILE).stat(), opened):
            return
    message = f"{folder}: the run was moved or removed while it was written"
    raise MachineError(message, "run it again, and leave its folder alone")


def _plain(sql: str) -> str:
    return " ".join(sql.split())


_TABLES: Final = {_plain(sql).split(" ")[2]: _plain(sql) for sql in SCHEMA.split(";") if sql.strip()}


def _check_marks(limits: Limits, path: Path) -> None:
    """Raise InputError if the file is not a run, has another version, or has tables other than a run's."""
    ((application,),) = limits.rows("PRAGMA application_id")
    ((version,),) = limits.rows("PRAGMA user_version")
    if application != APPLICATION_ID:
        raise InputError("not a fastopen run", str(path), LIST_THEM)
    if version > VERSION:
        message = f"has format {version} of a newer fastopen, but this one reads only up to {VERSION}"
        raise InputError(message, str(path), "update fastopen")
    if version < VERSION:
        message = f"is version {version} of the run store, which this fastopen does not read"
        raise InputError(message, str(path), "run it again, or use the fastopen that wrote it")
    # Refuse a file that holds anything but the tables: a view may run without end, and a trigger may write.
    found = {name: _plain(sql) for name, sql in limits.rows("SELECT name, sql FROM sqlite_schema") if sql}
    for name in sorted({*found, *_TABLES}):
        if found.get(name) != _TABLES.get(name):
            raise damaged(f"{name} is not the table that fastopen writes", str(path))


def _check_types(limits: Limits, path: Path) -> None:
    """Raise InputError if a value is NULL or has a type that its column forbids, which SQLite checks only on
    writing. Ignore other damage, since a part of the run may still be readable."""
    for table in _TABLES.keys() - {"records"}:  # which are most of the file
        for (problem,) in limits.rows(f"PRAGMA quick_check({table})"):
            if " value in " in problem:
                raise damaged(problem, str(path))


def _connect_for_writing(folder: Path) -> sqlite3.Connection:
    """Open the database with a write-ahead log, so that committed data survives if the process is killed."""
    with writing(str(folder)):
        database = sqlite3.connect(folder / FILE)
        ((mode,),) = database.execute("PRAGMA journal_mode")
        if mode != "wal":
            # Switching to WAL writes a page. If the process were killed meanwhile and left a journal on the
            # disk, readers without write permission could not read the file. So keep the journal in memory.
            database.execute(WITHOUT_JOURNAL)
            database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
    return database


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
