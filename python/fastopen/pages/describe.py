"""What a page is made of, for people and programs: totals, hosts, types, dependencies, what was guessed."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True)
class HostSummary:
    """What a page asks of one host. Bytes include headers."""

    host: str
    requests: int
    bytes_up: int
    bytes_down: int
    connections: int
    types: dict[str, int]


@dataclass(frozen=True)
class Large:
    """One of the largest resources; `resource` is its index."""

    resource: int
    url: str
    body_bytes: int


@dataclass(frozen=True)
class PageSummary:
    """What a page is made of. Times in microseconds.

    `connections` is how many a browser may open at most (six a host, no more than requests to it), each
    a handshake that TCP Fast Open may save. `depth` counts the resources on the longest chain of initiators,
    the document included; `processing_us_longest_chain` is the most client processing on one chain.
    """

    name: str
    url: str
    source: str
    digest: str
    initiators: str
    requests: int
    hosts: int
    origins: int
    connections: int
    redirects: int
    bytes_up: int
    bytes_down: int
    body_bytes: int
    types: dict[str, int]
    phases: dict[str, int]
    depth: int
    server_think_us: int
    processing_us: int
    processing_us_longest_chain: int
    load_event_processing_us: int
    largest: tuple[Large, ...]
    by_host: tuple[HostSummary, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data, keys as above."""
        return asdict(self)


def summary(page: Page) -> PageSummary:
    """The facts of `page`."""
    depths, chains = _chains(page)
    by_host = _by_host(page)
    order = sorted(range(len(page.resources)), key=lambda i: (-page.resources[i].body_bytes, i))
    return PageSummary(
        name=page.name,
        url=page.url,
        source=page.source,
        digest=page.digest(),
        initiators=page.initiators,
        requests=len(page.resources),
        hosts=len(page.hosts()),
        origins=len(page.origins()),
        connections=sum(host.connections for host in by_host),
        redirects=sum(r.redirect_to is not None for r in page.resources),
        bytes_up=sum(host.bytes_up for host in by_host),
        bytes_down=sum(host.bytes_down for host in by_host),
        body_bytes=page.body_bytes(),
        types=_counted(r.type for r in page.resources),
        phases=_counted(r.phase for r in page.resources),
        depth=max(depths),
        server_think_us=sum(r.server_think_us for r in page.resources),
        processing_us=sum(r.processing_us for r in page.resources),
        processing_us_longest_chain=max(chains),
        load_event_processing_us=page.load_event_processing_us,
        largest=tuple(
            Large(i, page.resources[i].url, page.resources[i].body_bytes) for i in order[:_LARGEST]
        ),
        by_host=by_host,
        notes=page.notes,
    )


def render(page: Page, *, tree: bool = False) -> RenderableType:
    """The summary as Rich prints it; with `tree` every resource below what makes the browser ask for it."""
    facts = summary(page)
    parts: list[RenderableType] = [Text(f"{facts.name}  {facts.url}", style="bold"), _facts_table(facts)]
    parts += [Text(), _host_table(facts)]
    if tree:
        parts += [Text(), _resource_tree(page)]
    parts += [Text(f"note: {note}", style="dim") for note in facts.notes]
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


def _by_host(page: Page) -> tuple[HostSummary, ...]:
    """Per host, in the order in which the page first asks them; connections are per origin."""
    found = []
    by_host: defaultdict[str, list[Resource]] = defaultdict(list)
    for resource in page.resources:
        by_host[resource.host].append(resource)
    for host, asked in by_host.items():
        origins = Counter(urls.origin_of(r.url) for r in asked)
        found.append(
            HostSummary(
                host=host,
                requests=len(asked),
                bytes_up=sum(r.request_header_bytes + r.request_body_bytes for r in asked),
                bytes_down=sum(r.response_header_bytes + r.body_bytes for r in asked),
                connections=sum(min(CONNECTIONS_PER_HOST, count) for count in origins.values()),
                types=_counted(r.type for r in asked),
            )
        )
    return tuple(found)


def _counted(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _facts_table(facts: PageSummary) -> Table:
    down = f"{_bytes(facts.bytes_down)} down ({_bytes(facts.body_bytes)} of it bodies)"
    processing = f"{_ms(facts.processing_us_longest_chain)} on the slowest chain"
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in (
        ("source", facts.source),
        ("requests", f"{facts.requests} to {facts.hosts} hosts, {facts.redirects} redirects"),
        ("connections", f"up to {facts.connections} ({CONNECTIONS_PER_HOST} a host)"),
        ("bytes", f"{down}, {_bytes(facts.bytes_up)} up"),
        ("types", _listed(facts.types)),
        ("phases", _listed(facts.phases)),
        ("initiators", f"{facts.initiators}; longest chain {facts.depth} resources"),
        ("server think", f"{_ms(facts.server_think_us)} over all requests"),
        ("processing", f"{processing}, {_ms(facts.load_event_processing_us)} before the load event"),
        ("largest", ", ".join(f"{_name(large.url)} ({_bytes(large.body_bytes)})" for large in facts.largest)),
        ("digest", facts.digest[:16]),
    ):  # fmt: skip
        table.add_row(label, Text(value))
    return table


def _host_table(facts: PageSummary) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("host", overflow="fold")
    for heading in ("requests", "down", "up", "connections"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("types", overflow="fold")
    for host in facts.by_host:
        down, up = _bytes(host.bytes_down), _bytes(host.bytes_up)
        types = Text(_listed(host.types))
        table.add_row(Text(host.host), str(host.requests), down, up, str(host.connections), types)
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
