"""Build pages from recordings with times. Estimate server think times, and RTTs of the recorder's network."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fastopen.common.grouping import grouped
from fastopen.pages import url as urls
from fastopen.pages.importers import chains
from fastopen.pages.importers.coerce import MAX_MS
from fastopen.pages.importers.exchange import Edge, Exchange, HarPage, check_size, page_of
from fastopen.pages.importers.initiators import InitiatorResolver
from fastopen.pages.importers.notes import Notes
from fastopen.pages.model import Phase
from fastopen.pages.rates import achieved_bit_per_s, link_bit_per_s, slow_start_rounds
from fastopen.pages.recording import Carrier, ImportedPage, RecordedExchange, Recording

_CLOCK_SLACK_MS: Final = 1.0
# A request may seem to start up to this long before the previous response on its connection has ended.
_OVERLAP_SLACK_MS: Final = 2.0
# Processing of more than this is due to a timer or the user.
_SLOW_MS: Final = 2000.0
# The load event fires at most this long after the last request that it waits for has ended.
_PROCESSED_MS: Final = 2000.0
_MAX_EVENT_MS: Final = 10_000.0
# Since clocks disagree, a document may seem to end this long before its page begins.
_AHEAD_MS: Final = 20.0
# Length of the window over which the highest rate of a recording is computed.
_WINDOW_MS: Final = 200.0
# If a body arrives in less time than this, the network may explain the whole time.
_SLOW_BODY_MS: Final = 500.0
# The network explains a time if it accounts for at least this fraction of the time.
_EXPLAINED_SHARE: Final = 0.5


def page_with_times(head: HarPage, name: str, source: str, notes: Notes, place: str) -> ImportedPage:
    """Build a page from `head.exchanges`, which have times. Raises InputError if there are too many."""
    check_size(len(head.exchanges), place)
    ordered, document = in_order(head.exchanges, head.title, notes)
    finder = InitiatorResolver(ordered, document, notes)
    initiators, known = finder.find_all()
    started = _page_start(ordered, document, head, notes)
    load_at = _load_event(ordered, document, head, started, notes)
    round_trips = _round_trips(ordered, notes)
    network_times = tuple(_network_times(ordered))
    notes["preflight"] += sum(one.is_preflight for one in ordered)
    notes["not_modified"] += sum(one.status == 304 for one in ordered)
    servers = _Servers(ordered, network_times, head)
    ends = chains.ends(ordered)
    fired_at = _fired(ordered, ends, load_at)
    edges: dict[int, Edge] = {}
    for index, one in enumerate(ordered):
        parent, evidence = initiators[index]
        at_bytes, processing = None, 0.0
        phase: Phase = "load"
        if parent is not None:
            phase = _phase(one, ends[one], fired_at, edges[parent].phase)
            owner, share = finder.namings.get(index, (None, None))
            at_bytes, processing = _trigger(one, ordered[parent], share if owner == parent else None)
        if processing > _SLOW_MS:
            notes.add("slow")
        round_trip = round_trips[one.host]
        edges[index] = Edge(
            parent,
            at_bytes,
            evidence=evidence,
            processing_us=_us(processing),
            phase=phase,
            think_us=_us(servers.thinking(index, round_trip)),
            send_us=_us(servers.sending(index, round_trip)),
        )
    ended = max(one.at.end for one, edge in zip(ordered, edges.values(), strict=True) if edge.phase == "load")
    event_ms = 0.0 if load_at is None else load_at - ended
    plt_ms = None if load_at is None else load_at - ordered[0].at.start
    if event_ms > _MAX_EVENT_MS:
        notes.add("event", int(event_ms))
        # With less processing than recorded, a page load cannot reproduce the recorded page load time.
        event_ms, plt_ms = _MAX_EVENT_MS, None
    return page_of(
        ordered,
        edges,
        name,
        source,
        notes,
        initiators=known,
        load_event_processing_us=_us(event_ms),
        recorded_plt_us=None if plt_ms is None else _us(plt_ms),
        recording=Recording(
            network_times, round_trips, plt_ms, head.down_bit_per_s, head.up_bit_per_s, head.network
        ),
    )


def in_order(exchanges: Sequence[Exchange], title: str, notes: Notes) -> tuple[list[Exchange], int]:
    """Return the exchanges in order of start, and the index of the page's document in this order. Put the
    request for the document, or the first redirect that led to it, first: exchanges that started earlier get
    the start time of this request. If `title` is a URL, it identifies the document."""
    by_start = sorted(exchanges, key=chains.start_order)
    document = chains.main_document(by_start, urls.cleaned(title))
    root = chains.head(document)
    for one in by_start:
        if one.at.start < root.at.start:
            notes.add("before")
            one.at.start = root.at.start
    ordered = [root, *sorted((one for one in by_start if one is not root), key=chains.start_order)]
    return ordered, ordered.index(document)


def _load_event(
    ordered: Sequence[Exchange], document: int, head: HarPage, started: float, notes: Notes
) -> float | None:
    """Return the time of the load event in ms since 1970; None if missing or if other times contradict it."""
    began = ordered[0].at.start
    if head.on_load is None:
        notes.add("onload")
        return None
    load_at = started + head.on_load
    last = max(one.at.end for one in ordered)
    if head.inspector_clock and load_at > last + _SLOW_MS:
        notes.add("onload_clock")
        return None
    if load_at < began:
        notes.add("onload_early")
        return None
    if load_at < ordered[document].at.first_byte - _CLOCK_SLACK_MS:
        notes.add("onload_root")
        return None
    notes.add("plt", round(load_at - began))
    return load_at


def _page_start(ordered: Sequence[Exchange], document: int, head: HarPage, notes: Notes) -> float:
    """Return the start of the page in ms since 1970. If the document was fetched ahead, move it there. If all
    requests had ended by the recorded start, ignore the recorded start, because its clock differs."""
    root, others, started = ordered[0], ordered[1:], head.started
    if started is None or abs(started - root.at.start) > MAX_MS:
        return root.at.start
    if document == 0 and root.at.end <= started - _AHEAD_MS:
        if all(one.at.start >= started - _AHEAD_MS for one in others):
            notes.add("ahead")
            root.at.move(started - root.at.start)
        elif all(one.at.end < started for one in others):
            notes.add("page_start")
            return root.at.start
    return started


def _round_trips(exchanges: Sequence[Exchange], notes: Notes) -> dict[str, float]:
    """Map each host to an estimate of its RTT in ms.

    A TCP handshake takes one RTT, and the wait for a response at least one. So the RTT is the host's shortest
    handshake, or the 10th percentile of its waits if this is shorter or no handshake was recorded. Without a
    handshake and with fewer than three waits, it is at most the median RTT of the hosts with handshakes."""
    connects = grouped((one.host, one.at.tcp) for one in exchanges if one.at.tcp)
    waits = grouped((e.host, e.at.wait) for e in exchanges if e.at.wait and not e.pushed and not _is_early(e))
    low = {host: sorted(of_host)[(len(of_host) - 1) // 10] for host, of_host in waits.items()}
    known = {h: min([min(c), *([low[h]] if h in low else [])]) for h, c in connects.items()}
    usual = sorted(known.values())[(len(known) - 1) // 2] if known else None
    found = dict(known)
    for host in dict.fromkeys(one.host for one in exchanges):
        if host not in found:
            notes.add("rtt")
            guess = low.get(host, 0.0)
            found[host] = min(guess, usual) if usual is not None and len(waits.get(host, ())) < 3 else guess
    return found


def _is_early(one: Exchange) -> bool:
    """Return True if the wait for a response lacks a round trip, because the request was sent with the QUIC
    handshake (0-RTT), which overlaps with the wait. QUIC handshakes take one or two RTTs."""
    return one.http == "3" and (one.at.wait or 0.0) < (one.at.tcp or 0.0) / 3


def _network_times(ordered: Sequence[Exchange]) -> Iterator[RecordedExchange]:
    """Yield each exchange's times, in ms since the first exchange started, and its type of connection. If its
    HTTP version was not recorded, a connection that carried several requests at once counts as HTTP/2."""
    shared = _shared_connections(ordered)
    began = ordered[0].at.start
    for one in ordered:
        at = one.at
        if one.http is None and one.connection in shared:
            one.http = "2"
        # Cut lookup and handshakes to fit before `sent`: redirects and broken clocks move the start.
        room = max(0.0, at.sent - at.start)
        tcp = min(at.tcp or 0.0, room)
        # TLS is a part of `connect`, but not with every recorder: see har/entry.py, _tcp.
        tls = min(max(at.connect - tcp, at.tls if tcp == at.connect else 0.0), room - tcp) if tcp else 0.0
        carriers: dict[str | None, Carrier] = {"2": "streams", "3": "quic"}
        yield RecordedExchange(
            asked=at.start - began,
            sent=at.sent - began,
            first_byte=at.first_byte - began,
            end=at.end - began,
            lookup=min(at.lookup, room - tcp - tls),
            tcp=tcp,
            tls=tls,
            carrier=carriers.get(one.http, "one at a time"),
            received_bytes=one.response_header_bytes + one.body_bytes,
            pushed=one.pushed,
        )


def _shared_connections(exchanges: Sequence[Exchange]) -> set[str]:
    """Return the recorder's names of the connections that carried several requests at once."""
    shared: set[str] = set()
    busy_until: dict[str, float] = {}
    for one in sorted(exchanges, key=lambda one: (one.at.sent, one.at.end)):
        if one.connection is not None:
            until = busy_until.get(one.connection, -math.inf)
            if one.at.sent < until - _OVERLAP_SLACK_MS:
                shared.add(one.connection)
            busy_until[one.connection] = max(until, one.at.end)
    return shared


