"""Limit the cost of reading one input: unpacked bytes, searched text, memory and work.

A small file can unpack to any size. `load_pages` starts a budget for each input. All code that unpacks data
or reads whole files charges the bytes to this budget before it keeps them. Work is counted in steps instead
of time, so that reading an input has the same result on every machine.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from gzip import GzipFile
from typing import IO, Final

from fastopen.common.errors import InputError
from fastopen.common.files import filling
from fastopen.common.units import format_bytes

# Recordings of the largest pages unpack to some 300 MB, bodies included.
MAX_UNPACKED_BYTES: Final = 2**30
# Size limit of one JSON value (a HAR entry with its body), archive member, or file of a mirror.
MAX_PIECE_BYTES: Final = 64 * 2**20
REMEDY: Final = "raise --max-unpacked if you trust the file"
# Maximum number of bytes to search, at some GB/s. The fixed cost of a search counts as _SEARCH_BYTES bytes.
MAX_SEARCHED_BYTES: Final = 8 * 2**30
_SEARCH_BYTES: Final = 50_000
# A file gets one step for each 512 bytes of the input's limit: by default 2**21 steps of 3 us, some 6 s.
_BYTES_A_STEP: Final = 512
# Values parsed from a file may take up an eighth of the input's limit in memory: by default 128 MiB.
_KEPT_SHARE: Final = 8
# Steps charged for each entry of a HAR, record of an archive, or file of a folder.
ENTRY_STEPS: Final = 100
# Steps charged for each line of a head or list.
LINE_STEPS: Final = 2
# Steps charged for each position that is tried as the start of the next record after damage.
GUESS_STEPS: Final = 20
# Steps charged for each reference that is resolved, and for each name in a folder of a mirror.
NAME_STEPS: Final = 5
_BLOCK: Final = 2**20


@dataclass
class Budget:
    """The remaining budget for one input. `unpacked` and `searchable` are the bytes that may still be
    unpacked and searched. `steps` and `room` are the steps of work and bytes of memory left for the current
    file. `limit` is the initial value of `unpacked`. `place` is the input's name."""

    limit: int
    place: str
    unpacked: int
    searchable: int = MAX_SEARCHED_BYTES
    steps: int = 0
    room: int = 0


_NO_LIMIT: Final = Budget(sys.maxsize, "", sys.maxsize, sys.maxsize, sys.maxsize, sys.maxsize)
# The budget of the current input. Outside of `budget_for`, nothing is limited.
_CURRENT: Final = ContextVar("budget", default=_NO_LIMIT)


@contextmanager
def budget_for(place: str, limit: int = MAX_UNPACKED_BYTES) -> Iterator[None]:
    """Limit the cost of reading one input in the `with` block. `limit` is the maximum size of the unpacked
    input in bytes. `place` names the input in errors. A nested block has its own budget."""
    token = _CURRENT.set(Budget(limit, place, limit))
    begin_file()
    try:
        yield
    finally:
        _CURRENT.reset(token)


def begin_file() -> None:
    """Restart the limits on work and memory, which apply to each file of an input separately."""
    budget = _CURRENT.get()
    budget.steps, budget.room = budget.limit // _BYTES_A_STEP, budget.limit // _KEPT_SHARE


def spend(size: int) -> None:
    """Account for `size` unpacked bytes. Raises InputError if the input unpacks to too many bytes."""
    budget = _CURRENT.get()
    budget.unpacked -= size
    if budget.unpacked < 0:
        raise InputError(f"unpacks to more than {mebibytes(budget.limit)}", budget.place, REMEDY)


def room() -> int:
    """Return the number of bytes of memory that parsed values of the current file may still take up."""
    return _CURRENT.get().room


def keep(size: int) -> None:
    """Account for `size` bytes of memory. Raises InputError if the current file takes up too much."""
    budget = _CURRENT.get()
    budget.room -= size
    if budget.room < 0:
        raise _exceeded(budget, "memory")


def work(steps: int = 1) -> None:
    """Account for `steps` steps of work. Raises InputError if the current file takes too many."""
    budget = _CURRENT.get()
    budget.steps -= steps
    if budget.steps < 0:
        raise _exceeded(budget, "work")


def _exceeded(budget: Budget, what: str) -> InputError:
    message = f"takes more {what} to read than the limit of {mebibytes(budget.limit)} allows"
    return InputError(message, budget.place, REMEDY)


def may_search(size: int) -> bool:
    """Account for a search of `size` bytes of text. Return False if this exceeds the limit of the input."""
    budget = _CURRENT.get()
    budget.searchable -= size + _SEARCH_BYTES
    return budget.searchable >= 0


def read_whole(file: IO[bytes], place: str, limit: int = MAX_PIECE_BYTES) -> bytes:
    """Read an open file to its end. Raises InputError if it has more than `limit` bytes, or if the input now
    exceeds its limit of unpacked bytes. `place` names the file in errors."""
    data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"is larger than {mebibytes(limit)}", place)
    spend(len(data))
    return data


def copy_within(source: IO[bytes] | GzipFile, target: IO[bytes]) -> None:
    """Copy the unpacked bytes of `source` into the temporary file `target`. If the data is damaged, write the
    part before the damage, and propagate the error that `source` raises. Raises InputError if the input
    exceeds its limit of unpacked bytes, and MachineError if the file cannot be written."""
    while part := source.read1(_BLOCK):  # type: ignore[union-attr]
        spend(len(part))
        with filling():
            target.write(part)
    with filling():
        target.flush()


def mebibytes(size: int) -> str:
    """Return a size in bytes as text, such as `64 MiB`, or `640 kB` if it is less than 1 MiB."""
    return f"{size / 2**20:,.0f} MiB" if size >= 2**20 else format_bytes(size)
