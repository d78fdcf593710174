"""Find a page load's longest chain of handshakes, which bounds the time that Fast Open can save."""

from collections.abc import Callable
from operator import itemgetter
from typing import Final

from fastopen.common.grouping import grouped
from fastopen.contract import Connection, LoadRecord
from fastopen.contract.load_record import Request
from fastopen.pages import Page

Span = tuple[int, int]  # start and end, in ns since the start of the page load
# Returns the time span of a connection's handshake, or None if the handshake does not count.
HandshakeOf = Callable[[Connection], Span | None]
# The resolver's addresses. Records of connections to the resolver have its address as their host name
# (resolver_address in crates/contract/src/records.rs).
RESOLVERS: Final = frozenset({"198.19.255.53", "2001:2:0:19::ff35"})


def tcp_handshake(connection: Connection) -> Span | None:
    """Return the start and end (ns) of a TCP handshake; None for QUIC or if the client did not await it."""
    if connection.handshake_us is None:
        return None
    return (connection.opened_ns, connection.opened_ns + connection.handshake_us * 1000)


def handshakes_in_a_row_ns(page: Page, record: LoadRecord, handshake: HandshakeOf = tcp_handshake) -> int:
    """Return the largest sum of handshake times, in ns, over any chain of dependent requests.

    `page` is the loaded page, and `record` is the record of its load. `handshake` returns the time span of a
    connection's handshake, by default of its TCP handshake. The times include queueing on the link. If only
    the servers recorded the load, return the total time in which any handshake was in progress."""
    # A request can wait for its initiator, and for a handshake in progress on any connection to its origin
    # (late binding). If its connection carries one request at a time, it can wait for the previous request.
    # If its connection is new, it can wait for the handshake and, before that, for another request to end:
    # browsers limit the number of connections, and may open the next one only when a request has ended.
    if record.seen_at == "origins":  # The record does not show which requests depend on each other.
        return covered_ns([span for one in record.connections if (span := handshake(one)) is not None])
    connections = Connections(record, handshake)
    # A response from the cache was not requested, but it also delays the requests that it initiates.
    begun = [(one.queued_ns if one.cache == "fresh" else one.sent_ns, one) for one in record.requests]
    sent = [(at_ns, request) for at_ns, request in begun if at_ns is not None]
    longest: dict[int, int] = {}
    last_on: dict[int, int] = {}
    ended: list[tuple[int, int]] = []
    for sent_ns, request in sorted(sent, key=itemgetter(0)):
        initiator = page.resources[request.resource].initiator
        chains = [0 if initiator is None else longest.get(initiator, 0)]
        if request.connection is not None:
            queued_ns, opened_ns = request.queued_ns or 0, connections.opened_ns(request)
            until_ns = sent_ns if opened_ns is None else opened_ns
            chains[0] += covered_ns(connections.under_way(request.connection, queued_ns, until_ns))
            if opened_ns is None:
                chains.append(longest.get(last_on.get(request.connection, -1), 0))
            else:
                own = connections.waited_ns(request.connection, max(queued_ns, opened_ns))
                looked_up = connections.lookup(request)
                wanted_ns = opened_ns if looked_up is None else max(looked_up[0], queued_ns)
                own += connections.resolver_ns(wanted_ns, opened_ns)
                chains += [chain for end_ns, chain in ended if queued_ns < end_ns <= wanted_ns]
                chains = [chain + own for chain in chains]
            last_on[request.connection] = request.resource
        longest[request.resource] = max(chains)
        if request.end_ns is not None:
            ended.append((request.end_ns, longest[request.resource]))
    return max(longest.values(), default=0)


class Connections:
    """The connections of a page load, and the times of their handshakes and of their hosts' lookups."""

    def __init__(self, record: LoadRecord, handshake: HandshakeOf = tcp_handshake) -> None:
        self.by_id: dict[int | None, Connection] = {one.id: one for one in record.connections}
        self._lookups = {
            one.host: (one.asked_ns, one.answered_ns) for one in record.lookups if one.answered_ns is not None
        }
        spans = [(one, span) for one in record.connections if (span := handshake(one)) is not None]
        self._handshakes = {one.id: span for one, span in spans}
        self._to = grouped(((one.host, one.port), span) for one, span in spans)

    def opened_ns(self, request: Request) -> int | None:
        """Return when the request's connection was opened, in ns since the start of the load. Return None if
        the request has no connection, or if it reused an HTTP/1 connection."""
        carrier = self.by_id.get(request.connection)
        if request.connect_start_ns is None and carrier is not None and carrier.multiplexed:
            return carrier.opened_ns
        return request.connect_start_ns

    def lookup(self, request: Request) -> Span | None:
        """Return the start and end (ns) of the name lookup that delayed the request's connection, if any."""
        opened_ns, carrier = self.opened_ns(request), self.by_id.get(request.connection)
        span = None if carrier is None else self._lookups.get(carrier.host)
        if span is None or opened_ns is None or not (request.queued_ns or 0) < span[1] <= opened_ns:
            return None
        return span

    def resolver_ns(self, since_ns: int, until_ns: int) -> int:
        """Return the time that handshakes with the DNS resolver took from `since_ns` to `until_ns`, in ns."""
        spans = [span for (host, _), spans in self._to.items() if host in RESOLVERS for span in spans]
        return covered_ns([(max(a, since_ns), min(b, until_ns)) for a, b in spans])

    def waited_ns(self, connection: int, since_ns: int) -> int:
        """Return the duration, in ns, of the part of a connection's handshake after the time `since_ns`."""
        opened, stood = self._handshakes.get(connection, (0, 0))
        return max(stood - max(opened, since_ns), 0)

    def under_way(self, connection: int, since_ns: int, until_ns: int) -> list[Span]:
        """Return the time spans of all handshakes with a connection's origin, cut to the time from `since_ns`
        to `until_ns`. `connection` is the id of the connection."""
        # With late binding, a request may wait for the handshake of any connection to its origin.
        carrier = self.by_id.get(connection)
        to_origin = [] if carrier is None else self._to.get((carrier.host, carrier.port), [])
        cut = [(max(opened, since_ns), min(stood, until_ns)) for opened, stood in to_origin]
        return [(opened, stood) for opened, stood in cut if opened < stood]


def covered_ns(spans: list[Span]) -> int:
    """Return the total time in ns that at least one of the given time spans covers."""
    covered_ns, until_ns = 0, 0
    for start_ns, end_ns in sorted(spans):
        start_ns = max(start_ns, until_ns)
        if end_ns > start_ns:
            covered_ns += end_ns - start_ns
            until_ns = end_ns
    return covered_ns
