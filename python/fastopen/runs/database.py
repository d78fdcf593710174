"""The run's SQLite file: created atomically, written by one process at a time, its faults as our errors."""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fastopen.errors import InputError, MachineError, unwritable
from fastopen.runs.schema import APPLICATION_ID, FILE, SCHEMA, VERSION

# A file under this name is a run that was killed while it was made: it holds nothing yet.
UNFINISHED: Final = FILE + ".new"


def holds_run(folder: Path) -> bool:
    """Whether a run was started in the folder; whether it can be read is another question."""
    return (folder / FILE).exists()


def create(folder: Path, fill: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    """A new file in a new or empty folder, with what `fill` writes. Raises InputError, MachineError."""
    _claim(folder)
    new = folder / UNFINISHED
    try:
        for left in folder.glob(UNFINISHED + "*"):
            left.unlink()
        with failing(str(folder)):
            database = sqlite3.connect(new)
            try:
                create_tables(database, fill)
            finally:
                database.close()
        _to_disk(new)
        new.rename(folder / FILE)
        _to_disk(folder)
    except OSError as error:
        raise unwritable(folder, error) from None
    return _connect_for_writing(folder)


def create_tables(database: sqlite3.Connection, fill: Callable[[sqlite3.Connection], None]) -> None:
    """The tables, the marks, and what `fill` writes, in a database that is new."""
    database.executescript(
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};" + SCHEMA
    )
    with database:
        fill(database)


def open_for_reading(folder: Path) -> sqlite3.Connection:
    """A run that is there; nothing is changed. Raises InputError where there is none that can be read."""
    path = folder / FILE
    if not path.is_file():
        raise InputError("not a kept run: it has no " + FILE, str(folder), "fastopen ls lists kept runs")
    if not os.access(path, os.R_OK):
        raise InputError("may not be read", str(path))
    with reading(str(path)):
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            _check_marks(database, path)
        except BaseException:
            database.close()
            raise
    return database


def open_for_writing(folder: Path) -> sqlite3.Connection:
    """A run that is resumed: all of it is checked before anything is written. Raises as reading does."""
    with open_for_reading(folder) as checked, reading(str(folder / FILE)):
        (result,) = checked.execute("PRAGMA quick_check(1)").fetchone()
    checked.close()
    if result != "ok":
        raise InputError(f"damaged: {result}", str(folder / FILE), "what can be read: fastopen export")
    return _connect_for_writing(folder)


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Turns SQLite's error of a file that it cannot read into an InputError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise InputError(f"damaged: {error}", place) from None


@contextmanager
def failing(place: str) -> Iterator[None]:
    """A file that SQLite cannot write is a MachineError, a damaged one an InputError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        message = f"{place}: the run cannot be written: {error}"
        raise MachineError(message, "make room there, or name another folder") from None
    except sqlite3.DatabaseError as error:  # its rows contradict each other
        raise InputError(f"damaged: {error}", place) from None


class FolderLock:
    """Held by the process that writes into a run's folder; the kernel frees it however that process ends."""

    def __init__(self, folder: Path) -> None:
        """Raises InputError where another process holds it."""
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise InputError("another process is executing this run", str(folder)) from None

    def close(self) -> None:
        """Frees it."""
        os.close(self._descriptor)


def is_being_written(folder: Path) -> bool:
    """Whether a process holds the folder's lock."""
    try:
        FolderLock(folder).close()
    except InputError:
        return True
    return False


def _check_marks(database: sqlite3.Connection, path: Path) -> None:
    application, version = (
        database.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        raise InputError("not a run of fastopen", str(path))
    if version > VERSION:
        message = f"written by a newer fastopen: version {version} of the run store, this one knows {VERSION}"
        raise InputError(message, str(path), "update fastopen")
    if version < VERSION:
        message = f"version {version} of the run store, which no fastopen of today reads"
        raise InputError(message, str(path), f"this is version {VERSION}; run it again")


def _connect_for_writing(folder: Path) -> sqlite3.Connection:
    """With a write-ahead log: a commit is one append, and who reads meanwhile is not in the way.

    A commit survives the death of this process. What brings it to the disk is DiskSync.
    """
    with failing(str(folder)):
        database = sqlite3.connect(folder / FILE)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
    return database


def _claim(folder: Path) -> None:
    """Makes the folder, which must be new or empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(not path.name.startswith(UNFINISHED) for path in folder.iterdir()):
            raise InputError("not empty, and not a run", str(folder), "name a new folder for the run")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError("may not be written", str(folder))
    except OSError as error:
        raise unwritable(folder, error) from None


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
