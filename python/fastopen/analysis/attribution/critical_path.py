"""Find the critical path of a load by walking back from the load event to the navigation start.

The walk starts at the last response before the load event. It goes back over the response's transfer and the
wait for its first byte to the sending of the request, and then to the last event that the request waited for:
the handshake of its connection, the end of the request that occupied the connection (or a place under the
limit on connections), or the response from which the client learned of the request. So time in a queue is
explained by the previous request. `ready_ns` is the total time in queues.

Clients that bind late (Chromium, the loader) give a new connection to the most urgent request. If the request
that waited for it then had to open another connection, its wait for the first handshake counts too.

The sum of these handshakes is no upper bound on TFO's saving: see `fastopen.analysis.statistics.bound`.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from fastopen.analysis.attribution.segments import CriticalPath, Kind, Segment
from fastopen.contract import Client, LoadRecord
from fastopen.pages import Page
from fastopen.runs.chain import Carriers, Handshakes, Span, covered_ns


@dataclass(frozen=True)
class Sent:
    """A request with a complete response. Times are in nanoseconds since the navigation start."""

    resource: int
    connection: int | None
    """None if the client's cache answered; then the four times below are the end of the response."""
    queued_ns: int
    sent_ns: int
    first_byte_ns: int
    end_ns: int
    opened_ns: int | None = None
    """When the connection was opened; None if cached, or for a later request on an HTTP/1.1 connection."""
    looked_up: Span | None = None
    """The time span of the lookup of the host's name; None if the request did not wait for a lookup."""
    connected_ns: int | None = None
    secured_ns: int | None = None
    """When the TLS handshake was complete; None without TLS, or if `opened_ns` is None."""
    waited_for_handshake: bool = False

    @property
    def wanted_ns(self) -> int | None:
        """Return when the connection could have been opened had the address been known; None if unknown."""
        return self.opened_ns if self.looked_up is None else max(self.looked_up[0], self.queued_ns)


class Waits:
    """The requests and handshakes that each request of a load waited for."""

    def __init__(self, page: Page, record: LoadRecord, client: Client) -> None:
        self._page = page
        self._client = client
        self._load_event_ns = math.inf if record.plt_ns is None else record.plt_ns
        self._handshakes = Handshakes(record)
        waited = {connection.id for connection in record.connections if connection.handshake_us is not None}
        answered = _answered(record, Carriers(record), waited)
        self._of_resource = {sent.resource: sent for sent in answered}
        self._before: dict[int, Sent] = {}
        ordered = sorted(self._of_resource.values(), key=lambda sent: (sent.sent_ns, sent.resource))
        last_on: dict[int, Sent] = {}
        for sent in ordered:
            if sent.connection is None:
                continue
            if sent.connection in last_on:
                self._before[sent.resource] = last_on[sent.connection]
            last_on[sent.connection] = sent
        # A connection can make room for another connection only after its last request has ended.
        self._ended = sorted(last_on.values(), key=lambda sent: sent.end_ns)
        self._ends = [sent.end_ns for sent in self._ended]
        self._last_document = self._end_of_redirects()

    def last(self) -> Sent | None:
        """Return the last request whose end the load event waited for; None if there is none."""
        counted = [
            sent
            for sent in self._of_resource.values()
            if self._page.resources[sent.resource].phase == "load" and sent.end_ns <= self._load_event_ns
        ]
        return max(counted, key=lambda sent: (sent.end_ns, sent.resource), default=None)

    def holder(self, sent: Sent) -> Sent | None:
        """Return the request whose end `sent` waited for; None if it waited for none. This is the previous
        request on its connection, or the last one on another connection, which made room for this one."""
        if sent.wanted_ns is None:
            before = self._before.get(sent.resource)
            return before if before is not None and before.end_ns > sent.queued_ns else None
        at = bisect_right(self._ends, sent.wanted_ns) - 1
        made_room = self._ended[at] if at >= 0 else None
        if made_room is None or made_room.end_ns <= sent.queued_ns or made_room.resource == sent.resource:
            return None
        return made_room

    def handshakes_before(self, sent: Sent) -> list[Span]:
        """Return handshakes with the origin of `sent` during its wait for a connection, the latest first."""
        if sent.wanted_ns is None or sent.connection is None:
            return []
        return sorted(
            self._handshakes.under_way(sent.connection, sent.queued_ns, sent.wanted_ns), reverse=True
        )

    def initiator(self, sent: Sent) -> Sent | None:
        """Return the request whose response revealed `sent`; None if there is no complete response."""
        index = self._page.resources[sent.resource].initiator
        if index is not None and self._client.profile == "mget":
            # mget parses only the last document, and follows redirects one after another.
            index = self._last_document if sent.resource > self._last_document else index
        return None if index is None else self._of_resource.get(index)

    def known_ns(self, sent: Sent, initiator: Sent) -> int:
        """Return the time when enough of the initiator's response had arrived to reveal the request."""
        resource = self._page.resources[sent.resource]
        redirects = self._page.resources[initiator.resource].redirect_to is not None
        if self._client.profile == "mget" or resource.initiator_at_bytes is None or redirects:
            return initiator.end_ns
        processing_ns = round(resource.processing_us * self._client.processing_scale) * 1000
        return min(initiator.end_ns, max(initiator.first_byte_ns, sent.queued_ns - processing_ns))

    def _end_of_redirects(self) -> int:
        last = 0
        for index, resource in enumerate(self._page.resources):
            redirected = self._page.resources[last].redirect_to is not None
            if resource.initiator == last and redirected and index in self._of_resource:
                last = index
        return last


