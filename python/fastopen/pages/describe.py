"""Facts on a page: totals, hosts, types, dependencies, guesses."""

from collections import Counter, defaultdict
from typing import Any, Final

from fastopen.pages import url as urls
from fastopen.pages.model import Page, Resource

# What browsers open to one host at once (the contract's default).
CONNECTIONS_PER_HOST: Final = 6
_LARGEST: Final = 5


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
