"""The critical path of a load: from the load event back through whatever each step waited for last.

From the last byte before the load event the walk goes back over the response's transfer and the wait for its
first byte to the moment the request was sent, and from there to what came last of what sending needed: the
handshake of its connection, the request that held its connection (or the place of its connection) until
then, or the response that made the client know of it. So a request that waited in a queue is explained by
the request before it; `ready_ns` is for how long that was so.

A client that binds late (Chromium, the loader) gives an established connection to the most urgent request: a
request that then had to open another one waited for that handshake as well, and it counts.

The handshakes on the path are no bound on what TFO can save: see `fastopen.analysis.statistics.bound`.
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
    """A request that was answered in full; times in nanoseconds since the navigation start."""

    resource: int
    connection: int | None
    """None where the client's cache answered: then all times are that of the answer."""
    queued_ns: int
    sent_ns: int
    first_byte_ns: int
    end_ns: int
    opened_ns: int | None = None
    """When its connection was opened, where it was the first on it, or one of several at once."""
    looked_up: Span | None = None
    """When the name of its host was looked up, if it waited for that."""
    connected_ns: int | None = None
    secured_ns: int | None = None
    """When the TLS handshake was done, on a connection that has TLS."""
    waited_for_handshake: bool = False

    @property
    def wanted_ns(self) -> int | None:
        """Return when its connection could have been opened if the address had been known."""
        return self.opened_ns if self.looked_up is None else max(self.looked_up[0], self.queued_ns)


class Waits:
    """A load as a graph: who waited for whom."""

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
        # Only a connection that carried nothing afterwards can have made room for another.
        self._ended = sorted(last_on.values(), key=lambda sent: sent.end_ns)
        self._ends = [sent.end_ns for sent in self._ended]
        self._last_document = self._end_of_redirects()

    def last(self) -> Sent | None:
        """The request whose end the load event waited for."""
        counted = [
            sent
            for sent in self._of_resource.values()
            if self._page.resources[sent.resource].phase == "load" and sent.end_ns <= self._load_event_ns
        ]
        return max(counted, key=lambda sent: (sent.end_ns, sent.resource), default=None)

    def holder(self, sent: Sent) -> Sent | None:
        """The request that had what this one waited for: its connection, or the place of its connection.

        None where it waited for neither: it was sent, or its connection was opened, once it was known.
        """
        if sent.wanted_ns is None:
            before = self._before.get(sent.resource)
            return before if before is not None and before.end_ns > sent.queued_ns else None
        at = bisect_right(self._ends, sent.wanted_ns) - 1
        made_room = self._ended[at] if at >= 0 else None
        if made_room is None or made_room.end_ns <= sent.queued_ns or made_room.resource == sent.resource:
            return None
        return made_room

    def handshakes_before(self, sent: Sent) -> list[Span]:
        """The handshakes to its origin that were under way until it opened a connection, the latest first."""
        if sent.wanted_ns is None or sent.connection is None:
            return []
        return sorted(
            self._handshakes.under_way(sent.connection, sent.queued_ns, sent.wanted_ns), reverse=True
        )

    def initiator(self, sent: Sent) -> Sent | None:
        """The request whose response made the client know of this one."""
        index = self._page.resources[sent.resource].initiator
        if index is not None and self._client.profile == "mget":
            # It parses the last document alone, and follows redirects one after another.
            index = self._last_document if sent.resource > self._last_document else index
        return None if index is None else self._of_resource.get(index)

    def known_ns(self, sent: Sent, initiator: Sent) -> int:
        """When the initiator's response had arrived so far that the client knew of the request."""
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
    """The requests that got everything; of several for one resource the last to be sent."""
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
    """Return the path of a load, in integers; None without a PLT, or if seen only at the origins."""
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
    """The position of the walk back, and the pieces cut so far, the latest first."""

    def __init__(self, plt_ns: int) -> None:
        self.cursor_ns = plt_ns
        self.segments: list[Segment] = []
        self.ready: list[tuple[int, int]] = []

    def back_to(self, kind: Kind, start_ns: int, resource: int) -> None:
        """Cuts a piece from `start_ns` to the cursor, nothing where that is not before it."""
        start_ns = max(start_ns, 0)
        if start_ns < self.cursor_ns:
            self.segments.append(Segment(kind, start_ns, self.cursor_ns, resource))
            self.cursor_ns = start_ns


def _before(walk: _Walk, waits: Waits, sent: Sent) -> Sent | None:
    """Goes back over one request; the request that it had waited for last."""
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