def _answered(record: LoadRecord, carriers: Carriers, waited: set[int]) -> Iterable[Sent]:
    """Return the requests with a complete response; for each resource, only the one that was sent last."""
    connections = {connection.id: connection for connection in record.connections}
    found: defaultdict[int, list[Sent]] = defaultdict(list)
    for request in record.requests:
        if request.cache == "fresh" and request.end_ns is not None:
            times = (request.end_ns,) * 4
            found[request.resource].append(Sent(request.resource, None, *times))
        queued_ns, sent_ns = request.queued_ns, request.sent_ns
        first_byte_ns, end_ns = request.first_byte_ns, request.end_ns
        if request.connection is None or request.error is not None:
            continue
        if queued_ns is None or sent_ns is None or first_byte_ns is None or end_ns is None:
            continue
        opened_ns = carriers.opened_ns(request)
        carrier = connections.get(request.connection) if opened_ns is not None else None
        tls = None if carrier is None else carrier.tls
        found[request.resource].append(
            Sent(
                resource=request.resource,
                connection=request.connection,
                queued_ns=queued_ns,
                sent_ns=sent_ns,
                first_byte_ns=first_byte_ns,
                end_ns=end_ns,
                opened_ns=opened_ns,
                looked_up=carriers.lookup(request),
                connected_ns=request.connected_ns or (None if carrier is None else carrier.connected_ns),
                secured_ns=None if tls is None else tls.secured_ns,
                waited_for_handshake=request.connection in waited,
            )
        )
    return [max(tries, key=lambda sent: sent.sent_ns) for tries in found.values()]


def critical_path(page: Page, record: LoadRecord, client: Client) -> CriticalPath | None:
    """Return the critical path of a load; None if it has no PLT or was observed only at the origins."""
    if record.plt_ns is None or record.seen_at == "origins":
        return None
    waits = Waits(page, record, client)
    walk = _Walk(record.plt_ns)
    step = waits.last()
    if step is not None:
        walk.back_to(Kind.PROCESSING, step.end_ns, step.resource)
    seen: set[int] = set()
    while step is not None and step.resource not in seen:
        seen.add(step.resource)
        step = _before(walk, waits, step)
    walk.back_to(Kind.PROCESSING, 0, 0)
    return CriticalPath(record.plt_ns, tuple(reversed(walk.segments)), covered_ns(walk.ready))


class _Walk:
    """The state of the walk back: its current time, and the segments found so far, the latest first."""

    def __init__(self, plt_ns: int) -> None:
        self.cursor_ns = plt_ns
        self.segments: list[Segment] = []
        self.ready: list[tuple[int, int]] = []

    def back_to(self, kind: Kind, start_ns: int, resource: int) -> None:
        """Add a segment from `start_ns` to the cursor and move the cursor there, if `start_ns` is earlier."""
        start_ns = max(start_ns, 0)
        if start_ns < self.cursor_ns:
            self.segments.append(Segment(kind, start_ns, self.cursor_ns, resource))
            self.cursor_ns = start_ns


def _before(walk: _Walk, waits: Waits, sent: Sent) -> Sent | None:
    """Walk back over one request, and return the request that it waited for; None if there is none."""
    walk.back_to(Kind.TRANSFER, sent.first_byte_ns, sent.resource)
    walk.back_to(Kind.WAIT, sent.sent_ns, sent.resource)
    if sent.opened_ns is not None:
        started_ns = max(sent.opened_ns, sent.queued_ns)
        connected_ns = max(sent.connected_ns or 0, started_ns)
        if sent.secured_ns is not None:
            walk.back_to(Kind.QUEUEING, max(sent.secured_ns, connected_ns), sent.resource)
            walk.back_to(Kind.TLS, connected_ns, sent.resource)
        walk.back_to(Kind.QUEUEING, connected_ns, sent.resource)
        making = Kind.HANDSHAKE if sent.waited_for_handshake else Kind.QUEUEING
        walk.back_to(making, started_ns, sent.resource)
    if sent.looked_up is not None:
        asked_ns, answered_ns = sent.looked_up
        walk.back_to(Kind.QUEUEING, answered_ns, sent.resource)
        walk.back_to(Kind.LOOK_UP, max(asked_ns, sent.queued_ns), sent.resource)
    walk.ready.append((sent.queued_ns, walk.cursor_ns))
    holder = waits.holder(sent)
    if holder is not None:
        walk.back_to(Kind.QUEUEING, holder.end_ns, sent.resource)
        return holder
    for started_ns, established_ns in waits.handshakes_before(sent):
        walk.back_to(Kind.QUEUEING, established_ns, sent.resource)
        walk.back_to(Kind.HANDSHAKE, started_ns, sent.resource)
    walk.back_to(Kind.QUEUEING, sent.queued_ns, sent.resource)
    initiator = waits.initiator(sent)
    if initiator is not None:
        walk.back_to(Kind.PROCESSING, waits.known_ns(sent, initiator), sent.resource)
    return initiator
