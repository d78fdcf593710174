"""Collect facts about a page: totals, hosts, third parties, types and dependencies of its resources."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from publicsuffixlist import PublicSuffixList

from fastopen.common.grouping import grouped
from fastopen.pages import url as urls
from fastopen.pages.model import Page

# The maximum number of parallel connections that browsers open to an origin (also the default in jobs).
CONNECTIONS_PER_HOST: Final = 6
_LARGEST: Final = 5
_suffixes: Final = cache(PublicSuffixList)


def summary(page: Page) -> dict[str, Any]:
    """Return facts about the page as JSON values, such as its numbers of requests, hosts and bytes.

    `bytes_up` and `bytes_down` include headers. `connections` is the largest number of connections that a
    browser may open. In a chain of resources, each resource makes the browser request the next. `depth` is
    the number of resources in the longest chain that starts at the document. `processing_us_longest_chain` is
    the largest sum of the client's processing times in such a chain, in us."""
    resources = page.resources
    depths: list[int] = []
    chains_us: list[int] = []
    for resource in resources:
        parent = resource.initiator
        depths.append(1 if parent is None else depths[parent] + 1)
        chains_us.append(resource.processing_us + (0 if parent is None else chains_us[parent]))
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
        "processing_us_longest_chain": max(chains_us),
        "load_event_processing_us": page.load_event_processing_us,
        "largest": [
            {"resource": i, "url": resources[i].url, "body_bytes": resources[i].body_bytes} for i in largest
        ],
        "by_host": by_host,
        "notes": list(page.notes),
    }


def _by_host(page: Page) -> list[dict[str, Any]]:
    return [
        {
            "host": host,
            "requests": len(resources),
            "bytes_up": sum(r.request_header_bytes + r.request_body_bytes for r in resources),
            "bytes_down": sum(r.response_header_bytes + r.body_bytes for r in resources),
            "connections": sum(
                min(CONNECTIONS_PER_HOST, count)
                for count in Counter(urls.origin_of(r.url) for r in resources).values()
            ),
            "types": _counted(r.type for r in resources),
        }
        for host, resources in grouped((r.host, r) for r in page.resources).items()
    ]


def registrable_domain(host: str) -> str:
    """Return a host's registrable domain, such as `bbc.co.uk` for `news.bbc.co.uk`. A host without a
    registrable domain, such as an IP address, is returned unchanged."""
    # publicsuffixlist has its own copy of the Public Suffix List, so no network is needed.
    return host if urls.is_address(host) else _suffixes().privatesuffix(host) or host


def third_parties(page: Page) -> dict[str, int]:
    """Map the registrable domain of each third party to its number of requests, the largest number first. Any
    domain except that of the page's first resource is a third party, even one with the same owner."""
    domains = [registrable_domain(resource.host) for resource in page.resources]
    return _counted(domain for domain in domains if domain != domains[0])


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))
