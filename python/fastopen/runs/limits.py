"""Limit the cost of reading a run: the time of queries, the size of their rows, and the size of records.

A damaged or malicious file of a few kilobytes can yield endless rows, because its B-trees may share pages. It
can also hold records that decompress to any size. Larger files may cost more, as larger valid runs do."""

import contextlib
import marshal
import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fastopen.common import json_memory
from fastopen.common.errors import InputError
from fastopen.runs.schema import FILE


def damaged(fault: object, place: str) -> InputError:
    """Return the error for content of a run's file that fastopen never writes. `place` is the run's path."""
    return InputError(f"damaged: {fault}", place, "run the experiment again, or restore a backup")


# A query may take STEPS steps of SQLite's virtual machine, and STEPS_A_BYTE more for each byte of the file. A
# query of all loads takes about 100 steps for each load, and a load takes 1000 bytes on the disk.
STEPS: Final = 2_000_000
STEPS_A_BYTE: Final = 20
STEPS_OF_LOOKUP: Final = 50_000
"""The number of steps of SQLite's virtual machine that a query for one load or job may take."""
STEPS_A_CALL: Final = 10_000  # between two calls of SQLite's progress handler
# All rows of a query may have this many times the bytes of the file, because they repeat names stored once.
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
                with contextlib.suppress(FileNotFoundError):
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
        except UnicodeDecodeError:  # SQLite's message about a damaged schema
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
        except zlib.error as error:
            raise damaged(error, str(self._folder)) from None
        self._excess -= max(0, len(text) - USUAL_RATIO * len(packed))
        if unpack.unconsumed_tail or self._excess < 0:
            raise damaged("a record is larger than any load's", str(self._folder))
        if not unpack.eof:
            raise damaged("a record is cut short", str(self._folder))
        if json_memory.is_too_much(text):
            raise damaged("a record needs more memory than any load's", str(self._folder))
        return text
