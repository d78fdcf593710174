"""Find the critical path of a page load: the chain of waits that make up the page load time.

The path is found backwards, from the last response before the load event to the navigation start. It goes
back over the transfer of a response and the wait for its first byte to the time when the request was sent.
Then it goes back to the last event that the request waited for:

- the handshake of its connection,
- the end of another request that occupied the connection or used up the limit on connections, or
- the response from which the client learned of the request.

The handshakes on this path do not add up to an upper bound on TFO's saving (`analysis.statistics.bound`)."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter

from fastopen.common.grouping import grouped
from fastopen.contract import Client, Connection, LoadRecord
from fastopen.pages import Page
from fastopen.runs.chain import Connections, Span, covered_ns


class Kind(StrEnum):
    """The kinds of wait on the critical path of a page load."""

    LOOK_UP = "name look-up"
    QUEUEING = "queueing"
    HANDSHAKE = "handshake"
    TLS = "TLS handshake"
    WAIT = "request wait"
    TRANSFER = "transfer"
    PROCESSING = "processing"


@dataclass(frozen=True)
class Segment:
    """One wait on the critical path of a page load. Times are in nanoseconds after the navigation start.
    `resource` is the index of the waiting request in the page."""

    kind: Kind
    start_ns: int
    end_ns: int
    resource: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class CriticalPath:
    """The chain of waits that make up the page load time (`plt_ns`), as segments without gaps. `ready_ns` is
    the time for which requests on the chain were queued only because no connection was free."""

    plt_ns: int
    segments: tuple[Segment, ...]
    """The segments in chronological order. Their lengths add up to `plt_ns` exactly."""
    ready_ns: int

    def total_ns(self, kind: Kind) -> int:
        return sum(segment.length_ns for segment in self.segments if segment.kind is kind)

    def count(self, kind: Kind) -> int:
        """Return the number of waits of `kind` on the path."""
        return sum(segment.kind is kind for segment in self.segments)


@dataclass(frozen=True)
class CompletedRequest:
    """A request with a complete response. Times are in ns since the navigation start. `resource` is the index
    of the request in the page."""

    resource: int
    connection: int | None
    """The connection's id; None if the response came from the cache. All times then equal `end_ns`."""
    queued_ns: int
    sent_ns: int
    first_byte_ns: int
    end_ns: int
    opened_ns: int | None = None
    """When the connection was opened; None if the response was cached or an HTTP/1 connection was reused."""
    carrier: Connection | None = None
    """The record of the connection that carried the request; None if `opened_ns` is None."""
    looked_up: Span | None = None
    """When the lookup of the host's name began and ended; None if the request did not wait for a lookup."""
    connected_ns: int | None = None
    """When the client could first write to the connection; None if unknown."""

    @property
    def wanted_ns(self) -> int | None:
        """Return when the client began to look up the host for the request or, without a lookup, to open the
        connection. Return None if the response was cached or an HTTP/1 connection was reused."""
        return self.opened_ns if self.looked_up is None else max(self.looked_up[0], self.queued_ns)


_end_ns = attrgetter("end_ns")


def critical_path(page: Page, record: LoadRecord, client: Client) -> CriticalPath | None:
    """Return a load's critical path; None if the load did not finish or was observed only at the origins."""
    if record.plt_ns is None or record.seen_at == "origins":
        return None
    walk = _Walk(page, record, client, record.plt_ns)
    step = walk.last()
    if step is not None:
        walk.back_to(Kind.PROCESSING, step.end_ns, step.resource)
    seen: set[int] = set()
    while step is not None and step.resource not in seen:
        seen.add(step.resource)
        step = walk.before(step)
    walk.back_to(Kind.PROCESSING, 0, 0)
    return CriticalPath(record.plt_ns, tuple(reversed(walk.segments)), covered_ns(walk.ready))


