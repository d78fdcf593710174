"""Build pages from recordings with times: initiators, processing, think times, phases and the network."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from fastopen.pages import url as urls
from fastopen.pages.imported import ImportedPage
from fastopen.pages.importers import chains
from fastopen.pages.importers.assemble import Edge, check_size, page_of
from fastopen.pages.importers.coerce import MAX_MS
from fastopen.pages.importers.exchange import Exchange, PageHead
from fastopen.pages.importers.initiators import InitiatorResolver
from fastopen.pages.importers.notes import Notes
from fastopen.pages.importers.phases import Phases
from fastopen.pages.importers.roots import main_document
from fastopen.pages.importers.servers import Servers
from fastopen.pages.model import Phase
from fastopen.pages.recording import Carrier, RecordedExchange, Recording

_CLOCK_SLACK_MS: Final = 1.0
# A request that seems to start up to this long before the end of the previous response was sent after it.
_OVERLAP_SLACK_MS: Final = 2.0
_SLOW_MS: Final = 2000.0
_MAX_EVENT_MS: Final = 10_000.0
# Since clocks disagree, a document may seem to end this long before its page begins.
_AHEAD_MS: Final = 20.0


def page_with_times(
    exchanges: Sequence[Exchange], head: PageHead, name: str, source: str, notes: Notes, place: str
) -> ImportedPage:
    """Return the page of these exchanges. `head` has the file's facts about the page itself."""
    check_size(len(exchanges), place)
    ordered, document = in_order(exchanges, head.title, notes)
    finder = InitiatorResolver(ordered, document)
    initiators, known = finder.find_all(notes)
    if document == 0:
        _fetched_ahead(ordered[0], head, notes)
    load_at = _load_event(ordered, document, head, notes)
    round_trips = _round_trips(ordered, notes)
    crossed = tuple(_crossed(ordered))
    for key, count in (
        ("preflight", sum(one.is_preflight for one in ordered)),
        ("not_modified", sum(one.status == 304 for one in ordered)),
    ):
        notes[key] += count
    servers = Servers(ordered, crossed, known=head.network is not None)
    phase_of = Phases(ordered, load_at)
    phases: list[Phase] = []
    edges: dict[int, Edge] = {}
    for index, one in enumerate(ordered):
        parent, way = initiators[index]
        phases.append("load" if parent is None else phase_of(one, phases[parent]))
        at_bytes, processing = None, 0.0
        if parent is not None:
            naming = finder.namings.get(index)
            share = naming.share if naming is not None and naming.owner == parent else None
            at_bytes, processing = _trigger(one, ordered[parent], share)
        if processing > _SLOW_MS:
            notes.add("slow")
        round_trip = round_trips[one.host]
        edges[index] = Edge(
            parent,
            at_bytes,
            way=way,
            processing_us=_us(processing),
            phase=phases[-1],
            think_us=_us(servers.thinking(index, one.at.wait or 0.0, round_trip)),
            send_us=_us(servers.sending(index, round_trip)),
        )
    ended = max(one.at.end for one, phase in zip(ordered, phases, strict=True) if phase == "load")
    # If processing before the load event is capped, no replay can have the recorded page load time.
    reached = load_at is not None and load_at - ended <= _MAX_EVENT_MS
    plt_ms = load_at - ordered[0].at.start if load_at is not None and reached else None
    return page_of(
        ordered,
        edges,
        name,
        source,
        notes,
        initiators=known,
        load_event_processing_us=_event_processing(load_at, ended, notes),
        recorded_plt_us=None if plt_ms is None else _us(plt_ms),
        recording=Recording(
            exchanges=crossed,
            round_trip_ms=round_trips,
            load_event_ms=plt_ms,
            down_bit_per_s=head.down_bit_per_s,
            up_bit_per_s=head.up_bit_per_s,
            network=head.network,
        ),
    )


def in_order(exchanges: Sequence[Exchange], title: str, notes: Notes) -> tuple[list[Exchange], int]:
    """Return the exchanges, the root first and the others in order of start, and the index of the main
    document among them. Exchanges that started before the root get the root's start."""
    by_start = sorted(exchanges, key=chains.in_time)
    document = main_document(by_start, urls.cleaned(title))
    root = chains.head(document)
    for one in by_start:
        if one.at.start < root.at.start:
            notes.add("before")
            one.at.start = root.at.start
    ordered = [root, *sorted((one for one in by_start if one is not root), key=chains.in_time)]
    return ordered, ordered.index(document)


