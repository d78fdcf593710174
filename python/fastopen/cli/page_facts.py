"""Render the facts of a page for people: totals, a table of its hosts, and the tree of its resources."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from fastopen.common.grid import Column, Grid, figures, keys, listing
from fastopen.common.phrases import plural, size, time
from fastopen.common.terminal import filled, plain, tabled
from fastopen.pages import url as urls
from fastopen.pages.describe import CONNECTIONS_PER_HOST, summary
from fastopen.pages.model import Page, Resource

SHOWN_URL: Final = 76
SHOWN_NAME: Final = 32
LABEL: Final = 14
"""The width of the column with the names of facts."""


def page_renderables(page: Page, width: int, *, tree: bool = False) -> Iterator[RenderableType]:
    """Yield the summary and, with `tree`, every resource below its initiator."""
    facts = summary(page)
    yield Text(f"{facts['name']}  {facts['url']}", style="bold")
    for label, value in _facts(facts).items():
        yield from filled([f"{label:{LABEL}}{value}"], width, indent=" " * LABEL)
    yield Text()
    yield from tabled(_host_grid(facts), width)
    if tree:
        yield Text()
        yield _resource_tree(page)
    yield from (Text(f"note: {note}", style="dim") for note in page.notes)


def _facts(facts: Mapping[str, Any]) -> dict[str, str]:
    down, up, bodies = (size(facts[key]) for key in ("bytes_down", "bytes_up", "body_bytes"))
    longest, at_end = _ms(facts["processing_us_longest_chain"]), _ms(facts["load_event_processing_us"])
    largest = (f"{_name(large['url'])} ({size(large['body_bytes'])})" for large in facts["largest"])
    return {
        "source": facts["source"],
        "requests": f"{facts['requests']} to {plural(facts['hosts'], 'host')},"
        f" {plural(facts['redirects'], 'redirect')}",
        "connections": f"up to {facts['connections']} ({CONNECTIONS_PER_HOST} per host)",
        "bytes": f"{down} down ({bodies} in bodies), {up} up",
        "types": _counts(facts["types"]),
        "phases": _counts(facts["phases"]),
        "initiators": f"{facts['initiators']}; longest chain {plural(facts['depth'], 'resource')}",
        "server think": f"{_ms(facts['server_think_us'])} over all requests",
        "processing": f"{longest} on the slowest chain, {at_end} before the load event",
        "largest": ", ".join(largest),
        "digest": facts["digest"][:16],
    }


def _host_grid(facts: Mapping[str, Any]) -> Grid:
    columns = (
        Column("host", "key", wraps=True),
        *figures("requests", "down", "up", "connections"),
        Column("types", "words", wraps=True),
    )
    rows = (
        (
            *(host["host"], str(host["requests"]), size(host["bytes_down"]), size(host["bytes_up"])),
            *(str(host["connections"]), _counts(host["types"])),
        )
        for host in facts["by_host"]
    )
    return listing(columns, rows)


def page_list(pages: list[dict[str, Any]]) -> Grid:
    columns = (*keys("page"), *figures("requests", "hosts", "bytes"), Column("source", "words", wraps=True))
    rows = (
        (
            *(page["name"], str(page["requests"]), str(page["hosts"])),
            *(size(page["bytes_up"] + page["bytes_down"]), page["source"]),
        )
        for page in pages
    )
    return listing(columns, rows)


def _resource_tree(page: Page) -> Tree:
    """Return the tree of initiators, without recursion: chains may be longer than Python's stack."""
    branches: list[Tree] = []
    for index, resource in enumerate(page.resources):
        label = _label(index, resource)
        above = resource.initiator
        branches.append(Tree(label) if above is None else branches[above].add(label))
    return branches[0]


def _label(index: int, resource: Resource) -> Text:
    shown = resource.url if len(resource.url) <= SHOWN_URL else resource.url[: SHOWN_URL - 1] + "…"
    facts = [resource.type, size(resource.body_bytes)]
    if resource.status != 200:
        facts.append(str(resource.status))
    if resource.initiator_at_bytes is not None:
        facts.append(f"after {size(resource.initiator_at_bytes)}")
    if resource.processing_us:
        facts.append(f"+{_ms(resource.processing_us)}")
    if resource.server_think_us:
        facts.append(f"think {_ms(resource.server_think_us)}")
    if resource.phase != "load":
        facts.append(resource.phase)
    return Text.assemble((f"{index} ", "dim"), shown, (plain("  " + ", ".join(facts)), "dim"))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _name(url: str) -> str:
    """Return the last part of a URL's path, or the host if the path has none."""
    name = urls.target_of(url).partition("?")[0].rpartition("/")[2] or urls.host_of(url)
    return name if len(name) <= SHOWN_NAME else name[: SHOWN_NAME - 1] + "…"


def _ms(us: int) -> str:
    return time(us / 1000)