class _Walk:
    """The search for the critical path, from the load event (`plt_ns`) back to the navigation start."""

    def __init__(self, page: Page, record: LoadRecord, client: Client, plt_ns: int) -> None:
        self._page = page
        self._client = client
        self._cursor_ns = self._load_event_ns = plt_ns
        self.segments: list[Segment] = []
        self.ready: list[Span] = []
        """The time spans in which requests on the path were queued only because no connection was free."""
        self._connections = Connections(record)
        tries = grouped((sent.resource, sent) for sent in _answered(record, self._connections)).values()
        last = (max(of_one, key=lambda sent: sent.sent_ns) for of_one in tries)
        answered = sorted(last, key=lambda sent: (sent.sent_ns, sent.resource))
        self._of_resource = {sent.resource: sent for sent in answered}
        on_connection = grouped((sent.connection, sent) for sent in answered if sent.connection is not None)
        pairs = (pair for requests in on_connection.values() for pair in pairwise(requests))
        self._before = {sent.resource: before for before, sent in pairs}
        # A connection can make room for another connection only after its last request has ended.
        self._ended = sorted((requests[-1] for requests in on_connection.values()), key=_end_ns)
        self._last_document = 0
        for index, resource in enumerate(page.resources):
            redirected = page.resources[self._last_document].redirect_to is not None
            if resource.initiator == self._last_document and redirected and index in self._of_resource:
                self._last_document = index

    def back_to(self, kind: Kind, start_ns: int, resource: int) -> None:
        """Extend the path back to `start_ns` by a wait, unless the path already reaches back that far."""
        start_ns = max(start_ns, 0)
        if start_ns < self._cursor_ns:
            self.segments.append(Segment(kind, start_ns, self._cursor_ns, resource))
            self._cursor_ns = start_ns

    def last(self) -> CompletedRequest | None:
        """Return the request whose end triggered the load event; None if no request delays the load event."""
        in_time = (sent for sent in self._of_resource.values() if sent.end_ns <= self._load_event_ns)
        counted = (sent for sent in in_time if self._page.resources[sent.resource].phase == "load")
        return max(counted, key=lambda sent: (sent.end_ns, sent.resource), default=None)

    def before(self, sent: CompletedRequest) -> CompletedRequest | None:
        """Add the waits of request `sent` to the path. Return the request that `sent` waited for, if any."""
        self.back_to(Kind.TRANSFER, sent.first_byte_ns, sent.resource)
        self.back_to(Kind.WAIT, sent.sent_ns, sent.resource)
        if sent.opened_ns is not None:
            started_ns = max(sent.opened_ns, sent.queued_ns)
            connected_ns = max(sent.connected_ns or 0, started_ns)
            if sent.carrier is not None and sent.carrier.tls is not None:
                self.back_to(Kind.QUEUEING, max(sent.carrier.tls.secured_ns, connected_ns), sent.resource)
                self.back_to(Kind.TLS, connected_ns, sent.resource)
            self.back_to(Kind.QUEUEING, connected_ns, sent.resource)
            waited = sent.carrier is not None and sent.carrier.handshake_us is not None
            self.back_to(Kind.HANDSHAKE if waited else Kind.QUEUEING, started_ns, sent.resource)
        if sent.looked_up is not None:
            asked_ns, answered_ns = sent.looked_up
            self.back_to(Kind.QUEUEING, answered_ns, sent.resource)
            self.back_to(Kind.LOOK_UP, max(asked_ns, sent.queued_ns), sent.resource)
        self.ready.append((sent.queued_ns, self._cursor_ns))
        holder = self._holder(sent)
        if holder is not None:
            self.back_to(Kind.QUEUEING, holder.end_ns, sent.resource)
            return holder
        if sent.wanted_ns is not None and sent.connection is not None:
            # With late binding (Chromium, fastopen's own client), a new connection carries the most urgent
            # request. So `sent` may have waited for a handshake on a connection that another request got.
            under_way = self._connections.under_way(sent.connection, sent.queued_ns, sent.wanted_ns)
            for started_ns, established_ns in sorted(under_way, reverse=True):
                self.back_to(Kind.QUEUEING, established_ns, sent.resource)
                self.back_to(Kind.HANDSHAKE, started_ns, sent.resource)
        self.back_to(Kind.QUEUEING, sent.queued_ns, sent.resource)
        initiator = self._initiator(sent)
        if initiator is not None:
            self.back_to(Kind.PROCESSING, self._known_ns(sent, initiator), sent.resource)
        return initiator

    def _holder(self, sent: CompletedRequest) -> CompletedRequest | None:
        """Return the request whose end let the request `sent` leave the client's queue: the previous request
        on the same connection, or a request on another connection whose end allowed the client to open a
        new connection. Return None if `sent` waited for no other request."""
        if sent.wanted_ns is None:
            before = self._before.get(sent.resource)
            return before if before is not None and before.end_ns > sent.queued_ns else None
        at = bisect_right(self._ended, sent.wanted_ns, key=_end_ns)
        made_room = self._ended[at - 1] if at else None
        if made_room is None or made_room.end_ns <= sent.queued_ns or made_room.resource == sent.resource:
            return None
        return made_room

    def _initiator(self, sent: CompletedRequest) -> CompletedRequest | None:
        """Return the request from whose response the client learned of the request `sent`; None for the
        page's first request, or if that response is incomplete."""
        index = self._page.resources[sent.resource].initiator
        if index is not None and self._client.profile == "mget":
            # mget parses only the last document, and follows redirects one after another.
            index = self._last_document if sent.resource > self._last_document else index
        return None if index is None else self._of_resource.get(index)

    def _known_ns(self, sent: CompletedRequest, initiator: CompletedRequest) -> int:
        """Return the time when the client had received enough of the response of `initiator` to learn of the
        request `sent`, in ns since the navigation start."""
        resource = self._page.resources[sent.resource]
        redirects = self._page.resources[initiator.resource].redirect_to is not None
        if self._client.profile == "mget" or resource.initiator_at_bytes is None or redirects:
            return initiator.end_ns
        processing_ns = round(resource.processing_us * self._client.processing_scale) * 1000
        return min(initiator.end_ns, max(initiator.first_byte_ns, sent.queued_ns - processing_ns))


