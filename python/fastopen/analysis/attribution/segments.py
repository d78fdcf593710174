"""The pieces that a page load time is cut into, and the path that they make up."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The reason for a wait."""

    LOOK_UP = "name look-up"
    QUEUEING = "queueing"
    HANDSHAKE = "handshake"
    TLS = "TLS handshake"
    WAIT = "request wait"
    TRANSFER = "transfer"
    PROCESSING = "processing"


@dataclass(frozen=True)
class Segment:
    """One piece, in nanoseconds since the navigation start; `resource` is an index into the page's."""

    kind: Kind
    start_ns: int
    end_ns: int
    resource: int

    @property
    def length_ns(self) -> int:
        """Never negative, never zero on a path."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class CriticalPath:
    """The waits of a load from navigation start to load event, piece after piece without a gap."""

    plt_ns: int
    segments: tuple[Segment, ...]
    """In order of time; the lengths add up to `plt_ns` exactly."""
    ready_ns: int
    """For how long of it a request on the path was known, and waited only for a connection to be free."""

    def total_ns(self, kind: Kind) -> int:
        """All pieces of one kind together."""
        return sum(segment.length_ns for segment in self.segments if segment.kind is kind)

    def count(self, kind: Kind) -> int:
        """Return the number of pieces of one kind."""
        return sum(segment.kind is kind for segment in self.segments)
