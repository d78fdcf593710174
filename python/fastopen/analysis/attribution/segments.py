"""Define the segments into which a page load time is divided, and the critical path that they form."""

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

from fastopen.pages import Page


class Kind(StrEnum):
    """The activity that a load waits for during a segment."""

    LOOK_UP = "name look-up"
    QUEUEING = "queueing"
    HANDSHAKE = "handshake"
    TLS = "TLS handshake"
    WAIT = "request wait"
    TRANSFER = "transfer"
    PROCESSING = "processing"


@dataclass(frozen=True)
class Segment:
    """A wait on the critical path. Times are in nanoseconds since the navigation start. `resource` is the
    index of the request in the page."""

    kind: Kind
    start_ns: int
    end_ns: int
    resource: int

    @property
    def length_ns(self) -> int:
        """Return the duration, which is positive on a critical path."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class CriticalPath:
    """The waits of a load from the navigation start to the load event, as segments without gaps."""

    plt_ns: int
    segments: tuple[Segment, ...]
    """In chronological order. Their lengths add up to `plt_ns` exactly."""
    ready_ns: int
    """The total time for which requests on the path were queued and only waited for a free connection."""

    def total_ns(self, kind: Kind) -> int:
        """Return the total length of the segments of one kind."""
        return sum(segment.length_ns for segment in self.segments if segment.kind is kind)

    def count(self, kind: Kind) -> int:
        """Return the number of segments of one kind."""
        return sum(segment.kind is kind for segment in self.segments)


@dataclass(frozen=True)
class PieceChange:
    """The time that each of two critical paths spends on one kind of wait for one request, in nanoseconds."""

    kind: Kind
    url: str
    request: int | None
    """The request's index in the page of the second path; None if that page has no such URL."""
    before_ns: int
    after_ns: int
    on_both: bool
    """True if the request is on both paths. A change of a request on only one path shows little by itself."""

    @property
    def change_ns(self) -> int:
        """Return the change; positive if the second path spends more time."""
        return self.after_ns - self.before_ns


def changed_pieces(before: tuple[Page, CriticalPath], after: tuple[Page, CriticalPath]) -> list[PieceChange]:
    """Return the waits that differ between the paths, the largest change first. URLs identify requests."""
    (old_page, old), (new_page, new) = before, after
    was, now = _lengths_ns(old_page, old), _lengths_ns(new_page, new)
    index = {resource.url: number for number, resource in reversed([*enumerate(new_page.resources)])}
    both = {url for _, url in was} & {url for _, url in now}
    pieces = [
        PieceChange(kind, url, index.get(url), was[kind, url], now[kind, url], url in both)
        for kind, url in dict.fromkeys([*was, *now])
    ]
    changed = [piece for piece in pieces if piece.change_ns]
    return sorted(changed, key=lambda piece: (-abs(piece.change_ns), piece.url, piece.kind))


def _lengths_ns(page: Page, path: CriticalPath) -> defaultdict[tuple[Kind, str], int]:
    found: defaultdict[tuple[Kind, str], int] = defaultdict(int)
    for segment in path.segments:
        found[segment.kind, page.resources[segment.resource].url] += segment.length_ns
    return found
