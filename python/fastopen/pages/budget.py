"""Limits on the cost of reading one input: unpacked bytes, memory, work.

Small files can unpack to any size. Everything that unpacks or reads whole files asks here before it keeps the
result; `load_pages` begins a budget for each input. Work is counted in steps, not by a clock, so the same
input ends in the same way on every machine.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from gzip import GzipFile
from typing import IO, Final

from fastopen.common.errors import InputError
from fastopen.common.temporary import filling
from fastopen.common.units import format_bytes

# Recordings of the largest pages unpack to some 300 MB, bodies and all.
MAX_UNPACKED_BYTES: Final = 2**30
# One JSON value (an entry of a HAR with its body), one member of an archive, one file of a mirror.
MAX_PIECE_BYTES: Final = 64 * 2**20
REMEDY: Final = "raise --max-unpacked if you trust the file"
# Texts are searched for URLs at some GB/s; a search has a price of its own, of so many bytes.
MAX_SEARCHED_BYTES: Final = 8 * 2**30
_SEARCH_BYTES: Final = 50_000
# A step is some 3 us. Each file of an input has one for so many bytes that the input may unpack to: 6 s.
_BYTES_A_STEP: Final = 512
# Of what an input may unpack to, the part that values of its JSON may take in memory at once: 128 MiB.
_KEPT_SHARE: Final = 8
# What is read, in steps: an entry, record or file; a line of a head; a place where a record may begin; a
# reference that is resolved.
ENTRY_STEPS: Final = 100
LINE_STEPS: Final = 2
GUESS_STEPS: Final = 20
NAME_STEPS: Final = 5
_BLOCK: Final = 2**20


@dataclass
class Budget:
    """The limits that are left for the input at `place`."""

    limit: int
    place: str
    unpacked: int
    """Bytes that may still be unpacked."""
    searchable: int = MAX_SEARCHED_BYTES
    """Bytes of text that may still be searched."""
    steps: int = 0
    """Steps of work that its current file may still take."""
    room: int = 0
    """Bytes of memory that its current file may still keep."""


_NO_LIMIT: Final = Budget(sys.maxsize, "", sys.maxsize, sys.maxsize, sys.maxsize, sys.maxsize)
# Outside of any input nothing is limited.
_CURRENT: Final = ContextVar("budget", default=_NO_LIMIT)


@contextmanager
def budget_for(place: str, limit: int = MAX_UNPACKED_BYTES) -> Iterator[None]:
    """Limit the block's reading of an input. An input within it (of a list, a library) has its own budget."""
    token = _CURRENT.set(Budget(limit, place, limit))
    begin_file()
    try:
        yield
    finally:
        _CURRENT.reset(token)


def begin_file() -> None:
    """Count work and memory again: folders and lists lead to any number of files."""
    budget = _CURRENT.get()
    budget.steps, budget.room = budget.limit // _BYTES_A_STEP, budget.limit // _KEPT_SHARE


def spend(size: int) -> None:
    """Take `size` unpacked bytes off the current input's budget. Raises InputError beyond it."""
    budget = _CURRENT.get()
    budget.unpacked -= size
    if budget.unpacked < 0:
        raise InputError(f"unpacks to more than {mebibytes(budget.limit)}", budget.place, REMEDY)


def room() -> int:
    """Return the bytes of memory that the current input may still keep."""
    return _CURRENT.get().room


def keep(size: int) -> None:
    """Take bytes of memory off that the current input keeps. Raises InputError beyond its budget."""
    budget = _CURRENT.get()
    budget.room -= size
    if budget.room < 0:
        raise _exceeded(budget, "memory")


def work(steps: int = 1) -> None:
    """Take steps of work off the current input's budget. Raises InputError beyond it."""
    budget = _CURRENT.get()
    budget.steps -= steps
    if budget.steps < 0:
        raise _exceeded(budget, "work")


def _exceeded(budget: Budget, what: str) -> InputError:
    message = f"takes more {what} to read than the limit of {mebibytes(budget.limit)} allows"
    return InputError(message, budget.place, REMEDY)


def may_search(size: int) -> bool:
    """Return True if `size` bytes of text may still be searched for the current input, and count them."""
    budget = _CURRENT.get()
    budget.searchable -= size + _SEARCH_BYTES
    return budget.searchable >= 0


def read_whole(file: IO[bytes], place: str, limit: int = MAX_PIECE_BYTES) -> bytes:
    """All of a file that may claim any size. Raises InputError where it is longer than `limit` bytes."""
    data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"is larger than {mebibytes(limit)}", place)
    spend(len(data))
    return data


def copy_within(source: IO[bytes] | GzipFile, target: IO[bytes]) -> None:
    """Unpack `source` into a temporary file, within the budget, up to the first damage."""
    while part := source.read1(_BLOCK):  # type: ignore[union-attr]
        spend(len(part))
        with filling():
            target.write(part)
    with filling():
        target.flush()


def mebibytes(size: int) -> str:
    """`64 MiB`; less than one as `1 kB`."""
    return f"{size / 2**20:,.0f} MiB" if size >= 2**20 else format_bytes(size)