def _trigger(one: Exchange, parent: Exchange, named_after: float | None) -> tuple[int | None, float]:
    """Estimate when the browser could make the request `one`, whose initiator is `parent`. Return the number
    of the initiator's body bytes that the browser needed first (None: all), and the processing time in ms.
    `named_after` is the position of the request's URL in the initiator's text, from 0 to 1, if known."""
    start, ended, first_byte = one.at.start, parent.at.end, parent.at.first_byte
    if start >= ended - _CLOCK_SLACK_MS / 2:
        return None, max(0.0, start - ended)
    if named_after is not None and parent.type == "document":
        return int(parent.body_bytes * named_after), 0.0
    share = (start - first_byte) / (ended - first_byte) if ended > first_byte else 0.0
    return int(parent.body_bytes * min(max(share, 0.0), 1.0)), 0.0


def _phase(one: Exchange, ended: float, fired_at: float, initiators_phase: Phase) -> Phase:
    """Return the phase of the request `one`: `after` if it or its initiator began after the load event,
    `load` if the event waited for it, else `async`. The event fired at `fired_at`. `ended` is the end of the
    request, or if it was redirected, of the final response."""
    if initiators_phase == "after" or chains.head(one).at.start >= fired_at:
        return "after"
    return "load" if one.delays_load_event and ended <= fired_at + _CLOCK_SLACK_MS else "async"


