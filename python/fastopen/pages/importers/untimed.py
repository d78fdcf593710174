"""The exchanges of a recording into pages: roots, what belongs to each, order, types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fastopen.common.errors import InputError
from fastopen.pages.bodies import RecordedBodies
from fastopen.pages.imported import ImportedPage
from fastopen.pages.importers.archive_notes import ArchiveNotes
from fastopen.pages.importers.archive_roots import navigated_or_first
from fastopen.pages.importers.exchange import Exchange
from fastopen.pages.importers.graph import Edge, Graph, Resolve, as_url
from fastopen.pages.model import MAX_ALTERNATIVES, MAX_RESOURCES, Page, Resource, ResourceType

# Who may ask for what when nothing names it; the document asks for everything else.
_ASKERS: Final[dict[ResourceType, ResourceType]] = {
    "font": "stylesheet",
    "xhr": "script",
    "document": "script",
}


def pages_of(
    exchanges: Sequence[Exchange],
    name: str,
    source: str,
    notes: ArchiveNotes,
    place: str,
    *,
    roots: Sequence[str] = (),
    resolve: Resolve = as_url,
    complete: bool = True,
    find_roots: Callable[[Graph], list[int]] = navigated_or_first,
) -> list[ImportedPage]:
    """A page for each of `roots` (URLs) that is recorded, else for each that `find_roots` finds.

    With `complete`, everything recorded was asked for by a page: what nothing names belongs to the page whose
    root was recorded last before it. Raises InputError where nothing can be a page.
    """
    if not exchanges:
        raise InputError("holds no exchange that a page could be made of", place)
    graph = Graph(exchanges, resolve)
    found = [graph.by_url[url][0] for url in dict.fromkeys(roots) if url in graph.by_url]
    heads = found or find_roots(graph)
    grown = [graph.reached(head) for head in heads]
    if complete:
        _share_out(graph, heads, grown)
    return [
        _page(graph, edges, name if len(heads) == 1 else f"{name}#{number}", source, notes, place)
        for number, edges in enumerate(grown, start=1)
    ]


def _share_out(graph: Graph, heads: Sequence[int], grown: list[dict[int, Edge]]) -> None:
    """Gives what no page names to the page that its Referer or the order says; not what people went to."""
    placed = set().union(*grown)
    others = graph.of_links((graph.linked | _other_pages(graph)) - placed) - placed
    their_urls = {graph.exchanges[i].url for i in others}
    for index, exchange in enumerate(graph.exchanges):
        if index in placed or index in others or exchange.referer in their_urls:
            continue
        edges = _page_at(index, exchange, graph, heads, grown)
        if exchange.method == "GET" and not edges.keys().isdisjoint(graph.by_url[exchange.url]):
            continue  # another visit asked for it again
        edges[index] = _guess(graph, edges, exchange)
        # What it names in its turn belongs to the page as well.
        graph.grow(edges, [index])
        placed |= edges.keys()


def _other_pages(graph: Graph) -> set[int]:
    """Return the documents without a Referer: a browser names the document that asks for a frame."""
    return {i for i, one in enumerate(graph.exchanges) if one.type == "document" and one.referer is None}


def _page_at(
    index: int, exchange: Exchange, graph: Graph, heads: Sequence[int], grown: Sequence[dict[int, Edge]]
) -> dict[int, Edge]:
    for edges in grown:
        if any(i in edges for i in graph.by_url.get(exchange.referer or "", ())):
            return edges
    before = [number for number, head in enumerate(heads) if head < index]
    return grown[before[-1] if before else 0]


def _guess(graph: Graph, edges: dict[int, Edge], exchange: Exchange) -> Edge:
    """By the Referer, if it is a stylesheet or document of the page; else by type."""
    for named in graph.by_url.get(exchange.referer or "", ()):
        if named in edges and graph.exchanges[named].type in ("stylesheet", "document"):
            return Edge(named, None, None, "referer")
    wanted = _ASKERS.get(exchange.type, "document")
    document = next((i for i in edges if graph.exchanges[i].type == "document"), next(iter(edges)))
    latest = [i for i in edges if graph.exchanges[i].type == wanted and graph.exchanges[i].body_bytes]
    return Edge(latest[-1] if latest and wanted != "document" else document, None, None, "guessed")


def _page(
    graph: Graph, edges: dict[int, Edge], name: str, source: str, common: ArchiveNotes, place: str
) -> ImportedPage:
    """The page of these exchanges; `edges` hold each after its initiator."""
    if len(edges) > MAX_RESOURCES:
        raise InputError(f"{len(edges)} requests in one page, at most {MAX_RESOURCES} are possible", place)
    notes = ArchiveNotes()
    notes.merge(common)
    positions = {index: position for position, index in enumerate(edges)}
    for edge in list(edges.values())[1:]:
        notes.add(edge.way)
    if len(edges) < len(graph.exchanges):
        notes.add("elsewhere", len(graph.exchanges) - len(edges))
    unreadable = len(graph.unreadable & edges.keys())
    if unreadable:
        notes.add("encoded", unreadable)
    # Of a mirror, there are texts on disk that were never on the wire so.
    local = [graph.exchanges[index] for index in edges if graph.exchanges[index].text is not None]
    if local:
        notes.add("local", len(edges))
        notes.add("compressed", sum(exchange.coding != "" for exchange in local))
    alternatives = {
        i: tuple(graph.alternatives[i])[:MAX_ALTERNATIVES] for i in graph.alternatives.keys() & edges.keys()
    }
    if alternatives:
        notes.add("choices", len(alternatives))
    notes.add("times")
    types = _types(graph, edges)
    resources = tuple(
        _resource(graph.exchanges[index], edge, positions, types[index], alternatives.get(index, ()))
        for index, edge in edges.items()
    )
    stored = {positions[i]: graph.exchanges[i].recorded for i in edges}
    page = Page(
        format="fastopen-page/1",
        name=name,
        url=resources[0].url,
        source=source,
        initiators="inferred",
        notes=notes.sentences(),
        resources=resources,
    )
    bodies = {i: body for i, body in stored.items() if body is not None}
    heads = {positions[i]: graph.exchanges[i].head() for i in edges}
    return ImportedPage(page, RecordedBodies(bodies, heads))


def _types(graph: Graph, edges: dict[int, Edge]) -> dict[int, ResourceType]:
    """What the place that names it says, else what its headers said; a redirect is what it leads to."""
    types: dict[int, ResourceType] = {
        index: edge.type or graph.exchanges[index].type for index, edge in edges.items()
    }
    for index, edge in reversed(edges.items()):
        if edge.way == "chained" and edge.by is not None:
            types[edge.by] = types[index]
    types[next(iter(edges))] = "document"
    return types


def _resource(
    exchange: Exchange,
    edge: Edge,
    positions: dict[int, int],
    kind: ResourceType,
    alternatives: tuple[str, ...],
) -> Resource:
    return Resource(
        url=exchange.url,
        method=exchange.method,
        status=exchange.status,
        type=kind,
        mime=exchange.mime,
        request_header_bytes=exchange.request_header_bytes,
        request_body_bytes=exchange.request_body_bytes,
        response_header_bytes=exchange.response_header_bytes,
        alternatives=alternatives,
        body_bytes=exchange.body_bytes,
        initiator=positions[edge.by] if edge.by is not None else None,
        initiator_at_bytes=edge.at_bytes,
        redirect_to=exchange.location,
        fresh_s=exchange.freshness.fresh_s,
        validator=exchange.freshness.validator,
        http=exchange.http,
    )
