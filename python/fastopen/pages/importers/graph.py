"""Find initiators of exchanges without times: follow references and redirects from the root."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import urljoin

from fastopen.pages import budget
from fastopen.pages import url as urls
from fastopen.pages.importers.assemble import Edge
from fastopen.pages.importers.exchange import Exchange
from fastopen.pages.importers.unpack import unpacked
from fastopen.pages.references import NameIndex, find_reference, names_in

# Maps (exchange with the reference, reference as written, base URL) to the URL that is meant, or None.
Resolve = Callable[[Exchange, str, str], str | None]
_CODE: Final = ("document", "stylesheet", "script")
_TEXTS_IN_MEMORY: Final = 32


@dataclass
class _Picture:
    """The choices of a picture: the index of the first recorded choice, and the URLs of unrecorded ones."""

    recorded: int | None = None
    missing: dict[str, None] = field(default_factory=dict)

    def add(self, choice: int | str | None) -> None:
        if isinstance(choice, str):
            self.missing[choice] = None
        elif self.recorded is None:
            self.recorded = choice


def as_url(_: Exchange, written: str, base: str) -> str | None:
    """Resolve a reference as browsers do. Return None if it does not lead to an http or https URL."""
    return urls.cleaned(written, base=base)


@dataclass
class Graph:
    """The exchanges of a recording in their order, and the references between them."""

    exchanges: Sequence[Exchange]
    resolve: Resolve = as_url
    by_url: dict[str, list[int]] = field(init=False)
    unreadable: set[int] = field(default_factory=set)
    linked: set[int] = field(default_factory=set)
    alternatives: defaultdict[int, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """Maps the index of an exchange to other URLs that lead to its response: unrecorded choices of a picture,
    and URLs in texts that differ from the URL of the exchange, such as the URLs of a mirror's files."""

    def __post_init__(self) -> None:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for index, exchange in enumerate(self.exchanges):
            found[exchange.url].append(index)
        self.by_url = dict(found)
        self.text = lru_cache(maxsize=_TEXTS_IN_MEMORY)(self._text)
        self.targets = lru_cache(maxsize=None)(self._targets)
        self._names = NameIndex(exchange.url for exchange in self.exchanges)
        self.nameable = lru_cache(maxsize=None)(self._nameable)

    def reached(self, root: int) -> dict[int, Edge]:
        """Return the edges, by index, of all exchanges that the root leads to by redirects, references or
        URLs in texts. Each exchange comes after its initiator."""
        edges = self.named(root)
        while True:
            news = self._spelled(edges)
            if not news:
                return edges
            self.grow(edges, news)

    def named(self, root: int) -> dict[int, Edge]:
        """Return the edges of all exchanges that the root leads to by redirects and references only."""
        edges: dict[int, Edge] = {root: Edge(None)}
        self.grow(edges, [root])
        return edges

    def grow(self, edges: dict[int, Edge], started: Iterable[int]) -> None:
        """Add to `edges` the exchanges that `started` leads to by redirects and references. The search is
        breadth-first, because resources nearer to the root are requested earlier."""
        waiting = deque(started)
        while waiting:
            index = waiting.popleft()
            exchange = self.exchanges[index]
            if exchange.location is not None:
                led_to = self._first_free(exchange.location, edges)
                if led_to is not None:
                    edges[led_to] = Edge(index, None, edges[index].type, "redirected")
                    waiting.append(led_to)
            for target, edge in self.targets(index):
                if target not in edges:
                    edges[target] = edge
                    waiting.append(target)

    def of_links(self, started: Iterable[int]) -> set[int]:
        """Return the indices in `started`, and the indices of the link targets found so far and of all
        exchanges that these lead to: other pages of a crawl. Returns an empty set if `started` is empty."""
        found = set(started)
        waiting = deque(found)
        while waiting:
            index = waiting.popleft()
            targets = {target for target, _ in self.targets(index)} | self.linked
            targets.update(self.by_url.get(self.exchanges[index].location or "", ()))
            waiting.extend(targets - found)
            found |= targets
        return found

    def _first_free(self, url: str, edges: dict[int, Edge]) -> int | None:
        """Return the first index of this URL that is not in `edges` yet; None if there is none."""
        return next((index for index in self.by_url.get(url, ()) if index not in edges), None)

    def _text(self, index: int) -> bytes | None:
        exchange = self.exchanges[index]
        if exchange.type not in _CODE or not exchange.body_bytes:
            return None
        text = _unpacked(exchange)
        if text is None and exchange.recorded is not None:
            self.unreadable.add(index)
        return text

    def _targets(self, index: int) -> list[tuple[int, Edge]]:
        """Return (target, edge) of each reference, in text order. Also collect links and alternatives."""
        exchange = self.exchanges[index]
        text = self.text(index) if exchange.type != "script" else None
        if not text:
            return []
        names = names_in(text, exchange.type, exchange.charset)
        base = _joined(exchange.url, names.base)
        found = []
        pictures: defaultdict[int, _Picture] = defaultdict(_Picture)
        for name in names.found:
            budget.work(budget.NAME_STEPS)
            url = self.resolve(exchange, name.url, base)
            known = self.by_url.get(url, ()) if url is not None else ()
            written = urls.cleaned(name.url, base=base)
            if name.picture is not None:
                pictures[name.picture].add(known[0] if known else url or written)
            for other in known[:1]:
                if written is not None and written != url:
                    self.alternatives[other][written] = None
                if name.link:
                    self.linked.add(other)
                elif other != index:
                    found.append((other, Edge(index, self._at(index, name.at, len(text)), name.type)))
        for picture in pictures.values():
            if picture.recorded is not None and picture.missing:
                self.alternatives[picture.recorded].update(picture.missing)
        return found

    def _at(self, index: int, offset: int, length: int) -> int | None:
        """Convert an offset in the text to bytes of the body as sent, in proportion. Returns None except for
        documents, because browsers use stylesheets and scripts only as a whole."""
        exchange = self.exchanges[index]
        if exchange.type != "document":
            return None
        return min(exchange.body_bytes, -(-exchange.body_bytes * offset // length))

    def _spelled(self, edges: dict[int, Edge]) -> list[int]:
        """Add exchanges whose URLs occur in a text of the page, such as a script; return their indices."""
        here = {self.exchanges[i].url for i in edges}
        missing = {
            i
            for i, one in enumerate(self.exchanges)
            if i not in edges and i not in self.linked and one.url not in here
        }
        missing -= {i for i in missing if self._repeats(i)}
        news: list[int] = []
        # Scripts first, because requests without a reference usually come from scripts.
        order = sorted(edges, key=lambda i: self.exchanges[i].type != "script")
        for index in order:
            text = self.text(index) if missing else None
            if not text:
                continue
            found = self._searched(index, text, missing)
            edges.update(found)
            news.extend(found)
            missing.difference_update(found)
        return news

    def _repeats(self, index: int) -> bool:
        """Return True if the exchange repeats an earlier GET of its URL, and so belongs to another visit."""
        exchange = self.exchanges[index]
        return exchange.method == "GET" and any(
            self.exchanges[other].method == "GET" for other in self.by_url[exchange.url] if other < index
        )

    def _nameable(self, index: int) -> Sequence[int]:
        """Return the indices of the exchanges whose URLs may occur in the text of this exchange."""
        return self._names.named_in(self.text(index) or b"")

    def _searched(self, index: int, text: bytes, missing: set[int]) -> dict[int, Edge]:
        found = {}
        for other in sorted(missing.intersection(self.nameable(index))):
            offset = find_reference(text, self.exchanges[other].url, self.exchanges[index].url)
            if offset is not None:
                found[other] = Edge(index, self._at(index, offset, len(text)), None, "spelled")
        return found


def _unpacked(exchange: Exchange) -> bytes | None:
    """Return the body without content codings; None if it was not kept or cannot be unpacked."""
    if exchange.text is not None:
        return exchange.text.read()
    return unpacked(exchange.recorded.read(), exchange.coding) if exchange.recorded is not None else None


def _joined(url: str, base: str | None) -> str:
    try:
        return urljoin(url, base) if base else url
    except ValueError:
        return url
