"""What reading one input may cost, whoever made it: bytes that it unpacks to, and bytes of one file or value.

Small files can unpack to any size. Everything that unpacks or reads whole files asks here before it keeps
what came out; `load_pages` begins a budget for each input.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from gzip import GzipFile
from typing import IO, Final

from fastopen.errors import InputError
from fastopen.temporary import filling

# Recordings of the largest pages unpack to some 300 MB, bodies and all.
MAX_UNPACKED_BYTES: Final = 2**30
# One JSON value (an entry of a HAR with its body), one member of an archive, one file of a mirror.
MAX_PIECE_BYTES: Final = 64 * 2**20
REMEDY: Final = "if you trust it: --max-unpacked allows for more"
# Texts are searched for URLs at some GB/s; a search has a price of its own, of so many bytes.
MAX_SEARCHED_BYTES: Final = 8 * 2**30
_SEARCH_BYTES: Final = 50_000
_BLOCK: Final = 2**20


@dataclass
class Budget:
    """Bytes that may still be unpacked of the input at `place`."""

    limit: int
    place: str
    left: int
    searchable: int = MAX_SEARCHED_BYTES

    def spend(self, size: int) -> None:
        """Takes `size` bytes off. Raises InputError where they are more than is left."""
        self.left -= size
        if self.left < 0:
            raise InputError(f"unpacks to more than {mebibytes(self.limit)}", self.place, REMEDY)


_CURRENT: Final[ContextVar[Budget | None]] = ContextVar("budget", default=None)


@contextmanager
def budget_for(place: str, limit: int = MAX_UNPACKED_BYTES) -> Iterator[None]:
    """A budget for what is read inside; an input within another one (of a list, a library) has its own."""
    token = _CURRENT.set(Budget(limit, place, limit))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def spend(size: int) -> None:
    """Takes `size` unpacked bytes off the current input's budget. Raises InputError beyond it."""
    budget = _CURRENT.get()
    if budget is not None:
        budget.spend(size)


def may_search(size: int) -> bool:
    """Whether `size` bytes of text may still be searched for the current input; takes them off."""
    budget = _CURRENT.get()
    if budget is None:
        return True
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
    """Copies what `source` unpacks to into a temporary file, within the budget; of damaged data what comes
    before the damage."""
    while part := source.read1(_BLOCK):  # type: ignore[union-attr]
        spend(len(part))
        with filling():
            target.write(part)
    with filling():
        target.flush()


def mebibytes(size: int) -> str:
    """`64 MiB`."""
    return f"{size / 2**20:,.0f} MiB"
