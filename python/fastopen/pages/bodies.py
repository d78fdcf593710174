"""Store recorded bodies in memory, or in an unnamed temporary file if they exceed 16 MiB in total."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Final

from fastopen.common.temporary import filling

# Larger stores use a file, so that a recording of 100 MB does not take up 100 MB of memory.
_IN_MEMORY_BYTES: Final = 16 * 2**20


class BodyStore:
    """A store of recorded HTTP response bodies in memory, or in a temporary file if it grows large."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY_BYTES, prefix="fastopen-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._end = 0

    def add(self, data: bytes) -> StoredBody:
        with filling():
            self._file.seek(self._end)
            self._file.write(data)
        stored = StoredBody(self, self._end, len(data))
        self._end += len(data)
        return stored

    def read(self, offset: int, length: int) -> bytes:
        with filling():  # seek flushes the file's write buffer, which fails if the disk is full
            self._file.seek(offset)
        return self._file.read(length)


@dataclass(frozen=True, eq=False)
class StoredBody:
    """A body in a store: its offset and length in bytes."""

    store: BodyStore
    offset: int
    length: int

    def read(self, most: int | None = None) -> bytes:
        """Return the body, or at most its first `most` bytes."""
        return self.store.read(self.offset, self.length if most is None else min(most, self.length))


class RecordedBodies(Mapping[int, bytes]):
    """A mapping from the index of a resource to its recorded response body, which is read from the store on
    each access. `heads` maps the index to the recorded head of the response: status line and headers."""

    def __init__(self, stored: Mapping[int, StoredBody], heads: Mapping[int, bytes] | None = None) -> None:
        self._stored = dict(stored)
        self.heads = dict(heads or {})

    def __getitem__(self, index: int) -> bytes:
        return self._stored[index].read()

    def __iter__(self) -> Iterator[int]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def without_heads(self) -> RecordedBodies:
        """Return a copy with the same bodies but no response heads."""
        return RecordedBodies(self._stored)

    def lengths(self) -> dict[int, int]:
        """Map each index to the length of its body in bytes, without reading the bodies."""
        return {index: stored.length for index, stored in self._stored.items()}


def bodies_digest(bodies: Mapping[int, bytes]) -> str:
    """Return the SHA-256 of all recorded bodies and response heads of a page, in hexadecimal."""
    digest = hashlib.sha256()
    for index, body in sorted(bodies.items()):
        digest.update(f"{index} {len(body)}\n".encode() + body)
    heads = bodies.heads if isinstance(bodies, RecordedBodies) else {}
    for index, head in sorted(heads.items()):
        digest.update(f"head {index} {len(head)}\n".encode() + head)
    return digest.hexdigest()
