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

from fastopen.analysis.attribution.segments import CriticalPath, Kind, Segment
from fastopen.analysis.attribution.waits import Sent, Waits
from fastopen.contract import Client, LoadRecord
from fastopen.pages import Page
from fastopen.runs.chain import covered_ns


def critical_path(page: Page, record: LoadRecord, client: Client) -> CriticalPath | None:
    """The path of one load; None where the load has no page load time, or was seen at the origins alone.

    Integers, hence exact.
    """
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
