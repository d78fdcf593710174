"""Whose a host is: registrable domains by the Public Suffix List that the library carries (no network)."""

import ipaddress
from functools import cache

from publicsuffixlist import PublicSuffixList

from fastopen.pages.model import Page


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def registrable_domain(host: str) -> str:
    """`bbc.co.uk` of `news.bbc.co.uk`; an address, or a name without a dot, is its own."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return _suffixes().privatesuffix(host) or host
    return host


def third_parties(page: Page) -> dict[str, int]:
    """Registrable domains other than that of the page's own document, to how many requests go there.

    A site that serves its images from a second domain of its own counts as a third party here.
    """
    own = registrable_domain(page.resources[0].host)
    counts: dict[str, int] = {}
    for resource in page.resources:
        domain = registrable_domain(resource.host)
        if domain != own:
            counts[domain] = counts.get(domain, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