def _fired(exchanges: Sequence[Exchange], ends: Mapping[Exchange, float], load_at: float | None) -> float:
    """Estimate the time of the load event in ms since 1970. Browsers record the event after its handlers have
    run, so the estimate may be earlier than the recorded time `load_at`. If `load_at` is None, return the
    time 2 s after the end of the last request that delays the event. `ends` maps each exchange to its end."""
    if load_at is None:
        needed = [one for one in exchanges if one.delays_load_event]
        return max(ends[one] for one in needed or exchanges) + _PROCESSED_MS
    needed = [one for one in exchanges[1:] if one.delays_load_event and one.before is None]
    spans = [(one.at.start, ends[one]) for one in needed if one.at.start <= load_at]
    starts = sorted(start for start, _ in spans)
    ended = sorted(max(start, end - _CLOCK_SLACK_MS) for start, end in spans)
    before = sorted(start for start, end in spans if end <= load_at + _CLOCK_SLACK_MS)

    # Count the requests that contradict a load event at `moment`: requests under way, for which the event
    # would have waited, and later requests that ended before `load_at`, which only handlers could have made.
    def against(moment: float) -> int:
        under_way = bisect_left(starts, moment) - bisect_left(ended, moment)
        return under_way + len(before) - bisect_left(before, moment)

    # The load event never fires before the document has arrived.
    moments = {moment for moment in starts if moment >= ends[exchanges[0]]} | {load_at}
    return max(moments, key=lambda moment: (-against(moment), moment))  # on a tie, the last


