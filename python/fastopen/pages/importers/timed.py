"""Entries of one page into the page: root first, initiators, processing, think times, phases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from fastopen.common.errors import InputError
from fastopen.pages import url as urls
from fastopen.pages.bodies import RecordedBodies
from fastopen.pages.imported import ImportedPage
from fastopen.pages.importers import chains
from fastopen.pages.importers.crossing import exchanges_of, version_of
from fastopen.pages.importers.fields import MAX_MS
from fastopen.pages.importers.har.entry import Entry
from fastopen.pages.importers.har.head import PageHead
from fastopen.pages.importers.har.writers import UNKNOWN, Writer
from fastopen.pages.importers.har_notes import HarNotes
from fastopen.pages.importers.initiators import InitiatorResolver
from fastopen.pages.importers.phases import Phases
from fastopen.pages.importers.roots import main_document
from fastopen.pages.importers.servers import Servers
from fastopen.pages.model import MAX_RESOURCES, HttpVersion, Page, Phase, Resource, ResourceType
from fastopen.pages.recording import Recording

_CLOCK_SLACK_MS: Final = 1.0
_SLOW_MS: Final = 2000.0
_MAX_EVENT_MS: Final = 10_000.0
# Of clocks that disagree, a document may seem to end this long before its page begins.
_AHEAD_MS: Final = 20.0


def assemble(
    entries: Sequence[Entry],
    head: PageHead,
    name: str,
    source: str,
    notes: HarNotes,
    place: str,
    writer: Writer = UNKNOWN,
) -> ImportedPage:
    """The page of these entries, of which the file says `head` besides."""
    if len(entries) > MAX_RESOURCES:
        raise InputError(f"{len(entries)} requests in one page, at most {MAX_RESOURCES} are possible", place)
    ordered, document = in_order(entries, head.title, notes)
    finder = InitiatorResolver(ordered, document)
    initiators, known = finder.find_all(notes)
    if document == 0:
        _fetched_ahead(ordered[0], head, notes)
    load_at = _load_event(ordered, document, head, writer, notes)
    round_trips = _round_trips(ordered, notes)
    exchanges = exchanges_of(ordered)
    servers = Servers(ordered, exchanges, known=head.network is not None)
    phase_of = Phases(ordered, load_at)
    phases: list[Phase] = []
    resources: list[Resource] = []
    for index, entry in enumerate(ordered):
        parent = initiators[index]
        least = phases[parent] if parent is not None else "load"
        phases.append(phase_of(entry, least) if index else "load")
        naming = finder.namings.get(index)
        share = naming.share if naming is not None and naming.owner == parent else None
        trigger = _trigger(entry, ordered[parent], share) if parent is not None else (None, 0.0)
        round_trip = round_trips[urls.host_of(entry.url)]
        http = version_of(entry, exchanges[index].carrier)
        took = (
            servers.thinking(index, entry.wait_ms or 0.0, round_trip),
            servers.sending(index, round_trip),
        )
        resources.append(_resource(entry, parent, trigger, phases[-1], took, http, notes))
    ended = max(e.end for e, phase in zip(ordered, phases, strict=True) if phase == "load")
    page = Page(
        format="fastopen-page/1",
        name=name,
        url=resources[0].url,
        source=source,
        initiators=known,
        load_event_processing_us=_event_processing(load_at, ended, notes),
        notes=notes.sentences(),
        resources=tuple(_redirects_typed(resources)),
    )
    bodies = RecordedBodies({i: e.body for i, e in enumerate(ordered) if e.body is not None})
    # A load event that the cap on processing made unreachable is nothing to compare with.
    reached = load_at is not None and load_at - ended <= _MAX_EVENT_MS
    plt_ms = load_at - ordered[0].start if load_at is not None and reached else None
    recording = Recording(
        exchanges=exchanges,
        round_trip_ms=round_trips,
        load_event_ms=plt_ms,
        down_bit_per_s=head.down_bit_per_s,
        up_bit_per_s=head.up_bit_per_s,
        network=head.network,
    )
    return ImportedPage(page, bodies, None if plt_ms is None else _us(plt_ms), recording)


def in_order(entries: Sequence[Entry], title: str, notes: HarNotes) -> tuple[list[Entry], int]:
    """The root first, then by start; and the place of the main document."""
    by_start = sorted(entries, key=lambda e: (e.start, chains.depth(e), e.order))
    document = main_document(by_start, urls.cleaned(title))
    root = chains.head(document)
    for entry in by_start:
        if entry.start < root.start:
            notes.add("before")
            entry.start = root.start
    rest = sorted((e for e in by_start if e is not root), key=lambda e: (e.start, chains.depth(e), e.order))
    ordered = [root, *rest]
    return ordered, ordered.index(document)


def _load_event(
    ordered: Sequence[Entry], document: int, head: PageHead, writer: Writer, notes: HarNotes
) -> float | None:
    """Return when the load event was, or None if the file does not say so, or contradicts itself."""
    root = ordered[0]
    started, on_load = head.started, head.on_load
    if on_load is None:
        notes.add("onload")
        return None
    if started is None or abs(started - root.start) > MAX_MS:
        started = root.start
    load_at = started + on_load
    last = max(entry.end for entry in ordered)
    if writer.load_event_of_inspector and load_at > last + _SLOW_MS:
        notes.add("onload_clock")
        return None
    if load_at < root.start:
        notes.add("onload_early")
        return None
    if load_at < ordered[document].first_byte - _CLOCK_SLACK_MS:
        notes.add("onload_root")
        return None
    notes.add("plt", round(load_at - root.start))
    return load_at


def _fetched_ahead(root: Entry, head: PageHead, notes: HarNotes) -> None:
    """Let a document that came before its page began start with the page, as the browser counts."""
    started = head.started
    if started is not None and root.end <= started - _AHEAD_MS and started - root.start < MAX_MS:
        notes.add("ahead")
        root.move(started - root.start)


def _round_trips(entries: Sequence[Entry], notes: HarNotes) -> dict[str, float]:
    """For each host the RTT in ms that the recording implies.

    The shortest handshake, but not more than the 10th percentile of the waits, since every answer takes a
    round trip. A host to which no connection was recorded has that percentile alone; but where it has fewer
    than three waits, not more than the median of the hosts with a connection.
    """
    connects: defaultdict[str, list[float]] = defaultdict(list)
    waits: defaultdict[str, list[float]] = defaultdict(list)
    for entry in entries:
        host = urls.host_of(entry.url)
        if entry.connect_ms:
            connects[host].append(entry.connect_ms)
        if entry.wait_ms and not entry.pushed:
            waits[host].append(entry.wait_ms)
    low = {host: sorted(of_host)[(len(of_host) - 1) // 10] for host, of_host in waits.items()}
    known = {h: min([min(c), *([low[h]] if h in low else [])]) for h, c in connects.items()}
    usual = sorted(known.values())[(len(known) - 1) // 2] if known else None
    found = dict(known)
    for host in dict.fromkeys(urls.host_of(entry.url) for entry in entries):
        if host not in found:
            notes.add("rtt")
            guess = low.get(host, 0.0)
            found[host] = min(guess, usual) if usual is not None and len(waits[host]) < 3 else guess
    return found


def _resource(
    entry: Entry,
    parent: int | None,
    trigger: tuple[int | None, float],
    phase: Phase,
    took: tuple[float, float],
    http: HttpVersion | None,
    notes: HarNotes,
) -> Resource:
    at_bytes, processing = trigger
    if processing > _SLOW_MS:
        notes.add("slow")
    return Resource(
        url=entry.url,
        method=entry.method,
        status=entry.status,
        type=entry.type if parent is not None else "document",
        mime=entry.mime,
        request_header_bytes=entry.sizes.request_header,
        request_body_bytes=entry.sizes.request_body,
        response_header_bytes=entry.sizes.response_header,
        body_bytes=entry.sizes.body,
        server_think_us=_us(took[0]),
        server_send_us=_us(took[1]),
        initiator=parent,
        initiator_at_bytes=at_bytes,
        processing_us=_us(processing),
        phase=phase,
        redirect_to=entry.location,
        fresh_s=entry.freshness.fresh_s,
        validator=entry.freshness.validator,
        http=http,
    )


def _trigger(entry: Entry, parent: Entry, named_after: float | None) -> tuple[int | None, float]:
    """How many bytes of the initiator had come when the entry started (None: all); ms of processing since.

    `named_after` is after what share of a document's text the entry is named, if that is known. Else the
    bytes between first and last are taken to have come evenly.
    """
    if entry.start >= parent.end - _CLOCK_SLACK_MS / 2:
        return None, max(0.0, entry.start - parent.end)
    if named_after is not None and parent.type == "document":
        return int(parent.sizes.body * named_after), 0.0
    receiving = parent.end - parent.first_byte
    share = (entry.start - parent.first_byte) / receiving if receiving > 0 else 0.0
    return int(parent.sizes.body * min(max(share, 0.0), 1.0)), 0.0


def _event_processing(load_at: float | None, ended: float, notes: HarNotes) -> int:
    if load_at is None:
        return 0
    spent = load_at - ended
    if spent > _MAX_EVENT_MS:
        notes.add("event", int(spent))
    return _us(min(spent, _MAX_EVENT_MS))


def _redirects_typed(resources: list[Resource]) -> list[Resource]:
    """A redirect is of the type of what it leads to: its own MIME type says nothing."""
    types: dict[int, ResourceType] = {}
    for index in reversed(range(len(resources))):
        resource = resources[index]
        parent = resource.initiator
        if parent is not None and resources[parent].redirect_to == resource.url:
            types[parent] = types.get(index, resource.type)
    return [r.model_copy(update={"type": types[i]}) if i in types else r for i, r in enumerate(resources)]


def _us(ms: float) -> int:
    return max(0, round(ms * 1000))
