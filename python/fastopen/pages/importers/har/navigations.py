"""Split what a recorder calls one page at the navigations within it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fastopen.pages.importers import chains, fields, kinds
from fastopen.pages.importers.har.entry import Entry
from fastopen.pages.importers.har.head import PageHead
from fastopen.pages.importers.har_notes import HarNotes

# Nothing was under way for this long before a navigation: scripts insert frames sooner.
_IDLE_MS: Final = 5_000.0


def split(page: PageHead, entries: Sequence[Entry], notes: HarNotes) -> list[tuple[PageHead, list[Entry]]]:
    """Return the page, or a page for each navigation: a document that nothing asked for, after a pause."""
    ordered = sorted(entries, key=lambda e: (e.start, chains.depth(e), e.order))
    starts = [0]
    ended = ordered[0].end
    for number, entry in enumerate(ordered[1:], start=1):
        if entry.start >= ended + _IDLE_MS and _is_navigation(entry):
            starts.append(number)
        ended = max(ended, entry.end)
    if len(starts) == 1:
        return [(page, list(entries))]
    notes.add("navigations", len(starts))
    bounds = [ordered[number].start for number in starts[1:]]
    loaded_at = None if page.started is None or page.on_load is None else page.started + page.on_load
    found: list[tuple[PageHead, list[Entry]]] = []
    for number, (first, last) in enumerate(zip(starts, [*starts[1:], len(ordered)], strict=True)):
        began = page.started if number == 0 and page.started is not None else ordered[first].start
        until = bounds[number] if number < len(bounds) else float("inf")
        own = loaded_at is not None and began <= loaded_at < until
        on_load = loaded_at - began if loaded_at is not None and own else None
        title = page.title if number == 0 else ""
        head = replace(page, title=title, started=began, on_load=on_load, members=[])
        found.append((head, [one for one in entries if one in {*ordered[first:last]}]))
    return found


def _is_navigation(entry: Entry) -> bool:
    """Return True for the document of a window that no script or element asked for."""
    return (
        entry.type == "document"
        and entry.before is None
        and not kinds.is_frame(entry.raw)
        and not _has_initiator(entry.raw)
    )


def _has_initiator(raw: Mapping[str, Any]) -> bool:
    return fields.text(fields.mapping(raw.get("_initiator")).get("type")).lower() in ("script", "parser")
