"""Which of the recorded documents people went to: the roots of the pages."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fastopen.pages.importers.graph import Graph

# What leads to so many others is a page and not the frame of an advertisement.
_LEAST_REACH: Final = 5
_LEAST_REFERRERS: Final = 2


def navigated_or_first(graph: Graph) -> list[int]:
    """What browsers marked as a navigation (Sec-Fetch-Dest, since 2020), else the first document.

    Of several documents the first that others name as their Referer: browsers' own services come before it.
    """
    marked = _navigated(graph)
    if marked:
        return marked
    named = Counter(exchange.referer for exchange in graph.exchanges)
    documents = [i for i, e in enumerate(graph.exchanges) if e.type == "document" and not e.location]
    referred = (i for i in documents if named[graph.exchanges[i].url] >= _LEAST_REFERRERS)
    return [_head(graph, next(referred, documents[0] if documents else 0))]


def navigated_or_widest(graph: Graph) -> list[int]:
    """For recordings without an order: as above, else what leads to most of what is recorded."""
    return _navigated(graph) or [_head(graph, _by_reach(graph)[0][1])]


def all_wide(graph: Graph) -> list[int]:
    """For mirrors, which may hold many pages: what leads to five others and is no part of such."""
    by_reach = _by_reach(graph)
    found: list[int] = []
    parts: set[int] = set()
    for reach, index in by_reach:
        if reach > _LEAST_REACH and index not in parts:
            found.append(index)
            parts |= graph.named(index).keys()
    return found or [by_reach[0][1]]


def _navigated(graph: Graph) -> list[int]:
    redirected = {e.location for e in graph.exchanges if e.location is not None}
    return [i for i, e in enumerate(graph.exchanges) if e.navigated and e.url not in redirected]


def _by_reach(graph: Graph) -> list[tuple[int, int]]:
    """(how many it leads to, index) of each document that may be a root: widest first, then shortest URL."""
    exchanges = graph.exchanges
    documents = [i for i, e in enumerate(exchanges) if e.type == "document" and not e.location]
    # Only what people went to has no Referer.
    free = [i for i in documents if exchanges[i].referer is None] or documents or [0]
    found = [(len(graph.named(i)), i) for i in free]
    return sorted(found, key=lambda pair: (-pair[0], len(exchanges[pair[1]].url), pair[1]))


def _head(graph: Graph, index: int) -> int:
    """Where the redirects began that led here."""
    exchanges = graph.exchanges
    by_target = {e.location: i for i, e in reversed(list(enumerate(exchanges))) if e.location is not None}
    seen = {index}
    while (before := by_target.get(exchanges[index].url)) is not None and before not in seen:
        index = before
        seen.add(index)
    return index
