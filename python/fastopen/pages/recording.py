"""Define the result of importers: a page, its recorded bodies, and facts about the recorder's network."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import Any, Final, Literal

from fastopen.common.files import filling
from fastopen.pages.model import Page

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


Carrier = Literal["one at a time", "streams", "quic"]
"""Type of a connection: one request at a time (HTTP/1.x), or streams over TCP (HTTP/2) or QUIC (HTTP/3)."""


@dataclass(frozen=True)
class RecordedExchange:
    """The times of a request and its response, in ms since the page's first request. The page made the
    request at `asked`. The browser sent it at `sent`, when a connection was ready. The response arrived from
    `first_byte` to `end`. `lookup`, `tcp` and `tls` are the durations of the DNS lookup and of the TCP and
    TLS handshakes in ms, and 0 if there were none. `carrier` is the type of the connection."""

    asked: float
    sent: float
    first_byte: float
    end: float
    lookup: float
    tcp: float
    tls: float
    carrier: Carrier
    received_bytes: int
    """Size of the response in bytes, headers included."""
    pushed: bool = False
    """True if the server pushed the resource; `asked` is then the time at which the server announced it."""

    @property
    def multiplexed(self) -> bool:
        """Return True if the connection can carry several requests at once (HTTP/2, HTTP/3)."""
        return self.carrier != "one at a time"

    @property
    def stalled(self) -> float:
        """Return the time in ms that the request waited for a connection, without lookup and handshakes."""
        return max(0.0, self.sent - self.asked - self.lookup - self.tcp - self.tls)


@dataclass(frozen=True)
class Recording:
    """The times of a recorded page load, and the RTTs and bandwidth limits of the recorder's network."""

    exchanges: tuple[RecordedExchange, ...]
    """The exchange of each resource of the page, in the order of the resources."""
    round_trip_ms: Mapping[str, float]
    """The RTT in ms to each host of the page."""
    load_event_ms: float | None
    """Time of the load event, in ms since the page's first request; None if unknown."""
    down_bit_per_s: int | None = None
    """The bit rate to which the recorder limited downloads; None if the recording does not name one."""
    up_bit_per_s: int | None = None
    """The bit rate to which the recorder limited uploads; None if the recording does not name one."""
    network: Mapping[str, Any] | None = None
    """The emulated network of the recording, as in a job's `network`, if fastopen recorded it without TFO."""


@dataclass(frozen=True)
class ImportedPage:
    """A page, and data from its recording that is not part of the page.

    `bodies` maps the index of a resource to its response body of exactly `body_bytes` bytes, as the server
    sent it. Page loads generate missing bodies. `recorded_plt_us` is the page load time over the recorder's
    network, from the first request to the load event; None if unknown. `recording` contains recorded times
    and facts about this network, if known. `screenshot` is a PNG of the page in the recorder's browser."""

    page: Page
    bodies: Mapping[int, bytes] = field(default_factory=dict)
    recorded_plt_us: int | None = None
    recording: Recording | None = None
    screenshot: bytes | None = None

    def __post_init__(self) -> None:
        bodies = self.bodies
        if isinstance(bodies, RecordedBodies):
            lengths = bodies.lengths()
        else:
            lengths = {index: len(body) for index, body in bodies.items()}
        for index, length in lengths.items():
            assert length == self.page.resources[index].body_bytes, f"body {index} has the wrong length"
