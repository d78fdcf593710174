"""Find the first request of each page in a recording, from the recorder's marks or from references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from fastopen.pages import url as urls
from fastopen.pages.importers import chains
from fastopen.pages.importers.exchange import Exchange

if TYPE_CHECKING:  # graph imports brotli and zstandard, which HARs do not need
    from fastopen.pages.importers.graph import Graph

# Types of resources that are always parts of a page, never the page itself.
_PARTS: Final = ("stylesheet", "script", "image", "font", "media")
# The Referer of only one request may be a frame whose own Referer is missing, instead of a page.
_LEAST_REFERRERS: Final = 2
# A document that leads to more exchanges than this, itself included, is a page and not an advertisement.
_LEAST_REACH: Final = 5


def main_document(by_start: Sequence[Exchange], titled: str | None) -> Exchange:
    """Return the document to which the browser navigated, after redirects. Earlier requests, such as
    certificate checks, are ignored. `by_start` lists all exchanges of the page in order of start. `titled` is
    the title of the page in a HAR if it is a URL, otherwise None."""
    first = _first_navigated(by_start, titled)
    ends = [e for e in by_start if chains.head(e) is chains.head(first) and not e.is_redirect]
    documents = [e for e in ends if e.type == "document"]
    return (documents or ends or [first])[0]


def _first_navigated(by_start: Sequence[Exchange], titled: str | None) -> Exchange:
    referrers = _referrers(by_start)
    recorded = {one.url for one in by_start}

    def supported(one: Exchange) -> bool:
        return one.type not in _PARTS and referrers[one.url] >= _LEAST_REFERRERS

    rules: tuple[Callable[[Exchange], bool], ...] = (
        lambda e: titled is not None and titled in (e.url, chains.head(e).url),
        lambda e: e.base_page,
        lambda e: e.navigated,
        lambda e: e.type == "document" and supported(e) and e.referer not in recorded,
        lambda e: supported(e) and e.referer not in recorded,
        lambda e: e.type == "document" and e.referer not in recorded,
        lambda e: e.type == "document",
        lambda e: e.type not in _PARTS,
        lambda _: True,
    )
    candidates = [one for one in by_start if one.wants_content] or by_start
    found = next(one for rule in rules for one in candidates if rule(one))
    # If an earlier document led to this one, such as a challenge or a splash page, the load began there.
    for earlier in reversed(by_start[: by_start.index(found)]):
        if earlier.type == "document" and earlier.url == found.referer:
            found = earlier
    return found


def _referrers(exchanges: Sequence[Exchange]) -> Counter[str]:
    named: Counter[str] = Counter()
    for one in exchanges:
        for url in {one.referer, one.document} - {None, one.url}:
            named[url or ""] += 1
    # By default (strict-origin-when-cross-origin), browsers send only the origin as Referer to other hosts.
    origins = Counter({urls.origin_of(url): n for url, n in named.items() if urls.target_of(url) == "/"})
    for one in exchanges:
        if one.type == "document":
            named[one.url] += origins[urls.origin_of(one.url)]
    return named


def listed_roots(graph: Graph, pages: Sequence[str]) -> list[int]:
    """Return the index of the first request of each page, given the URLs of the pages. This is the request
    for the URL, or the first of the redirects that led to it. Skip URLs that were not recorded."""
    return _heads(graph, [graph.by_url[url][0] for url in dict.fromkeys(pages) if url in graph.by_url])


def navigated_or_first(graph: Graph) -> list[int]:
    """Return the indices of the requests that the browser marked as navigations to a page. If there are none,
    return only the index of the first document, or of the first redirect that led to this document."""
    first = graph.exchanges.index(_first_navigated(graph.exchanges, None))
    return _navigated(graph) or _heads(graph, [first], in_order=True)


def navigated_or_widest(graph: Graph) -> list[int]:
    """Return the indices of the requests that the browser marked as navigations to a page. If there are none,
    return only the index of the document that leads to the most resources, or of the first redirect that led
    to this document. Use this for recordings in which the order of requests is unknown."""
    return _navigated(graph) or _heads(graph, [_by_reach(graph)[0][1]])


def page_documents(graph: Graph) -> list[int]:
    """Return the indices of the documents that are pages, not frames or advertisements in pages. A document
    is a page if its references lead to at least five other resources, and it is not a part of a larger page.
    If no document is a page, return only the index of the document that leads to the most resources."""
    by_reach = _by_reach(graph)
    found: list[int] = []
    parts: set[int] = set()
    for reach, index in by_reach:
        if reach > _LEAST_REACH and index not in parts:
            found.append(index)
            parts |= graph.referenced(index).keys()
    return found or [by_reach[0][1]]


def _navigated(graph: Graph) -> list[int]:
    redirected = {one.location for one in graph.exchanges if one.location is not None}
    return [i for i, one in enumerate(graph.exchanges) if one.navigated and one.url not in redirected]


def _by_reach(graph: Graph) -> list[tuple[int, int]]:
    """Return (size, index) of each document that may be a page, the largest size first. The size is the
    number of exchanges to which references lead from the document, including the document itself."""
    exchanges = graph.exchanges
    documents = [
        i
        for i, one in enumerate(exchanges)
        if one.type == "document" and not one.location and one.wants_content
    ]
    # A missing Referer shows that a person navigated to the document.
    free = [i for i in documents if exchanges[i].referer is None] or documents or [0]
    found = [(len(graph.referenced(i)), i) for i in free]
    return sorted(found, key=lambda pair: (-pair[0], len(exchanges[pair[1]].url), pair[1]))


def _heads(graph: Graph, found: Sequence[int], *, in_order: bool = False) -> list[int]:
    """Return the indices `found` of requests, with each index replaced by that of the first redirect that led
    to the request, if any. With `in_order`, ignore redirects that were recorded after the request."""
    exchanges = graph.exchanges
    by_target = {
        e.location: i
        for i, e in reversed(list(enumerate(exchanges)))
        if e.location is not None and e.wants_content and e.type not in _PARTS
    }
    heads: dict[int, None] = {}
    taken = set(found)
    for last in found:
        index = last
        while (before := by_target.get(exchanges[index].url)) is not None and before not in taken:
            if in_order and before > last:
                break
            index = before
            taken.add(index)
        heads[index] = None
    return list(heads)
