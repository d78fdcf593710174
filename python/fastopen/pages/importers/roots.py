"""Which entry of a HAR the browser navigated to: by what its maker says, else by what the others refer to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from fastopen.pages import url as urls
from fastopen.pages.importers import chains, fields
from fastopen.pages.importers.har.entry import Entry

# What a page is made of and never is itself.
_PARTS: Final = ("stylesheet", "script", "image", "font", "media")
# A single request may name a frame whose own Referer was not recorded.
_LEAST_REFERRERS: Final = 2


def main_document(by_start: Sequence[Entry], titled: str | None) -> Entry:
    """The document that was navigated to, behind its redirects; `by_start` holds entries in order of start.

    `titled` is the page's own URL, which Chrome writes as the page's title. Certificate checks, the browser's
    own services and beacons may come first: nothing refers to them.
    """
    first = _first_navigated(by_start, titled)
    ends = [e for e in by_start if chains.head(e) is chains.head(first) and not e.is_redirect]
    documents = [e for e in ends if e.type == "document"]
    return (documents or ends or [first])[0]


def _first_navigated(by_start: Sequence[Entry], titled: str | None) -> Entry:
    referrers = _referrers(by_start)
    recorded = {entry.url for entry in by_start}

    def supported(entry: Entry) -> bool:
        return entry.type not in _PARTS and referrers[entry.url] >= _LEAST_REFERRERS

    rules: tuple[Callable[[Entry], bool], ...] = (
        lambda e: titled is not None and chains.head(e).url == titled,
        lambda e: e.raw.get("_is_base_page") in (True, "true", 1),
        _navigated,
        lambda e: e.type == "document" and supported(e) and e.referer not in recorded,
        lambda e: supported(e) and e.referer not in recorded,
        lambda e: e.type == "document" and e.referer not in recorded,
        lambda e: e.type == "document",
        lambda e: e.type not in _PARTS,
        lambda _: True,
    )
    found = next(entry for rule in rules for entry in by_start if rule(entry))
    # A document that sends the browser on, as a challenge or a splash page does, is where the load began.
    for earlier in reversed(by_start[: by_start.index(found)]):
        if earlier.type == "document" and earlier.url == found.referer:
            found = earlier
    return found


def _referrers(entries: Sequence[Entry]) -> Counter[str]:
    """How many entries name each URL as their Referer, or as their document; origins count for their root."""
    named: Counter[str] = Counter()
    for entry in entries:
        document = urls.cleaned(fields.text(entry.raw.get("_documentURL")))
        for url in {entry.referer, document} - {None, entry.url}:
            named[url or ""] += 1
    # The policy strict-origin-when-cross-origin, browsers' default, sends an origin alone to other hosts.
    origins = Counter({urls.origin_of(url): n for url, n in named.items() if urls.target_of(url) == "/"})
    for entry in entries:
        if entry.type == "document":
            named[entry.url] += origins[urls.origin_of(entry.url)]
    return named


def _navigated(entry: Entry) -> bool:
    """Whether the browser marked the request as a navigation of a whole page (Fetch Metadata)."""
    sent = fields.headers(fields.mapping(entry.raw.get("request")).get("headers"))
    return (fields.header(sent, "sec-fetch-dest") or "").strip().lower() == "document"
