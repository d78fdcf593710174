"""Build pages from recordings without times: find the requests of each page, and their initiators."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from fastopen.common.errors import InputError
from fastopen.pages import url as urls
from fastopen.pages.importers import kinds
from fastopen.pages.importers.exchange import ASKERS, Edge, Exchange, check_size, page_of
from fastopen.pages.importers.graph import Graph, Resolve, as_url, first_root, listed_roots, navigated_roots
from fastopen.pages.importers.notes import Notes
from fastopen.pages.model import MAX_ALTERNATIVES, Phase
from fastopen.pages.recording import ImportedPage

# Types of resources to which documents seldom refer: ASKERS has the likely type of their initiator.
_SELDOM_NAMED: Final = ("font", "xhr", "document")


def pages_of(
    exchanges: Sequence[Exchange],
    name: str,
    source: str,
    notes: Notes,
    place: str,
    *,
    roots: Sequence[str] = (),
    resolve: Resolve = as_url,
    complete: bool = True,
    find_roots: Callable[[Graph], list[int]] = first_root,
) -> list[ImportedPage]:
    """Return the pages of a recording without times. Each page begins with a request for one of the URLs
    `roots`. If none was recorded, it begins with a marked navigation or, without marks, with a request that
    `find_roots` selects. A page contains all requests to which redirects and references lead from there.
    `resolve` maps references to URLs. With `complete`, each remaining request is added to the page of its
    Referer, or else to the page recorded last before it. `name` and `source` describe the pages. Raises
    InputError if there are no exchanges, or if a page is too large."""
    if not exchanges:
        raise InputError("has no request that a page could start with", place, "record the page again")
    _complete_referers(exchanges)
    graph = Graph(exchanges, resolve)
    heads = listed_roots(graph, roots) or navigated_roots(graph) or find_roots(graph)
    grown = [graph.reached(head) for head in heads]
    if complete:
        _share_out(graph, heads, grown)
    return [
        _page(graph, edges, name if len(heads) == 1 else f"{name}#{number}", source, notes, place)
        for number, edges in enumerate(grown, start=1)
    ]


def _complete_referers(exchanges: Sequence[Exchange]) -> None:
    """Replace each Referer that is only an origin by the URL of the page last visited at this origin, if
    Fetch Metadata shows such a visit. Browsers send only the origin to servers of other origins."""
    visited: dict[tuple[str, str, int], str] = {}
    for one in exchanges:
        if one.navigated:
            visited[urls.origin_of(one.url)] = one.url
        elif one.referer is not None and urls.target_of(one.referer) == "/":
            origin = urls.origin_of(one.referer)
            if origin != urls.origin_of(one.url):
                one.referer = visited.get(origin, one.referer)


def _share_out(graph: Graph, heads: Sequence[int], grown: list[dict[int, Edge]]) -> None:
    """Add each request that is not in any page yet to the page that the recorder names, or that of its
    Referer, or else to the page recorded last before it. Leave out requests of pages that are not imported.
    `heads` lists the index of each page's first request. For each page, `grown` maps the index of each
    request to the link to its initiator."""
    placed = set().union(*grown)
    # A document without a Referer is another page, because a frame's Referer is the document that embeds it.
    unasked = {i for i, one in enumerate(graph.exchanges) if one.type == "document" and one.referer is None}
    others = graph.on_other_pages((graph.linked | unasked) - placed) - placed
    their_urls = {graph.exchanges[i].url for i in others}
    by_id = _by_id(graph, grown)
    for index, exchange in enumerate(graph.exchanges):
        edges = by_id.get(exchange.page)
        of_other_page = bool(by_id and exchange.page) or index in others or exchange.referer in their_urls
        if index in placed or (edges is None and of_other_page):
            continue
        named = graph.by_url.get(exchange.referer or "", ())
        of_referer = (edges for edges in grown if not edges.keys().isdisjoint(named))
        before = [edges for head, edges in zip(heads, grown, strict=True) if head < index]
        if edges is None:
            edges = next(of_referer, before[-1] if before else grown[0])
        if graph.repeats(index, edges):
            continue
        edges[index] = _guess(graph, edges, exchange)
        # The page also gets the exchanges to which this exchange refers.
        graph.add_referenced(edges, [index])
        placed |= edges.keys()


def _by_id(graph: Graph, grown: list[dict[int, Edge]]) -> dict[str, dict[int, Edge]]:
    """Map the recorder's ID of a page to the page's requests, given the requests of each page. Return nothing
    if the document of a page has no ID. Redirects do not count: ArchiveWeb.page gives them the ID of the page
    before. Documents later in a page count, because a refresh begins another page for ArchiveWeb.page."""
    answers = [[one for i in edges if (one := graph.exchanges[i]).location is None] for edges in grown]
    ids = [[one.page for one in of_page if one.type == "document"] for of_page in answers]
    if not all(of_page and of_page[0] for of_page in ids):
        return {}
    later = {page: edges for of_page, edges in zip(ids, grown, strict=True) for page in of_page if page}
    return later | {of_page[0]: edges for of_page, edges in zip(ids, grown, strict=True)}


def _guess(graph: Graph, edges: dict[int, Edge], exchange: Exchange) -> Edge:
    """Guess the initiator of a request to which nothing refers: the resource in the Referer, or else the last
    stylesheet (for a font) or script (for an XHR or frame), or else the document. Return the link to it."""
    for named in graph.by_url.get(exchange.referer or "", ()):
        if named in edges and graph.exchanges[named].type in kinds.CODE:
            return Edge(named, None, None, "referer")
    wanted = ASKERS[exchange.type][0] if exchange.type in _SELDOM_NAMED else "document"
    document = next((i for i in edges if graph.exchanges[i].type == "document"), next(iter(edges)))
    latest = [i for i in edges if graph.exchanges[i].type == wanted and graph.exchanges[i].body_bytes]
    return Edge(latest[-1] if latest and wanted != "document" else document, None, None, "guessed")


def _page(
    graph: Graph, edges: dict[int, Edge], name: str, source: str, common: Notes, place: str
) -> ImportedPage:
    check_size(len(edges), place)
    notes = Notes(common)
    notes["elsewhere"] += len(graph.exchanges) - len(edges)
    notes["no_document"] = int(all(graph.exchanges[i].type not in ("document", "other") for i in edges))
    named = graph.alternatives
    alternatives = {i: tuple(named[i])[:MAX_ALTERNATIVES] for i in named.keys() & edges.keys()}
    notes["encoded"] += len(graph.unreadable & edges.keys())
    notes["choices"] += len(alternatives)
    notes.add("times")
    edges = _with_phases(graph.exchanges, edges)
    return page_of(graph.exchanges, edges, name, source, notes, alternatives=alternatives)


def _with_phases(exchanges: Sequence[Exchange], edges: dict[int, Edge]) -> dict[int, Edge]:
    """Return a copy of `edges`, the links from requests to initiators, with the `phase` of each link set:
    `load` if the load event waits for the request, else `async`. A redirect has its target's phase."""
    found = dict(edges)
    phases: dict[int | None, Phase] = {}
    for index, edge in reversed(edges.items()):
        if edge.type is None and edge.evidence != "referenced":
            waited_for = exchanges[index].delays_load_event
        else:
            waited_for = edge.type not in ("xhr", "other")
        phase = phases.get(index, "load" if waited_for else "async") if edge.initiator is not None else "load"
        found[index] = replace(edge, phase=phase)
        if edge.evidence == "redirected":
            phases[edge.initiator] = phase
    return found
