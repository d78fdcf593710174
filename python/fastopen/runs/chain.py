"""The handshakes that stood in a row in a load: the most that TCP Fast Open could have saved it."""

from fastopen.contract import LoadRecord
from fastopen.pages import Page


def handshakes_in_a_row_ns(page: Page, record: LoadRecord) -> int:
    """The longest sum of handshake times along what requests waited for, in nanoseconds.

    A request waits for its initiator, for the request before it on its connection and, where it was queued
    before its connection was opened, for those that ended meanwhile and so made room for it. Its own
    handshake counts where it was the first on its connection. Queueing on the link is in the handshakes'
    times, so on a busy link this is more than a multiple of the RTT. Data in the SYN saves a handshake and
    nothing else: what is saved beyond this has other causes.
    """
    took_ns = {connection.id: (connection.handshake_us or 0) * 1000 for connection in record.connections}
    sent = [request for request in record.requests if request.sent_ns is not None]
    longest: dict[int, int] = {}
    last_on: dict[int, int] = {}
    ended: list[tuple[int, int]] = []
    for request in sorted(sent, key=lambda request: request.sent_ns or 0):
        initiator = page.resources[request.resource].initiator
        before = [0 if initiator is None else longest.get(initiator, 0)]
        own = 0
        if request.connection is not None:
            before.append(longest.get(last_on.get(request.connection, -1), 0))
            last_on[request.connection] = request.resource
            if request.connect_start_ns is not None:
                own = took_ns.get(request.connection, 0)
                queued, begun = request.queued_ns or 0, request.connect_start_ns
                before += [chain for at, chain in ended if queued < at <= begun]
        longest[request.resource] = max(before) + own
        if request.end_ns is not None:
            ended.append((request.end_ns, longest[request.resource]))
    return max(longest.values(), default=0)
