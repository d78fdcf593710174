"""Make a page from a browser's log and saved bodies. The page has sizes, types, order, initiators and
processing times, but no contents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fastopen.pages import url as urls
from fastopen.pages.importers import chains, kinds
from fastopen.pages.importers.exchange import Exchange, Times
from fastopen.pages.importers.initiators import HELD_BACK_MS, InitiatorResolver
from fastopen.pages.importers.notes import Notes
from fastopen.pages.importers.timed import in_order
from fastopen.pages.model import Page, Resource, body_is_empty
from fastopen.pages.references import find_reference
from packaged_pages.shorter import shortened
from packaged_pages.snapshot.bodies import Body, file_of, is_text, never_compressed, url_of
from packaged_pages.snapshot.fetchlog import Fetch, FetchLog

_TYPICAL_RESPONSE_HEADER: Final = 350
_PLAUSIBLE: Final = (150, 1200)
_CODE: Final = ("document", "stylesheet", "script")
_BY_SUFFIX: Final = {
    ".css": "text/css", ".js": "application/x-javascript", ".gif": "image/gif", ".jpg": "image/jpeg",
    ".png": "image/png", ".swf": "application/x-shockwave-flash",
}  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """The place where a text names a resource: byte `offset` of the `length` bytes of item number `owner`."""

    owner: int
    offset: int
    length: int


@dataclass
class Item:
    """A resource of the new page. Items from the browser's cache have no `fetch`, and so no times."""

    url: str
    status: int
    mime: str
    charset: str
    body: Body
    fetch: Fetch | None
    location: str | None = None
    reference: Reference | None = None
    wire_bytes: int = 0
    request_header: int = 0
    response_header: int = 0
    entry: Exchange = field(init=False)

    @property
    def span(self) -> tuple[float, float] | None:
        return (self.fetch.start_ms, self.fetch.end_ms) if self.fetch else None


def build_page(name: str, log: FetchLog, folder: Path, others: Iterable[Path]) -> Page:
    """Return the page `name`, made from its log and the folder of saved bodies.

    `others` are files that belong to the logs of other pages. A file that is in no log, but named by a text
    of this page, was in the browser's cache."""
    notes: list[str] = []
    items = _fetched(log, folder, notes)
    _set_references(items)
    if log.counters.get("disk_cache.hit"):
        items += _from_cache(items, log, folder, {*others, *claimed(log, folder)}, notes)
    _sizes(items, log, notes)
    _headers(items, log, notes)
    entries = [_entry(order, item, items) for order, item in enumerate(items)]
    for item, entry in zip(items, entries, strict=True):
        item.entry = entry
    chains.link_chains(entries)
    first = min(entries, key=lambda e: (e.at.start, e.order))
    ordered, document = in_order(entries, first.url, Notes())
    counts = Notes()
    initiators, _ = InitiatorResolver(ordered, document, counts).find_all()
    counts.update(evidence for _, evidence in initiators)
    by_entry = {id(item.entry): item for item in items}
    resources = [
        _resource(by_entry[id(entry)], entry, parent, ordered, items)
        for entry, (parent, _) in zip(ordered, initiators, strict=True)
    ]
    event = first.at.start + log.counters.get("tfo.page_load_timer", 0) - max(e.at.end for e in ordered)
    notes += _common_notes(log, counts)
    return Page(
        format="fastopen-page/1",
        name=name,
        url=resources[0].url,
        source="snapshot and browser log of one load in March 2013 (the four pages of the TFO paper)",
        initiators="inferred",
        load_event_processing_us=max(0, round(event * 1000)),
        notes=tuple(notes),
        resources=tuple(resources),
    )


def claimed(log: FetchLog, folder: Path) -> set[Path]:
    """Return the files with the bodies of the responses in this log."""
    files = (file_of(fetch.url, log.renamed, folder) for fetch in log.fetches)
    return {file for file in files if file is not None}


def _fetched(log: FetchLog, folder: Path, notes: list[str]) -> list[Item]:
    """Return the resources fetched over the network. A redirect's saved file contains the target's body."""
    led_to: dict[str, Path] = {}
    items: list[Item] = []
    missing = 0
    for fetch in sorted(log.fetches, key=lambda f: (f.start_ms, f.end_ms)):
        url = urls.cleaned(fetch.url)
        if url is None:
            continue
        file = file_of(fetch.url, log.renamed, folder) or led_to.get(url)
        location = urls.cleaned(fetch.location, base=url) if fetch.location else None
        if location is not None and file is not None:
            led_to.setdefault(location, file)
        data = b""
        if location is None and file is not None:
            data = file.read_bytes()
        elif location is None and not body_is_empty("GET", fetch.status):
            missing += 1
        # This project loads pages with an empty cache, so a body that was not modified (304) has to be sent.
        status = 200 if fetch.status == 304 else fetch.status
        body = Body(b"" if body_is_empty("GET", status) else data, fetch.mime)
        items.append(Item(url, status, fetch.mime, fetch.charset, body, fetch, location))
    unchanged = sum(fetch.status == 304 for fetch in log.fetches)
    if unchanged:
        notes.append(f"resources answered with 304 in the log, but sent whole here: {unchanged}")
    if missing:
        notes.append(f"resources without a saved body, assumed to be empty: {missing}")
    return items


