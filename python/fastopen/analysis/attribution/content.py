"""Describe the properties of a page that matter for TFO: connections, hosts, third parties, handshakes."""

from collections.abc import Iterator
from typing import Final

from fastopen.analysis.attribution.breakdown import Breakdown
from fastopen.analysis.attribution.curves import Curve, Place
from fastopen.analysis.attribution.segments import Kind
from fastopen.common.phrases import capitalised, plural, share, size, time
from fastopen.pages import Page
from fastopen.pages.describe import registrable_domain, third_parties

# Verdicts, each with the smallest part of the page load time that handshakes on the critical path must take.
LENDS_ITSELF: Final = (
    (0.10, "It suits TFO well"),
    (0.04, "It suits TFO somewhat"),
    (0.0, "It suits TFO little"),
)

# Waits for a free connection are not mentioned if they take a smaller part of the page load time.
READY_MIN: Final = 0.01
# Handshakes are slow if they take this many round trips on average. On an idle link, each takes one.
SLOW_HANDSHAKE: Final = 1.3


def content_sentences(page: Page, curve: Curve) -> Iterator[str]:
    """Yield sentences on the page, and on its loads without TFO at the places of `curve`."""
    domains = {registrable_domain(host) for host in page.hosts()}
    yield (
        f"The page is {plural(len(page.resources), 'request')} to {plural(len(page.hosts()), 'host')} of"
        f" {plural(len(domains), 'registrable domain')}, {size(page.body_bytes())} of content,"
        f" {size(page.body_bytes() / len(page.resources))} a response on average."
    )
    yield _third_parties(page)
    paths = ((place, place.baseline_path) for place in curve.places)
    known = [(place, path) for place, path in paths if path is not None]
    if not known:
        return
    first, last = known[0], known[-1]
    connections = last[1].connections
    yield (
        f"A load without TFO opens {plural(connections, 'connection')}"
        f" ({plural(len(page.resources) / max(connections, 1), 'request')} on each, on average), and"
        f" the critical path {last[0].where} waits for {plural(last[1].handshakes, 'handshake')}."
    )
    shares = f"{share(first[1].share(Kind.HANDSHAKE))} of the page load time {first[0].where}"
    if last[0] is not first[0]:
        shares += f" and {share(last[1].share(Kind.HANDSHAKE))} {last[0].where}"
    part = last[1].share(Kind.HANDSHAKE)
    verdict = next(words for least, words in LENDS_ITSELF if part >= least)
    yield f"{verdict}: these handshakes take {shares}."
    yield from _slow_handshakes(known)
    ready_ms, plt_ms = last[1].ready_ms, last[1].plt_ms
    if ready_ms >= READY_MIN * plt_ms:
        yield (
            f"{capitalised(last[0].where)}, {share(ready_ms / plt_ms)} of the load ({time(ready_ms)}) is"
            " waiting for a free connection to the host."
        )


def _slow_handshakes(paths: list[tuple[Place, Breakdown]]) -> Iterator[str]:
    """Yield a sentence on the place whose handshakes take most round trips, if these handshakes are slow."""
    slowest, worst_ms, worst_trips = "", 0.0, 0.0
    for place, path in paths:
        if path.handshakes and place.rtt_ms:
            each_ms = path.kinds_ms[Kind.HANDSHAKE] / path.handshakes
            if each_ms / place.rtt_ms > worst_trips:
                slowest, worst_ms, worst_trips = place.where, each_ms, each_ms / place.rtt_ms
    if worst_trips >= SLOW_HANDSHAKE:
        yield (
            f"A handshake on the path took {time(worst_ms)} on average {slowest}, {worst_trips:.1f} round"
            " trips: it queued behind requests on the link."
        )


def _third_parties(page: Page) -> str:
    others = third_parties(page)
    own = registrable_domain(page.resources[0].host)
    if not others:
        return f"All {len(page.resources)} requests stay with {own}: 0 third parties."
    largest, count = next(iter(others.items()))
    total = sum(others.values())
    requests = len(page.resources)
    return (
        f"{total} of its {requests} requests ({share(total / requests)}) leave {own} for"
        f" {plural(len(others), 'other domain')}, most of them ({count}) for {largest}."
    )