def _load_event(ordered: Sequence[Exchange], document: int, head: PageHead, notes: Notes) -> float | None:
    """Return the time of the load event in ms since 1970; None if it is missing or contradictory."""
    began = ordered[0].at.start
    started, on_load = head.started, head.on_load
    if on_load is None:
        notes.add("onload")
        return None
    if started is None or abs(started - began) > MAX_MS:
        started = began
    load_at = started + on_load
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


def _fetched_ahead(root: Exchange, head: PageHead, notes: Notes) -> None:
    """Move a root that arrived before its page began to the page's start, where browsers' times begin."""
    started = head.started
    if started is not None and root.at.end <= started - _AHEAD_MS and started - root.at.start < MAX_MS:
        notes.add("ahead")
        root.at.move(started - root.at.start)


def _round_trips(exchanges: Sequence[Exchange], notes: Notes) -> dict[str, float]:
    """Map each host to the RTT in ms that the recording implies.

    The RTT is the host's shortest TCP handshake, but at most the 10th percentile of its waits, since every
    response takes a round trip. For a host without a recorded handshake, it is this percentile; with fewer
    than three waits, at most the median RTT of the hosts with a handshake.
    """
    connects: defaultdict[str, list[float]] = defaultdict(list)
    waits: defaultdict[str, list[float]] = defaultdict(list)
    for one in exchanges:
        if one.at.tcp:
            connects[one.host].append(one.at.tcp)
        if one.at.wait and not one.pushed:
            waits[one.host].append(one.at.wait)
    low = {host: sorted(of_host)[(len(of_host) - 1) // 10] for host, of_host in waits.items()}
    known = {h: min([min(c), *([low[h]] if h in low else [])]) for h, c in connects.items()}
    usual = sorted(known.values())[(len(known) - 1) // 2] if known else None
    found = dict(known)
    for host in dict.fromkeys(one.host for one in exchanges):
        if host not in found:
            notes.add("rtt")
            guess = low.get(host, 0.0)
            found[host] = min(guess, usual) if usual is not None and len(waits[host]) < 3 else guess
    return found


def _crossed(ordered: Sequence[Exchange]) -> Iterator[RecordedExchange]:
    """Yield the times of each exchange on the recorder's network. An exchange without a recorded HTTP version
    gets HTTP/2 if its connection carried several requests at once."""
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
    """Return the connections that carried several requests at once."""
    spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in exchanges:
        if one.connection is not None:
            spans[one.connection].append((one.at.sent, one.at.end))
    return {connection for connection, carried in spans.items() if _overlaps(sorted(carried))}


def _overlaps(carried: Sequence[tuple[float, float]]) -> bool:
    """Return True if two exchanges overlapped; `carried` has (sent, end) in order of `sent`."""
    ended = carried[0][1]
    for sent, end in carried[1:]:
        if sent < ended - _OVERLAP_SLACK_MS:
            return True
        ended = max(ended, end)
    return False


def _trigger(one: Exchange, parent: Exchange, named_after: float | None) -> tuple[int | None, float]:
    """Return the number of the initiator's body bytes that had arrived when the exchange started (None: all),
    and the processing time in ms since then. `named_after` is the fraction of a document's text after which
    the exchange's URL ends, if known. Otherwise, the body is assumed to have arrived evenly."""
    start, ended, first_byte = one.at.start, parent.at.end, parent.at.first_byte
    if start >= ended - _CLOCK_SLACK_MS / 2:
        return None, max(0.0, start - ended)
    if named_after is not None and parent.type == "document":
        return int(parent.body_bytes * named_after), 0.0
    share = (start - first_byte) / (ended - first_byte) if ended > first_byte else 0.0
    return int(parent.body_bytes * min(max(share, 0.0), 1.0)), 0.0


def _event_processing(load_at: float | None, ended: float, notes: Notes) -> int:
    if load_at is None:
        return 0
    spent = load_at - ended
    if spent > _MAX_EVENT_MS:
        notes.add("event", int(spent))
    return _us(min(spent, _MAX_EVENT_MS))


def _us(ms: float) -> int:
    return max(0, round(ms * 1000))