def _set_references(items: Sequence[Item]) -> None:
    """Set the reference of each item but the first: the place in another item's text that names the item."""
    for item in items[1:]:
        item.reference = _best_reference(item, items)


def _best_reference(item: Item, among: Sequence[Item]) -> Reference | None:
    """Return the place where a text in `among` names the item; None if no text that may have started before
    the item does. Of several such texts, take the one that was completely received last before the item
    started or, if none was complete by then, the first of them in `among`."""
    ended: list[tuple[float, int, Reference]] = []
    started: list[Reference] = []
    for owner, text in enumerate(among):
        if text is item or not is_text(text.mime) or not text.body.data or kind_of(text) not in _CODE:
            continue
        if item.span and text.span and text.span[0] >= item.span[0]:
            continue
        offset = find_reference(text.body.data, item.url, text.url)
        if offset is None:
            continue
        found = Reference(owner, offset, len(text.body.data))
        if item.span and text.span and text.span[1] <= item.span[0]:
            ended.append((text.span[1], owner, found))
        else:
            started.append(found)
    return max(ended)[2] if ended else (started[0] if started else None)


def kind_of(item: Item) -> str:
    return kinds.type_of(item.url, item.mime)


def _from_cache(
    items: list[Item], log: FetchLog, folder: Path, taken: set[Path], notes: list[str]
) -> list[Item]:
    """Return items for files that the browser had cached: files in no log that the page's texts name."""
    candidates: dict[str, Item] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path not in taken):
        raw = url_of(file, folder, log.renamed)
        url = urls.cleaned(raw) if raw else None
        if url is None or any(item.url == url for item in items):
            continue
        mime = _BY_SUFFIX.get(Path(url.partition("?")[0]).suffix.lower(), "text/html")
        data = file.read_bytes()
        if data:
            candidates.setdefault(url, Item(url, 200, mime, "", Body(data, mime), None))
    found: list[Item] = []
    grown = True
    while grown:
        grown = False
        for url, item in list(candidates.items()):
            item.reference = _best_reference(item, [*items, *found])
            if item.reference is not None:
                found.append(candidates.pop(url))
                grown = True
    hits = log.counters["disk_cache.hit"]
    notes.append(
        f"resources that the browser had in its cache and the page's texts name, sent here: {len(found)} "
        f"(the log counts {hits} cache hits, requests repeated included); they have no times of their own"
    )
    return found


def _sizes(items: Sequence[Item], log: FetchLog, notes: list[str]) -> None:
    """Set the size of each body on the wire. Compressed text gets its size after gzip, scaled so that
    these sizes add up to their total in the browser's log, if this takes a factor between 0.8 and 1.25."""
    fetched = [item for item in items if item.fetch is not None and item.fetch.status != 304]
    plain = _sum(log, "ShouldHaveBeenCompressed")
    packed = _sum(log, "BytesBeforeCompression")
    raw = never_compressed([item.body for item in fetched], *plain)
    zipped = [i for i, item in enumerate(fetched) if i not in raw and is_text(item.mime) and item.body.data]
    guess = sum(fetched[i].body.deflated() for i in zipped)
    scale = packed[1] / guess if guess and packed[1] else 1.0
    if not 0.8 <= scale <= 1.25:
        notes.append(f"the log's sum of compressed bodies is {scale:.2f} of gzip's: gzip's sizes kept")
        scale = 1.0
    else:
        notes.append(
            f"compressed sizes: gzip of each saved text, all scaled by {scale:.4f} to the log's sum "
            f"of {packed[1]} bytes; text bodies that came uncompressed: {plain[0]} of {plain[1]} bytes"
        )
    untouched = {id(fetched[i]) for i in raw}
    for item in items:
        size = len(item.body.data)
        if id(item) not in untouched and is_text(item.mime) and size:
            size = min(size, round(item.body.deflated() * scale))
        item.wire_bytes = size


def _sum(log: FetchLog, what: str) -> tuple[int, int]:
    """Return the number of samples of a histogram and their sum, over plain and encrypted connections."""
    both = [log.samples.get(f"Net.Compress.{how}.{what}") for how in ("NoProxy", "SSL")]
    return sum(s.count for s in both if s), sum(s.total for s in both if s)


def _entry(order: int, item: Item, items: Sequence[Item]) -> Exchange:
    """Return the item as an exchange, for finding its initiator. A cached item starts when the text
    that names it arrives."""
    start, end = item.span or _would_start(item, items)
    owner = "" if item.reference is None or _was_held_back(item, items) else items[item.reference.owner].url
    return Exchange(
        order=order,
        initiators=[owner] if owner else (),
        url=item.url,
        status=item.status,
        type=kinds.type_of(item.url, item.mime),
        mime=item.mime,
        times=Times(start, start, start, end),
        body_bytes=item.wire_bytes,
        location=item.location,
    )


