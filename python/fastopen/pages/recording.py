"""Define the result of importers: a page, its recorded bodies, and facts about the recorder's network."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fastopen.pages.bodies import RecordedBodies
from fastopen.pages.model import Page

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
    """The emulated network (format: a job's `network`) if fastopen recorded the page over it without TFO."""


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