def _answered(record: LoadRecord, connections: Connections) -> Iterator[CompletedRequest]:
    for request in record.requests:
        queued_ns, sent_ns = request.queued_ns, request.sent_ns
        first_byte_ns, end_ns = request.first_byte_ns, request.end_ns
        if request.cache == "fresh" and end_ns is not None:
            yield CompletedRequest(request.resource, None, end_ns, end_ns, end_ns, end_ns)
        if request.connection is None or request.error is not None:
            continue
        if queued_ns is None or sent_ns is None or first_byte_ns is None or end_ns is None:
            continue
        opened_ns = connections.opened_ns(request)
        carrier = connections.by_id.get(request.connection) if opened_ns is not None else None
        yield CompletedRequest(
            resource=request.resource,
            connection=request.connection,
            queued_ns=queued_ns,
            sent_ns=sent_ns,
            first_byte_ns=first_byte_ns,
            end_ns=end_ns,
            opened_ns=opened_ns,
            carrier=carrier,
            looked_up=connections.lookup(request),
            connected_ns=request.connected_ns or (None if carrier is None else carrier.connected_ns),
        )


@dataclass(frozen=True)
class PieceChange:
    """The times that the request for `url` spends in one kind of wait on the critical paths of two loads."""

    kind: Kind
    url: str
    request: int | None
    """The request's index in the page of the second load; None if that page does not request the URL."""
    before_ns: int
    after_ns: int
    on_both: bool
    """True if the request is on both critical paths. If it is on only one, its time on the other is 0."""

    @property
    def change_ns(self) -> int:
        """Return the change in ns. It is positive if the wait takes longer on the second critical path."""
        return self.after_ns - self.before_ns


def changed_pieces(before: tuple[Page, CriticalPath], after: tuple[Page, CriticalPath]) -> list[PieceChange]:
    """Return the waits that differ between two critical paths, the largest change first. `before` and `after`
    are each a page and the critical path of its load. Requests are matched by URL."""
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
