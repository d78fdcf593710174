"""Link redirects and CORS preflights to the requests that followed them. Find the document of a page."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from fastopen.common.grouping import grouped
from fastopen.pages import url as urls
from fastopen.pages.importers.exchange import Exchange

# Rounding and different clocks let a request seem to start this long before its redirect or preflight ended.
_CLOCK_SLACK_MS = 10.0
# In Chrome, a request starts when the page makes it. It may then wait this long until its preflight is sent.
_PREFLIGHT_WAIT_MS = 30_000.0
# Types of resources that are always parts of a page, never the page itself.
PARTS: Final = ("stylesheet", "script", "image", "font", "media")
# If a URL is the Referer of only one request, it may be a frame whose own Referer is missing, not a page.
_LEAST_REFERRERS: Final = 2


def link_chains(entries: Sequence[Exchange]) -> None:
    """Set `before` of each request that followed a redirect or CORS preflight to that redirect or preflight.
    If the request seems to start before the redirect or preflight ended, correct the request's times."""
    by_url = grouped((e.url, e) for e in sorted(entries, key=lambda e: (e.at.start, e.order)))
    for entry in sorted(entries, key=lambda e: (e.at.end, e.order)):
        if entry.is_redirect and entry.location is not None:
            # After a redirect, clients keep the method or change it to GET, but they never change HEAD.
            targets = by_url.get(entry.location, ())
            _follow(entry, (e for e in targets if e.wants_content == entry.wants_content))
        elif entry.is_preflight:
            _allow(entry, (e for e in by_url[entry.url] if not e.is_preflight))


def _follow(redirect: Exchange, candidates: Iterable[Exchange]) -> None:
    ended = redirect.at.end
    for target in candidates:
        late_enough = target.at.start >= ended - _CLOCK_SLACK_MS or target.at.first_byte >= ended
        # A page may set a cookie and redirect to its own URL. Even then, a chain must not be a circle.
        if target.before is None and late_enough and target is not head(redirect):
            _put_after(target, redirect)
            return


def _allow(preflight: Exchange, candidates: Iterable[Exchange]) -> None:
    for request in candidates:
        soon = preflight.at.start - request.at.start <= _PREFLIGHT_WAIT_MS
        if request.before is None and soon and request.at.first_byte >= preflight.at.end - _CLOCK_SLACK_MS:
            preflight.asked_like = request
            start = preflight.at.start
            preflight.at.start = min(start, max(request.at.start, start - _CLOCK_SLACK_MS))
            _put_after(request, preflight)
            return


def _put_after(entry: Exchange, before: Exchange) -> None:
    """Link `entry` to the redirect or preflight `before`. Delay `entry` until `before` has ended."""
    entry.before = before
    at = entry.at
    at.start = max(at.start, before.at.end)
    at.sent, at.first_byte = max(at.sent, at.start), max(at.first_byte, at.start)
    at.end = max(at.end, at.first_byte)


def leave_out(gone: Collection[Exchange], kept: Sequence[Exchange]) -> None:
    """Remove the exchanges `gone` from the chains of redirects and preflights that lead to the exchanges
    `kept`. For example, if A redirects to B, B redirects to C, and B is removed, then A redirects to C."""
    for entry in kept:
        entry.led_by = None
        before = entry.before
        while before is not None and before in gone:
            entry.initiators = entry.initiators or before.initiators
            before = before.before
        if before is not entry.before:
            entry.before = before
            if before is not None and before.is_redirect:
                before.location = entry.url


def _first(entry: Exchange) -> tuple[Exchange, int]:
    """Return the first exchange of the chain of redirects and preflights that led to `entry`, and the number
    of steps from there to `entry`. If there is no such chain, return `entry` itself and 0."""
    passed, first, steps = [], entry, 0
    while first.before is not None:
        passed.append(first)
        first = first.led_by[0] if first.led_by else first.before
    for one in reversed(passed):
        steps += one.led_by[1] if one.led_by else 1
        one.led_by = first, steps
    return first, steps


def start_order(entry: Exchange) -> tuple[float, int, int]:
    """Return a key to sort exchanges by start time. At equal times, a redirect precedes its target."""
    return entry.at.start, _first(entry)[1], entry.order


def head(entry: Exchange) -> Exchange:
    """Return the first exchange of the chain of redirects and preflights that ends with `entry`."""
    return _first(entry)[0]


def ends(entries: Sequence[Exchange]) -> dict[Exchange, float]:
    """Map each exchange to its end in ms since 1970: for a redirect or preflight, the end of its chain."""
    found = {entry: entry.at.end for entry in entries}
    for entry in sorted(entries, key=lambda one: -_first(one)[1]):
        if entry.before is not None:
            found[entry.before] = max(found[entry.before], found[entry])
    return found


def main_document(by_start: Sequence[Exchange], titled: str | None) -> Exchange:
    """Return the document to which the browser navigated, after redirects. Earlier requests, such as
    certificate checks, are ignored. `by_start` lists all exchanges of the page in order of start. `titled` is
    the title of the page in a HAR if it is a URL, otherwise None."""
    first = first_navigated(by_start, titled)
    ends = [e for e in by_start if head(e) is head(first) and not e.is_redirect]
    documents = [e for e in ends if e.type == "document"]
    return (documents or ends or [first])[0]


def first_navigated(by_start: Sequence[Exchange], titled: str | None) -> Exchange:
    """Return the first request of the navigation to the page, with the parameters of `main_document`. If an
    earlier document led to this request, return the earlier document."""
    referrers = _referrers(by_start)
    recorded = {one.url for one in by_start}

    def supported(one: Exchange) -> bool:
        return one.type not in PARTS and referrers[one.url] >= _LEAST_REFERRERS

    rules: tuple[Callable[[Exchange], bool], ...] = (
        lambda e: titled is not None and titled in (e.url, head(e).url),
        lambda e: e.base_page,
        lambda e: e.navigated,
        lambda e: e.type == "document" and supported(e) and e.referer not in recorded,
        lambda e: supported(e) and e.referer not in recorded,
        lambda e: e.type == "document" and e.referer not in recorded,
        lambda e: e.type == "document",
        lambda e: e.type not in PARTS,
        lambda _: True,
    )
    candidates = [one for one in by_start if one.wants_content] or by_start
    found = next(one for rule in rules for one in candidates if rule(one))
    # If an earlier document led to this one, such as a challenge or a splash page, the load began there.
    for earlier in reversed(by_start[: by_start.index(found)]):
        if earlier.type == "document" and earlier.url == found.referer:
            found = earlier
    return found


def _referrers(exchanges: Sequence[Exchange]) -> Counter[str]:
    named: Counter[str] = Counter()
    for one in exchanges:
        for url in {one.referer, one.document} - {None, one.url}:
            named[url or ""] += 1
    # By default (strict-origin-when-cross-origin), browsers send only the origin as Referer to other hosts.
    origins = Counter({urls.origin_of(url): n for url, n in named.items() if urls.target_of(url) == "/"})
    for one in exchanges:
        if one.type == "document":
            named[one.url] += origins[urls.origin_of(one.url)]
    return named