def _was_held_back(item: Item, items: Sequence[Item]) -> bool:
    """Return True if the browser requested the item long after the text that names it, and received a script
    or style sheet in between.

    The browser then waited for this code: the parser waits for scripts, and layout, which requests background
    images, waits for stylesheets. Importers then choose the initiator by time: the latest such code."""
    owner = items[item.reference.owner].span if item.reference else None
    if item.span is None or owner is None or item.span[0] - owner[1] <= HELD_BACK_MS:
        return False
    code = (i.span for i in items if i.span is not None and kind_of(i) in ("script", "stylesheet"))
    return any(owner[1] < span[1] <= item.span[0] for span in code)


def _would_start(item: Item, items: Sequence[Item]) -> tuple[float, float]:
    """Return the earliest time in ms at which a cached item can have been requested, twice: as its start and
    as its end."""
    reference = item.reference
    assert reference is not None
    owner = items[reference.owner]
    started, ended = owner.span or _would_start(owner, items)
    share = reference.offset / reference.length if kind_of(owner) == "document" else 1.0
    start = started + (ended - started) * share + 0.001
    return start, start


def _resource(
    item: Item, entry: Exchange, parent: int | None, ordered: Sequence[Exchange], items: Sequence[Item]
) -> Resource:
    above = ordered[parent] if parent is not None else None
    at_bytes, processing = (None, 0.0) if above is None else _trigger(item, entry, above, items)
    return Resource(
        url=shortened(item.url),
        status=item.status,
        type=entry.type if above else "document",
        mime=_mime(item),
        request_header_bytes=item.request_header,
        response_header_bytes=item.response_header,
        body_bytes=item.wire_bytes,
        initiator=parent,
        initiator_at_bytes=at_bytes,
        processing_us=max(0, round(processing * 1000)),
        redirect_to=shortened(item.location) if item.location else None,
    )


def _trigger(item: Item, entry: Exchange, above: Exchange, items: Sequence[Item]) -> tuple[int | None, float]:
    """Return the number of bytes of the initiator that precede the request (None: all), and the milliseconds
    of processing after these bytes.

    The number is the position of the item's name in the initiator if it was found. Otherwise it is estimated
    from the time of the request, as if the initiator's bytes had arrived at a constant rate."""
    if item.fetch is not None and entry.at.start >= above.at.end:
        return None, entry.at.start - above.at.end
    if above.type != "document":
        return None, 0.0
    began, lasted = above.at.start, above.at.end - above.at.start
    share = (entry.at.start - began) / lasted if lasted > 0 else 0.0
    if item.reference is not None and items[item.reference.owner].entry is above:
        share = item.reference.offset / item.reference.length
    return int(above.body_bytes * min(max(share, 0.0), 1.0)), 0.0


def _mime(item: Item) -> str:
    mime = item.mime or "application/octet-stream"
    return f"{mime}; charset={item.charset}" if item.charset else mime


def _headers(items: Sequence[Item], log: FetchLog, notes: list[str]) -> None:
    """Set the sizes of headers. A request gets the size of its request line and Host field (`_line_bytes`),
    and an equal share of the other bytes that the log counts as written. A response gets an equal share of
    the bytes read, other than bodies, or a typical size if this share is implausible."""
    fetched = [item for item in items if item.fetch is not None]
    written = log.counters.get("tcp.write_bytes", 0) - sum(_line_bytes(item.url) for item in fetched)
    common = round(written / len(fetched))
    sent = sum(i.wire_bytes for i in fetched if i.fetch is not None and i.fetch.status != 304)
    average = round((log.counters.get("tcp.read_bytes", 0) - sent) / len(fetched))
    if not _PLAUSIBLE[0] <= average <= _PLAUSIBLE[1]:
        notes.append(f"response headers taken as {_TYPICAL_RESPONSE_HEADER} bytes each")
        average = _TYPICAL_RESPONSE_HEADER
    else:
        notes.append(f"response headers: {average} bytes each, from the log's bytes read minus the bodies")
    notes.append(f"request headers: request line and host, and {common} bytes each from the log's total")
    for item in items:
        item.request_header = _line_bytes(item.url) + common
        item.response_header = average


def _line_bytes(url: str) -> int:
    """Return the number of bytes of the request line, the Host field and the blank line of a GET request."""
    return len(f"GET {urls.target_of(url)} HTTP/1.1\r\nHost: {urls.host_of(url)}\r\n\r\n")


def _common_notes(log: FetchLog, counts: Notes) -> list[str]:
    handshake = log.samples.get("Net.TCP_Connection_Latency")
    first_byte = log.samples.get("Net.HttpTimeToFirstByte")
    notes = [
        "bodies of redirects are unknown and assumed to be empty",
        f"initiators whose saved text contains the resource's name: {counts['recorded']}",
        f"resources that follow a redirect: {counts['chained']}",
        f"initiators inferred from times and types: {counts['inferred']}",
        "server think time is unknown and assumed to be 0",
    ]
    if handshake and handshake.count and first_byte and first_byte.count:
        notes.append(
            f"in the log, a TCP handshake took {handshake.total / handshake.count:.0f} ms "
            f"and the first byte {first_byte.total / first_byte.count:.0f} ms, on average"
        )
    return notes
