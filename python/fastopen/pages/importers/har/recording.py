"""Import the pages of a HAR: find the entries of each page that used the network, and build the page."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from fastopen.common.errors import InputError
from fastopen.common.grouping import grouped
from fastopen.pages import url as urls
from fastopen.pages.files import stem_of
from fastopen.pages.importers import chains, coerce
from fastopen.pages.importers.exchange import Exchange, HarPage
from fastopen.pages.importers.har.entry import WRITERS, Writer, answered_locally, read_entry
from fastopen.pages.importers.har.parts import BodyStripper, HarEntry
from fastopen.pages.importers.har.stream import Scanner, read_json
from fastopen.pages.importers.notes import Notes
from fastopen.pages.importers.timed import page_with_times
from fastopen.pages.recording import ImportedPage

# A HAR's page may seem to start up to this long after its document.
_PAGE_SLACK_MS: Final = 10.0
# Only a document after this long without requests begins another page load. Earlier, it may be a frame.
_IDLE_MS: Final = 5_000.0
# Maps reasons to leave out entries (keys of notes.SENTENCES) to texts for the error if no entry is left.
_REASONS: Final = {
    "cached": "came from the recorder's cache",
    "mocked": "got an answer from a service worker, test script or override",
    "api": "came from a test script",
    "internal": "took a redirect of the browser itself",
    "failed": "failed or got no final response",
    "websocket": "opened a WebSocket",
    "event_stream": "opened an event stream",
    "scheme": "needed no server",
    "no_host": "had no valid host or port",
    "certificate": "checked certificates",
    "broken": "could not be read",
}
_EXPORT: Final = "export it again, as HAR with content"


def read_har(read: Callable[[int], str], place: str, *, lenient: bool) -> list[ImportedPage] | dict[str, Any]:
    """Return the pages of a HAR, or the JSON object of a page file. `read(size)` returns the next characters.
    Raises InputError if the text is neither, or is damaged. With `lenient`, skip damaged entries."""
    notes = Notes()
    found = read_json(Scanner(read, place), BodyStripper(), notes, lenient=lenient)
    if isinstance(found, dict) and "log" not in found:
        if found.keys().isdisjoint(("format", "resources")):
            raise InputError('not a HAR or page: the top-level "log" or "format" is missing', place, _EXPORT)
        return found
    return pages_of_log(found, place, notes, lenient=lenient)


def pages_of_log(data: object, place: str, notes: Notes, *, lenient: bool) -> list[ImportedPage]:
    """Return the pages of the decoded HAR `data`, whose entries have passed through a BodyStripper, which
    moves bodies out of them. Raises InputError if the HAR is invalid, or skips entries if `lenient`."""
    log = data.get("log") if isinstance(data, dict) else None
    if not isinstance(log, dict):
        raise InputError("not a HAR: it has no log object", place, _EXPORT)
    entries = log.get("entries")
    if not isinstance(entries, list):
        raise InputError("not a HAR: log.entries is not a list", place, _EXPORT)
    if entries and not any(map(_is_timed, entries)):
        raise InputError("no entry has a start time or timings", place, _EXPORT)
    starts = [coerce.mapping(entry).get("startedDateTime") for entry in entries]
    unreadable = next((start for start in starts if coerce.text(start)), None)
    if unreadable is not None and not any(coerce.moment_ms(start) is not None for start in starts):
        remedy = "write startedDateTime as ISO 8601, such as 2026-11-29T10:00:00.000Z"
        raise InputError(f"cannot read any start time, such as {unreadable[:40]!r}", place, remedy)
    creator = coerce.text(coerce.mapping(log.get("creator")).get("name")).strip().lower() + " "
    writer = next((one for name, one in WRITERS.items() if creator.startswith(name + " ")), Writer())
    pages = _pages(log, entries, writer, notes)
    for page in pages:
        _read(page, entries, place, lenient, writer)
    usable = [load for page in pages if page.exchanges for load in _split(page)]
    if not usable:
        raise _no_request_error(place, pages)
    usable = _with_documents(usable, place, notes, lenient=lenient)
    stem = stem_of(place, (".gz", ".json", ".zip", ".har"))
    found = []
    for number, page in enumerate(usable, start=1):
        name = stem if len(usable) == 1 else f"{stem}#{number}"
        source = _source(log, entries[page.exchanges[0].order])
        found.append(page_with_times(page, name, source, Notes(page.notes + notes), place))
    return found


def _split(page: HarPage) -> list[HarPage]:
    """Split a HAR's page into its page loads. A new load begins with a document after 5 s without requests,
    unless a redirect, script or element led to the document."""
    ordered = sorted(page.exchanges, key=chains.start_order)
    loads: list[list[Exchange]] = [[]]
    ended = ordered[0].at.end
    for entry in ordered:
        is_navigation = entry.type == "document" and entry.before is None and not entry.embedded
        if is_navigation and entry.at.start >= ended + _IDLE_MS:
            loads.append([])
        loads[-1].append(entry)
        ended = max(ended, entry.at.end)
    if len(loads) == 1:
        return [page]
    page.notes.add("navigations", len(loads))
    loaded_at = None if page.started is None or page.on_load is None else page.started + page.on_load
    found: list[HarPage] = []
    for number, load in enumerate(loads):
        began = page.started if number == 0 and page.started is not None else load[0].at.start
        until = loads[number + 1][0].at.start if number + 1 < len(loads) else float("inf")
        on_load = loaded_at - began if loaded_at is not None and began <= loaded_at < until else None
        title = page.title if number == 0 else ""
        load.sort(key=lambda entry: entry.order)
        found.append(replace(page, title=title, started=began, on_load=on_load, exchanges=load))
    return found


def _is_timed(entry: object) -> bool:
    raw = coerce.mapping(entry)
    return "startedDateTime" in raw or bool(coerce.mapping(raw.get("timings"))) or "_load_start" in raw


def _no_request_error(place: str, pages: Sequence[HarPage]) -> InputError:
    counts = {words: sum(page.notes[key] for page in pages) for key, words in _REASONS.items()}
    reasons = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    cached = counts[_REASONS["cached"]] > 0
    if not reasons:
        return InputError("the HAR lists no requests", place, "load the page completely and export it again")
    remedy = "record the page with an empty cache" if cached else "record a complete load of the page"
    return InputError(f"no request can be loaded again: {reasons}", place, remedy)


def _with_documents(pages: list[HarPage], place: str, notes: Notes, *, lenient: bool) -> list[HarPage]:
    found = [page for page in pages if _has_document(page)]
    if found:
        notes.add("without_document", len(pages) - len(found))
        return found
    if not lenient:
        first = min(pages[0].exchanges, key=lambda e: (e.at.start, e.order))
        message = f"has no document; the first request is a {first.method} of type {first.type}"
        raise InputError(message, place, "record a complete load of the page, or use --lenient")
    for page in pages:
        page.notes.add("no_document")
    return pages


def _has_document(page: HarPage) -> bool:
    kinds, titled = ("document", "other"), urls.cleaned(page.title)
    return any(one.type in kinds or one.url == titled or one.base_page for one in page.exchanges)


def _pages(log: Mapping[str, Any], entries: Sequence[object], writer: Writer, notes: Notes) -> list[HarPage]:
    """Return the pages of a HAR, with the indices of their entries. An entry belongs to the page that its
    `pageref` names, or else to the page that was loading when the entry started. If the HAR declares no
    pages, each `pageref` is a page."""
    declared = log.get("pages")
    listed = [page for page in declared if isinstance(page, dict)] if isinstance(declared, list) else []
    refs = [_pageref(entry) for entry in entries]
    pages = [_har_page(page, str(number), writer) for number, page in enumerate(listed)]
    pages = pages or [HarPage(ref) for ref in dict.fromkeys(refs) if ref is not None] or [HarPage("")]
    by_id = grouped((page.id, page) for page in pages)
    # Of pages with the same start, the HAR's first comes last here, so that bisection finds it.
    in_time = sorted((page for page in reversed(pages) if page.started is not None), key=_start)
    in_time_by_id = grouped((page.id, page) for page in in_time)
    for index, (entry, ref) in enumerate(zip(entries, refs, strict=True)):
        if ref is not None and ref in by_id:
            named, started = by_id[ref], in_time_by_id.get(ref, ())
        else:
            named, started = pages, in_time
            if len(pages) > 1 or ref is not None:
                notes.add("no_pageref" if ref is None else "pageref")
        page = named[0] if len(named) == 1 else _at_that_time(started, entry) or named[0]
        page.members.append(index)
    return pages


def _start(page: HarPage) -> float:
    return page.started or 0.0


def _har_page(page: Mapping[str, Any], fallback: str, writer: Writer) -> HarPage:
    identity = page.get("id")
    timings, load = coerce.mapping(page.get("pageTimings")), coerce.mapping(page.get("_fastopen"))
    network = load.get("network")
    return HarPage(
        id=str(identity) if isinstance(identity, (str, int)) else fallback,
        title=coerce.text(page.get("_url") or page.get("title")),  # Browsertime's titles are not URLs
        started=coerce.moment_ms(page.get("startedDateTime")),
        inspector_clock=writer.load_event_of_inspector,
        on_load=coerce.milliseconds(timings.get("onLoad")) or None,
        down_bit_per_s=_rate(page.get("_bwDown")),
        up_bit_per_s=_rate(page.get("_bwUp")),
        # With TFO, the recorded times lack round trips.
        network=network if isinstance(network, dict) and load.get("cookies") is None else None,
    )


def _rate(kbit_per_s: object) -> int | None:
    """Convert a recorded rate to bit/s; None if it is invalid, or 0 (WebPageTest without traffic shaping)."""
    found = coerce.number(kbit_per_s)
    return round(found * 1000) if found is not None and 0 < found < 1e7 else None


def _pageref(entry: object) -> str | None:
    ref = entry.get("pageref") if isinstance(entry, dict) else None
    return str(ref) if isinstance(ref, (str, int)) and ref != "" else None


def _at_that_time(pages: Sequence[HarPage], entry: object) -> HarPage | None:
    start = coerce.moment_ms(coerce.mapping(entry).get("startedDateTime"))
    number = 0 if start is None else bisect_right(pages, start + _PAGE_SLACK_MS, key=_start)
    return pages[number - 1] if number else None


def _read(page: HarPage, raws: Sequence[object], place: str, lenient: bool, writer: Writer) -> None:
    """Fill in the page's `exchanges`, in the order of the HAR, and `notes`. `raws` lists all entries of the
    HAR. Raises InputError for an invalid entry, or skips it if `lenient`."""
    for index in page.members:
        try:
            entry = read_entry(raws[index], index, f"{place}: log.entries[{index}]", page, writer)
        except InputError as error:
            if not lenient:
                raise InputError(error.message, error.place, "skip such entries with --lenient") from None
            page.notes.add("broken")
            continue
        if entry is not None:
            page.exchanges.append(entry)
    _move_wrong_starts(page.exchanges, page.notes)
    page.exchanges = _without_cached(page.exchanges, raws, page.notes)


def _move_wrong_starts(entries: Sequence[Exchange], notes: Notes) -> None:
    """If an entry starts over a day from the median (wrong clock), move it to the previous entry's start."""
    starts = sorted(entry.at.start for entry in entries)
    middle = starts[len(starts) // 2] if starts else 0.0
    previous = middle
    for entry in entries:
        if abs(entry.at.start - middle) > coerce.MAX_MS:
            notes.add("started")
            entry.at.move(previous - entry.at.start)
        previous = entry.at.start


def _without_cached(entries: list[Exchange], raws: Sequence[Any], notes: Notes) -> list[Exchange]:
    """Return the entries that used the network, and the page's document even if it came from the cache. Also
    set `before` of each entry to the redirect or CORS preflight that led to it."""
    timed = any((one.at.wait or 0) > 0 for one in entries)
    answers = ((one, answered_locally(HarEntry(raws[one.order]), one.at, timed)) for one in entries)
    local = {one: reason for one, reason in answers if reason is not None}
    chains.link_chains(entries)
    replaced = _replaced(entries, local)
    others = (entry for entry in entries if entry not in replaced)
    first = min(others, key=lambda e: (e.at.start, e.order), default=None)
    if first in local and first is not None and first.type == "document" and len(local) < len(entries):
        chain = [one for one in entries if chains.head(one) is first]
        root = max(chain, key=chains.start_order)
        if all(one in local for one in chain) and local[root] != "internal":
            notes.add("cached_root")
            # The cache answered without a round trip, so the wait does not show the RTT.
            root.at.wait = None
            del local[root]
    notes.update(local.values())
    kept = [entry for entry in entries if entry not in local]
    chains.leave_out(local.keys(), kept)
    return kept


def _replaced(entries: Sequence[Exchange], local: Mapping[Exchange, str]) -> set[Exchange]:
    """Let the requests of service workers take the places of the page's requests that they answer meanwhile.
    Return the page's requests. `local` maps the entries that did not use the network to the reasons."""
    start = attrgetter("at.start")
    ordered = sorted((one for one in entries if one not in local and one.type == "xhr"), key=start)
    fetches = grouped((one.url, one) for one in ordered)
    found: set[Exchange] = set()
    for asked in (one for one, reason in local.items() if reason == "mocked"):
        of_url = fetches.get(asked.url, [])
        at = bisect_left(of_url, asked.at.start, key=start)
        if at < len(of_url) and of_url[at].at.start <= asked.at.end:
            fetch = of_url.pop(at)
            fetch.type, fetch.delays_load_event = asked.type, asked.delays_load_event
            fetch.initiators, fetch.referer = asked.initiators, asked.referer
            found.add(asked)
    return found


def _source(log: Mapping[str, Any], first: object) -> str:
    makers = (coerce.mapping(log.get(key)) for key in ("creator", "browser"))
    names = (f"{coerce.text(one.get('name'))} {coerce.text(one.get('version'))}".strip() for one in makers)
    by = ", ".join(filter(None, dict.fromkeys(map(coerce.label, names))))  # Firefox writes its name twice
    return coerce.source_of("HAR", by, coerce.text(coerce.mapping(first).get("startedDateTime")))
