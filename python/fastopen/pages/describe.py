"""What a page is made of, for people and programs: totals, hosts, types, dependencies, what was guessed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from fastopen.pages import url as urls
from fastopen.pages.model import Page, Resource

# What browsers open to one host at once (the contract's default).
CONNECTIONS_PER_HOST: Final = 6
_LARGEST: Final = 5
_SHOWN_URL: Final = 76
# Of a host's name before it is broken, in a terminal that is too narrow for all columns.
_HOST_MIN: Final = 48


def summary(page: Page) -> dict[str, Any]:
    """The facts of `page`, as JSON has them. Times in microseconds; bytes up and down include headers.

    `connections` is how many a browser may open at most (six a host, no more than requests to it), each
    a handshake that TCP Fast Open may save. `depth` counts the resources on the longest chain of initiators,
    the document included; `processing_us_longest_chain` is the most client processing on one chain.
    """
    resources = page.resources
    depths, chains = _chains(page)
    by_host = _by_host(page)
    largest = sorted(range(len(resources)), key=lambda i: (-resources[i].body_bytes, i))[:_LARGEST]
    return {
        "name": page.name,
        "url": page.url,
        "source": page.source,
        "digest": page.digest(),
        "initiators": page.initiators,
        "requests": len(resources),
        "hosts": len(page.hosts()),
        "origins": len(page.origins()),
        "connections": sum(host["connections"] for host in by_host),
        "redirects": sum(r.redirect_to is not None for r in resources),
        "bytes_up": sum(host["bytes_up"] for host in by_host),
        "bytes_down": sum(host["bytes_down"] for host in by_host),
        "body_bytes": page.body_bytes(),
        "types": _counted(r.type for r in resources),
        "phases": _counted(r.phase for r in resources),
        "depth": max(depths),
        "server_think_us": sum(r.server_think_us for r in resources),
        "processing_us": sum(r.processing_us for r in resources),
        "processing_us_longest_chain": max(chains),
        "load_event_processing_us": page.load_event_processing_us,
        "largest": [
            {"resource": i, "url": resources[i].url, "body_bytes": resources[i].body_bytes} for i in largest
        ],
        "by_host": by_host,
        "notes": list(page.notes),
    }


def render(page: Page, *, tree: bool = False) -> RenderableType:
    """The summary as Rich prints it; with `tree` every resource below what makes the browser ask for it."""
    facts = summary(page)
    parts: list[RenderableType] = [
        Text(f"{facts['name']}  {facts['url']}", style="bold"),
        _facts_table(facts),
    ]
    parts += [Text(), _host_table(facts)]
    if tree:
        parts += [Text(), _resource_tree(page)]
    parts += [Text(f"note: {note}", style="dim") for note in page.notes]
    return Group(*parts)


def _chains(page: Page) -> tuple[list[int], list[int]]:
    """For each resource how many stand on the chain that leads to it, and their processing together in us."""
    depths: list[int] = []
    chains: list[int] = []
    for resource in page.resources:
        above = resource.initiator
        depths.append(1 if above is None else depths[above] + 1)
        chains.append(resource.processing_us + (0 if above is None else chains[above]))
    return depths, chains


def _by_host(page: Page) -> list[dict[str, Any]]:
    """Per host, in the order in which the page first asks them; connections are per origin."""
    found = []
    by_host: defaultdict[str, list[Resource]] = defaultdict(list)
    for resource in page.resources:
        by_host[resource.host].append(resource)
    for host, asked in by_host.items():
        origins = Counter(urls.origin_of(r.url) for r in asked)
        found.append(
            {
                "host": host,
                "requests": len(asked),
                "bytes_up": sum(r.request_header_bytes + r.request_body_bytes for r in asked),
                "bytes_down": sum(r.response_header_bytes + r.body_bytes for r in asked),
                "connections": sum(min(CONNECTIONS_PER_HOST, count) for count in origins.values()),
                "types": _counted(r.type for r in asked),
            }
        )
    return found


def _counted(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _facts_table(facts: Mapping[str, Any]) -> Table:
    down, up, bodies = (_bytes(facts[key]) for key in ("bytes_down", "bytes_up", "body_bytes"))
    longest, at_end = _ms(facts["processing_us_longest_chain"]), _ms(facts["load_event_processing_us"])
    largest = (f"{_name(large['url'])} ({_bytes(large['body_bytes'])})" for large in facts["largest"])
    hosts, redirects = _several(facts["hosts"], "host"), _several(facts["redirects"], "redirect")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in {
        "source": facts["source"],
        "requests": f"{facts['requests']} to {hosts}, {redirects}",
        "connections": f"up to {facts['connections']} ({CONNECTIONS_PER_HOST} a host)",
        "bytes": f"{down} down ({bodies} of it bodies), {up} up",
        "types": _listed(facts["types"]),
        "phases": _listed(facts["phases"]),
        "initiators": f"{facts['initiators']}; longest chain {_several(facts['depth'], 'resource')}",
        "server think": f"{_ms(facts['server_think_us'])} over all requests",
        "processing": f"{longest} on the slowest chain, {at_end} before the load event",
        "largest": ", ".join(largest),
        "digest": facts["digest"][:16],
    }.items():
        table.add_row(label, Text(value))
    return table


def _host_table(facts: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    longest = max((len(host["host"]) for host in facts["by_host"]), default=0)
    table.add_column("host", overflow="fold", min_width=min(longest, _HOST_MIN))
    for heading in ("requests", "down", "up", "connections"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("types", overflow="fold")
    for host in facts["by_host"]:
        down, up, types = _bytes(host["bytes_down"]), _bytes(host["bytes_up"]), Text(_listed(host["types"]))
        figures = (str(host["requests"]), down, up, str(host["connections"]))
        table.add_row(Text(host["host"]), *figures, types)
    return table


def _resource_tree(page: Page) -> Tree:
    """Iterative, since chains of initiators may be longer than Python's stack."""
    branches: list[Tree] = []
    for index, resource in enumerate(page.resources):
        label = _label(index, resource)
        above = resource.initiator
        branches.append(Tree(label) if above is None else branches[above].add(label))
    return branches[0]


