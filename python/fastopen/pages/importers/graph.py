"""Find the first requests of pages, and initiators, without using times: follow references and redirects."""

from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

from fastopen.common.grouping import grouped
from fastopen.pages import budget
from fastopen.pages import url as urls
from fastopen.pages.importers import coerce, kinds
from fastopen.pages.importers.chains import PARTS, first_navigated
from fastopen.pages.importers.exchange import Edge, Exchange
from fastopen.pages.importers.messages import unpacked
from fastopen.pages.references import UrlIndex, find_reference

# A function of (exchange with the reference, reference as written, base URL). Returns the URL or None.
Resolve = Callable[[Exchange, str, str], str | None]
_TEXTS_IN_MEMORY: Final = 32
# A document that leads to more exchanges than this, itself included, is a page and not an advertisement.
_LEAST_REACH: Final = 5


def as_url(_: Exchange, written: str, base: str) -> str | None:
    """Resolve a reference as browsers do. Return None if it does not lead to an http or https URL."""
    return urls.cleaned(written, base=base)


class Graph:
    """The exchanges (requests and responses) of a recording, and the references between them."""

    def __init__(self, exchanges: Sequence[Exchange], resolve: Resolve = as_url) -> None:
        self.exchanges = exchanges
        # The exchanges of each URL, GETs first: references and redirects lead to the response of a GET.
        # Errors are last: crawlers try again after them, and clients send credentials after 401.
        best_first = sorted(
            enumerate(exchanges), key=lambda pair: (pair[1].method != "GET", _failed(pair[1]))
        )
        self.by_url = grouped((exchange.url, index) for index, exchange in best_first)
        # The exchanges found so far whose text cannot be unpacked, and those to which hyperlinks lead.
        self.unreadable: set[int] = set()
        self.linked: set[int] = set()
        # Maps an exchange to other URLs with the same response: unrecorded choices of a picture, and URLs by
        # which texts refer to the exchange, if they differ from its own, as in a mirror.
        self.alternatives: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._resolve = resolve
        self._index = UrlIndex(exchange.url for exchange in exchanges)
        self._text = lru_cache(maxsize=_TEXTS_IN_MEMORY)(self._read)
        self._targets = lru_cache(maxsize=None)(self._parsed)
        # Maps an exchange to the exchanges whose URLs may occur in its text.
        self._possible = lru_cache(maxsize=None)(lambda i: self._index.candidates_in(self._text(i) or b""))

    def reached(self, root: int) -> dict[int, Edge]:
        """Find all exchanges of the page that begins with the exchange `root`: follow redirects, and the URLs
        in documents, stylesheets and scripts. Map the index of each exchange to the link (edge) to its
        initiator. Initiators come before the exchanges that they initiate."""
        edges = self.referenced(root)
        while news := self._spelled(edges):
            self.add_referenced(edges, news)
        return edges

    def referenced(self, root: int) -> dict[int, Edge]:
        """Follow redirects, and references in documents and stylesheets, from the exchange `root`. Map the
        index of each exchange found, and of `root`, to the link to its initiator. Initiators come first."""
        edges: dict[int, Edge] = {root: Edge(None)}
        self.add_referenced(edges, [root])
        return edges

    def add_referenced(self, edges: dict[int, Edge], started: Iterable[int]) -> None:
        """Follow redirects, and references in documents and stylesheets, from the exchanges `started`. Add
        the exchanges found to `edges`, which maps an exchange's index to the link to its initiator."""
        # Breadth-first, because resources near the root are requested earlier.
        waiting = deque(started)
        while waiting:
            index = waiting.popleft()
            exchange = self.exchanges[index]
            recorded = self.by_url.get(exchange.location or "", ())
            led_to = next((other for other in recorded if other not in edges), None)
            if led_to is not None:
                edges[led_to] = Edge(index, None, edges[index].type, "redirected")
                waiting.append(led_to)
            for target, edge in self._targets(index):
                if target not in edges:
                    edges[target] = edge
                    waiting.append(target)

    def redirected_from(self, documents: Iterable[int]) -> set[str]:
        """Return the URLs to which the `documents`, given by their indices, redirect by their markup."""
        edges = (pair for index in documents for pair in self._targets(index))
        return {self.exchanges[target].url for target, edge in edges if edge.evidence == "redirected"}

    def on_other_pages(self, started: Iterable[int]) -> set[int]:
        """Return the indices of the exchanges that belong to other pages of the recording: the exchanges
        `started`, and all exchanges to which redirects, references and hyperlinks lead from there."""
        found = set(started)
        waiting = deque(found)
        while waiting:
            index = waiting.popleft()
            targets = {target for target, _ in self._targets(index)} | self.linked
            targets.update(self.by_url.get(self.exchanges[index].location or "", ()))
            waiting.extend(targets - found)
            found |= targets
        return found

    def _read(self, index: int) -> bytes | None:
        exchange = self.exchanges[index]
        if exchange.type not in kinds.CODE or not exchange.body_bytes:
            return None
        if exchange.text is not None:
            return exchange.text.read()
        if exchange.recorded is None:
            return None
        text = unpacked(exchange.recorded.read(), exchange.coding)
        if text is None:
            self.unreadable.add(index)
        return text

    def _parsed(self, index: int) -> list[tuple[int, Edge]]:
        """Parse the response of exchange `index`. Return the index of each recorded request to which the
        response refers, in document order, with the link (edge) to this initiator. Also add to `linked` the
        requests to which hyperlinks lead, and to `alternatives` other URLs for the response of a request."""
        exchange = self.exchanges[index]
        text = self._text(index) if exchange.type != "script" else None
        if not text:
            return []
        # Imported here because importing the parsers takes a tenth of a second, and not all inputs need them.
        from fastopen.pages.references.parsed import references_in

        references = references_in(text, exchange.type, coerce.charset(exchange.mime))
        base = exchange.url
        with suppress(ValueError):
            base = urljoin(exchange.url, references.base or "")
        found = []
        # For each picture: its first recorded choice, and the URLs of unrecorded choices.
        recorded: dict[int, int] = {}
        missing: defaultdict[int, dict[str, None]] = defaultdict(dict)
        for reference in references.found:
            budget.work(budget.NAME_STEPS)
            url = self._resolve(exchange, reference.url, base)
            known = self.by_url.get(url, ()) if url is not None else ()
            written = urls.cleaned(reference.url, base=base)
            if reference.picture is not None:
                if known:
                    recorded.setdefault(reference.picture, known[0])
                elif missed := url or written:
                    missing[reference.picture][missed] = None
            for other in known[:1]:
                if written is not None and written != url:
                    self.alternatives[other][written] = None
                if reference.link:
                    self.linked.add(other)
                elif other != index:
                    # A document redirects only after it has loaded.
                    at_bytes = None if reference.redirect else self._at(index, reference.at, len(text))
                    evidence = "redirected" if reference.redirect else "referenced"
                    found.append((other, Edge(index, at_bytes, reference.type, evidence)))
        for picture, other in recorded.items():
            if missing[picture]:
                self.alternatives[other].update(missing[picture])
        return found

    def _at(self, index: int, offset: int, length: int) -> int | None:
        """Convert an offset in a text of `length` bytes to an offset in the body, which may be compressed.
        Return None if the text is not a document: browsers use other texts only as a whole."""
        exchange = self.exchanges[index]
        if exchange.type != "document":
            return None
        return min(exchange.body_bytes, -(-exchange.body_bytes * offset // length))

    def _spelled(self, edges: dict[int, Edge]) -> list[int]:
        """Search the texts of a page, such as scripts, for URLs of recorded requests that are not part of the
        page yet. Add these requests to `edges`, which maps each request of the page to the link to its
        initiator. Return the indices of the added requests."""
        here, known = {self.exchanges[i].url for i in edges}, edges.keys() | self.linked
        missing = {i for i, one in enumerate(self.exchanges) if i not in known and one.url not in here}
        missing -= {i for i in missing if self.repeats(i, range(i))}
        news: list[int] = []
        # Scripts first, because requests without a reference usually come from scripts.
        for index in sorted(edges, key=lambda i: self.exchanges[i].type != "script"):
            text = self._text(index) if missing else None
            if not text:
                continue
            for other in sorted(missing.intersection(self._possible(index))):
                offset = find_reference(text, self.exchanges[other].url, self.exchanges[index].url)
                if offset is not None:
                    edges[other] = Edge(index, self._at(index, offset, len(text)), None, "spelled")
                    news.append(other)
                    missing.discard(other)
        return news

    def repeats(self, index: int, others: Container[int]) -> bool:
        """Return True if exchange `index` and one of the exchanges `others` are GETs of the same URL."""
        exchange = self.exchanges[index]
        return exchange.method == "GET" and any(
            other in others and self.exchanges[other].method == "GET" for other in self.by_url[exchange.url]
        )


def _failed(exchange: Exchange) -> bool:
    return exchange.status >= HTTPStatus.BAD_REQUEST


def listed_roots(graph: Graph, pages: Sequence[str]) -> list[int]:
    """Return the index of the first request of each page, given the URLs of the pages. This is the request
    for the URL, or the first of the redirects that led to it. Skip URLs that were not recorded."""
    return _heads(graph, [graph.by_url[url][0] for url in dict.fromkeys(pages) if url in graph.by_url])


def navigated_roots(graph: Graph) -> list[int]:
    """Return the indices of the requests that the browser marked as navigations to a page."""
    navigated = [i for i, one in enumerate(graph.exchanges) if one.navigated]
    redirected = {one.location for one in graph.exchanges} | graph.redirected_from(navigated)
    answered = {graph.exchanges[i].url for i in navigated if not _failed(graph.exchanges[i])}
    named = [(i, graph.exchanges[i]) for i in navigated if graph.exchanges[i].url not in redirected]
    return [i for i, one in named if not (_failed(one) and one.url in answered)]


def first_root(graph: Graph) -> list[int]:
    """Return only the index of the first document, or of the first redirect that led to this document."""
    first = graph.exchanges.index(first_navigated(graph.exchanges, None))
    if _failed(graph.exchanges[first]):
        first = graph.by_url[graph.exchanges[first].url][0]
    return _heads(graph, [first], in_order=True)


def widest_root(graph: Graph) -> list[int]:
    """Return only the index of the document that leads to the most resources, or of the first redirect that
    led to this document. Use this for recordings in which the order of requests is unknown."""
    return _heads(graph, [_by_reach(graph)[0][1]])


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


def _by_reach(graph: Graph) -> list[tuple[int, int]]:
    """Return (size, index) of each document that may be a page, the largest size first. The size is the
    number of exchanges to which references lead from the document, including the document itself."""
    exchanges = graph.exchanges
    answered = ((i, one) for i, one in enumerate(exchanges) if not one.location and one.wants_content)
    documents = [i for i, one in answered if one.type == "document"]
    # A missing Referer shows that a person navigated to the document.
    free = [i for i in documents if exchanges[i].referer is None] or documents or [0]
    found = [(len(graph.referenced(i)), i) for i in free]
    return sorted(found, key=lambda pair: (-pair[0], len(exchanges[pair[1]].url), pair[1]))


def _heads(graph: Graph, found: Sequence[int], *, in_order: bool = False) -> list[int]:
    """Return the indices `found` of requests, with each index replaced by that of the first redirect that led
    to the request, if any. With `in_order`, ignore redirects that were recorded after the request."""
    exchanges = graph.exchanges
    redirects = [(i, e) for i, e in enumerate(exchanges) if e.location is not None and e.wants_content]
    by_target = {e.location: i for i, e in reversed(redirects) if e.type not in PARTS}
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
