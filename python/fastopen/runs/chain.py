"""The handshakes that stood in a row in a load: the most that TCP Fast Open could have saved it."""

from collections import defaultdict

from fastopen.contract import LoadRecord
from fastopen.contract.records import Request
from fastopen.pages import Page

Span = tuple[int, int]


def handshakes_in_a_row_ns(page: Page, record: LoadRecord) -> int:
    """The longest sum of handshake times along what requests waited for, in nanoseconds.

    A request waits for its initiator, for the request before it on its connection (not where a connection
    carries several at once) and, where it was queued before its connection was opened, for those that ended
    meanwhile and so made room for it, or for handshakes whose connections then went to others. Its own
    handshake counts, as far as it waited for it, where it was the first on its connection or one of several
    at once. Queueing on the link is in the handshakes' times, so on a busy link this is more than a multiple
    of the RTT. Data in the SYN saves a handshake and nothing else: what is saved beyond has other causes.
    """
    if record.seen_at == "origins":
        # Who waited for whom is not known there, only in how much of the time one was under way.
        return covered_ns(
            [
                (one.opened_ns, one.opened_ns + one.handshake_us * 1000)
                for one in record.connections
                if one.handshake_us is not None
            ]
        )
    handshakes, carriers = Handshakes(record), Carriers(record)
    # What the client had kept was never sent; what it makes known waits for what made the client look for it.
    begun_at = {
        id(request): request.queued_ns if request.cache == "fresh" else request.sent_ns
        for request in record.requests
    }
    sent = [request for request in record.requests if begun_at[id(request)] is not None]
    longest: dict[int, int] = {}
    last_on: dict[int, int] = {}
    ended: list[tuple[int, int]] = []
    for request in sorted(sent, key=lambda request: begun_at[id(request)] or 0):
        initiator = page.resources[request.resource].initiator
        before = [0 if initiator is None else longest.get(initiator, 0)]
        own = 0
        if request.connection is not None:
            begun = carriers.opened_ns(request)
            if begun is None:
                before.append(longest.get(last_on.get(request.connection, -1), 0))
            last_on[request.connection] = request.resource
            if begun is not None:
                queued = request.queued_ns or 0
                own = handshakes.waited_ns(request.connection, max(queued, begun))
                before[0] += covered_ns(handshakes.given_away(request.connection, queued, begun))
                before += [chain for at, chain in ended if queued < at <= begun]
        longest[request.resource] = max(before) + own
        if request.end_ns is not None:
            ended.append((request.end_ns, longest[request.resource]))
    return max(longest.values(), default=0)


class Carriers:
    """The connections of a load as their requests see them."""

    def __init__(self, record: LoadRecord) -> None:
        self._of = {connection.id: connection for connection in record.connections}

    def opened_ns(self, request: Request) -> int | None:
        """When the connection of a request was opened, which did not wait there for others to be done.

        None where it was sent after others on a connection that carries one request at a time.
        """
        carrier = None if request.connection is None else self._of.get(request.connection)
        if request.connect_start_ns is None and carrier is not None and carrier.multiplexed:
            return carrier.opened_ns
        return request.connect_start_ns


class Handshakes:
    """When the handshakes of a load were under way, by origin."""

    def __init__(self, record: LoadRecord) -> None:
        self._of: dict[int, Span] = {}
        self._origin = {
            connection.id: (connection.host, connection.port) for connection in record.connections
        }
        self._to: defaultdict[tuple[str, int], list[Span]] = defaultdict(list)
        for connection in record.connections:
            if connection.handshake_us is not None:
                opened = connection.opened_ns
                self._of[connection.id] = span = (opened, opened + connection.handshake_us * 1000)
                self._to[connection.host, connection.port].append(span)

    def waited_ns(self, connection: int, since_ns: int) -> int:
        """How much of a connection's own handshake was still to come."""
        opened, stood = self._of.get(connection, (0, 0))
        return max(stood - max(opened, since_ns), 0)

    def given_away(self, connection: int, queued_ns: int, opened_ns: int) -> list[Span]:
        """What handshakes took of the time that a request stood in the queue before its own was begun.

        A client that binds late gives a connection that stands to the request that is most urgent then, so
        that another request, for which it was opened, needs one more.
        """
        others = self._to[self._origin[connection]] if connection in self._origin else []
        cut = [(max(begun, queued_ns), min(stood, opened_ns)) for begun, stood in others]
        return [(begun, stood) for begun, stood in cut if begun < stood]


def covered_ns(spans: list[Span]) -> int:
    """How much time the spans cover together."""
    covered_ns, until_ns = 0, 0
    for start_ns, end_ns in sorted(spans):
        start_ns = max(start_ns, until_ns)
        if end_ns > start_ns:
            covered_ns += end_ns - start_ns
            until_ns = end_ns
    return covered_ns
