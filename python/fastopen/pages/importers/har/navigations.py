"""Split what a recorder calls one page at the navigations within it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fastopen.pages.importers import chains
from fastopen.pages.importers.exchange import Exchange
from fastopen.pages.importers.head import PageHead
from fastopen.pages.importers.notes import Notes

# Nothing was under way for this long before a navigation: scripts insert frames sooner.
_IDLE_MS: Final = 5_000.0


def split(page: PageHead, entries: Sequence[Exchange], notes: Notes) -> list[tuple[PageHead, list[Exchange]]]:
    """Return the page, or a page for each navigation: a document that nothing asked for, after a pause."""
    ordered = sorted(entries, key=chains.in_time)
    starts = [0]
    ended = ordered[0].at.end
    for number, entry in enumerate(ordered[1:], start=1):
        if entry.at.start >= ended + _IDLE_MS and _is_navigation(entry):
            starts.append(number)
        ended = max(ended, entry.at.end)
    if len(starts) == 1:
        return [(page, list(entries))]
    notes.add("navigations", len(starts))
    bounds = [ordered[number].at.start for number in starts[1:]]
    loaded_at = None if page.started is None or page.on_load is None else page.started + page.on_load
    found: list[tuple[PageHead, list[Exchange]]] = []
    for number, (first, last) in enumerate(zip(starts, [*starts[1:], len(ordered)], strict=True)):
        began = page.started if number == 0 and page.started is not None else ordered[first].at.start
        until = bounds[number] if number < len(bounds) else float("inf")
        own = loaded_at is not None and began <= loaded_at < until
        on_load = loaded_at - began if loaded_at is not None and own else None
        title = page.title if number == 0 else ""
        head = replace(page, title=title, started=began, on_load=on_load, members=[])
        own_entries = {*ordered[first:last]}
        found.append((head, [one for one in entries if one in own_entries]))
    return found


def _is_navigation(entry: Exchange) -> bool:
    """Return True for the document of a window that no script or element asked for."""
    return entry.type == "document" and entry.before is None and not entry.embedded
