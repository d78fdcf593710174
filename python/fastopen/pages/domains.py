"""Find registrable domains offline, with publicsuffixlist's copy of the Public Suffix List."""

import ipaddress
from functools import cache

from publicsuffixlist import PublicSuffixList

from fastopen.pages.model import Page


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def registrable_domain(host: str) -> str:
    """Return a host's registrable domain, such as `bbc.co.uk` for `news.bbc.co.uk`. A host without a
    registrable domain, such as an IP address, is returned unchanged."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return _suffixes().privatesuffix(host) or host
    return host


def third_parties(page: Page) -> dict[str, int]:
    """Map each registrable domain, except the root resource's, to its number of requests, the largest number
    first. A second domain of the same site, such as a domain for images, counts as a third party."""
    own = registrable_domain(page.resources[0].host)
    counts: dict[str, int] = {}
    for resource in page.resources:
        domain = registrable_domain(resource.host)
        if domain != own:
            counts[domain] = counts.get(domain, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