def _us(ms: float) -> int:
    return max(0, round(ms * 1000))


class _Servers:
    """Estimates think and send times of servers in ms: the times that the network does not explain."""

    def __init__(self, entries: Sequence[Exchange], times: Sequence[RecordedExchange], head: HarPage) -> None:
        self._entries = entries
        self._times = times
        self._up = head.up_bit_per_s
        # If the network is known, calibration subtracts the time on the link, so `thinking` need not.
        self._filled = None if head.network is not None else link_bit_per_s(times, _WINDOW_MS)
        self._reached = achieved_bit_per_s(times, _WINDOW_MS)

    def thinking(self, index: int, round_trip_ms: float) -> float:
        """Return the server think time of a request in ms: the wait for its response minus a round trip and
        the upload. If other HTTP/2 or HTTP/3 responses from the host filled the downlink for at least half of
        the remaining wait, subtract their transfer time too, because they may have delayed this response."""
        entry, one = self._entries[index], self._times[index]
        # A request is recorded as sent when it is in the socket's buffer, before it is on the network.
        rounds_ms = slow_start_rounds(entry.request_body_bytes) * round_trip_ms
        upload_ms = max(rounds_ms, entry.request_body_bytes * 8000 / self._up if self._up else 0.0)
        network_ms = round_trip_ms + max(0.0, upload_ms - entry.at.send)
        thought = max(0.0, (entry.at.wait or 0.0) - network_ms)
        if self._filled is None or not one.multiplexed:
            return thought
        others = (
            _overlap(other, one.sent, one.first_byte) * other.received_bytes
            for number, other in enumerate(self._times)
            if number != index and self._entries[number].host == entry.host and other.multiplexed
        )
        carried_ms = sum(others) * 8000 / self._filled
        return max(0.0, thought - carried_ms) if carried_ms >= _EXPLAINED_SHARE * thought else thought

    def sending(self, index: int, round_trip_ms: float) -> float:
        """Return the server's send time in ms for the body of the response `index`: the time in which the
        body arrived. Return 0 if this is under 500 ms, or if the network explains at least half of it."""
        one = self._times[index]
        received_ms = one.end - one.first_byte
        if received_ms < _SLOW_BODY_MS or self._reached is None:
            return 0.0
        rounds = slow_start_rounds(one.received_bytes)
        arrived = sum(_overlap(x, one.first_byte, one.end) * x.received_bytes for x in self._times)
        explained_ms = rounds * round_trip_ms + arrived * 8000 / self._reached
        return received_ms if explained_ms < _EXPLAINED_SHARE * received_ms else 0.0


def _overlap(exchange: RecordedExchange, begin: float, end: float) -> float:
    """Return the fraction of a response that arrived between two times, assuming an even rate."""
    lasted = exchange.end - exchange.first_byte
    if lasted <= 0:
        return float(begin <= exchange.first_byte <= end)
    return max(0.0, min(exchange.end, end) - max(exchange.first_byte, begin)) / lasted
