"""Bodies that came in chunks (RFC 9112 section 7.1), without the frames: the world sends lengths instead."""

from __future__ import annotations

import io
from typing import Final

from warcio.bufferedreaders import ChunkedDataReader

from fastopen.pages import budget

_BLOCK: Final = 2**16


def without_chunks(body: bytes) -> bytes:
    """The body alone; as it is, where the recorder had taken the frames off already."""
    # Of each chunk at least a line's end stands before the next; each costs some microseconds.
    budget.work(body.count(b"\n"))
    reader = ChunkedDataReader(io.BytesIO(body))
    parts = []
    while part := reader.read(_BLOCK):
        parts.append(part)
    return b"".join(parts)