def _label(index: int, resource: Resource) -> Text:
    shown = resource.url if len(resource.url) <= _SHOWN_URL else resource.url[: _SHOWN_URL - 1] + "…"
    facts = [resource.type, _bytes(resource.body_bytes)]
    if resource.status != 200:
        facts.append(str(resource.status))
    if resource.initiator_at_bytes is not None:
        facts.append(f"after {_bytes(resource.initiator_at_bytes)}")
    if resource.processing_us:
        facts.append(f"+{_ms(resource.processing_us)}")
    if resource.server_think_us:
        facts.append(f"think {_ms(resource.server_think_us)}")
    if resource.phase != "load":
        facts.append(resource.phase)
    return Text.assemble((f"{index} ", "dim"), shown, ("  " + ", ".join(facts), "dim"))


def _several(count: int, one: str) -> str:
    return f"{count} {one}{'' if count == 1 else 's'}"


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _name(url: str) -> str:
    """The last part of the path, or the host where there is none."""
    name = urls.target_of(url).partition("?")[0].rpartition("/")[2] or urls.host_of(url)
    return name if len(name) <= 32 else name[:31] + "…"


def _bytes(count: int) -> str:
    if count < 10_000:
        return f"{count} B"
    return f"{count / 1e3:.0f} kB" if count < 10_000_000 else f"{count / 1e6:.1f} MB"


def _ms(us: int) -> str:
    if us < 10_000:
        return f"{us / 1000:.1f} ms" if us % 1000 else f"{us // 1000} ms"
    return f"{us / 1000:.0f} ms" if us < 10_000_000 else f"{us / 1e6:.1f} s"
