"""Generate a report's questions and answers about TCP Fast Open from the figures of a run.

Every sentence states the figure that it is based on. Questions that the run cannot answer are left out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from statistics import linear_regression, mean
from typing import Final

from fastopen.analysis.attribution.breakdown import Breakdown
from fastopen.analysis.attribution.critical_path import Kind
from fastopen.analysis.attribution.curves import Place, RunAnalysis, curves_of
from fastopen.analysis.statistics import (
    FULL_MIN,
    HELLO_BEYOND_SYN,
    Bound,
    CellResult,
    Effect,
    Results,
    effect_of,
)
from fastopen.common.phrases import (
    NBSP,
    capitalised,
    change,
    decapitalised,
    listed,
    percent,
    plural,
    share,
    signed,
    size,
    time,
    with_sign,
)
from fastopen.experiments import Factor
from fastopen.experiments.factors import RTT
from fastopen.pages import Page
from fastopen.pages.describe import registrable_domain, third_parties

# Answers describe at most this many comparisons, series or values one by one.
NAMED_MAX: Final = 4
# Answers do not mention smaller changes of a kind of wait on the critical path, such as transfer.
CHANGE_MIN_MS: Final = 1.0
# Answers report time saved in TCP handshakes as moved if TLS handshakes grow by at least this fraction of it.
MOVED_MIN: Final = 0.5
# If each ms of RTT adds less than this to the saving, in ms, TFO saves less than one handshake in sequence.
HANDSHAKE_MIN: Final = 0.5
# Waits for a free connection are not mentioned if they take a smaller fraction of the page load time.
READY_MIN: Final = 0.01
# Handshakes are slow if they take this many round trips on average. On an idle link, a handshake takes one.
SLOW_HANDSHAKE: Final = 1.3


@dataclass(frozen=True)
class _Pair:
    """A row (`place`) of a page's result table, and its saving by TFO. `headline`: the result with TFO."""

    place: Place
    headline: CellResult
    improvement_percent: float
    saved_ms: float


def _pairs(places: Iterable[Place]) -> list[_Pair]:
    known = ((place, place.headline) for place in places if place.headline is not None)
    return [
        _Pair(place, one, one.improvement_percent, one.saved_ms)
        for place, one in known
        if one.improvement_percent is not None and one.saved_ms is not None
    ]


def page_answers(analysis: RunAnalysis, page: str) -> dict[str, list[str]]:
    """Map a report's questions about a page to the sentences that answer them. Return {} if the run measured
    no saving."""
    results, pairs = analysis.results, _pairs(analysis.places(page))
    if not pairs:
        return {}
    places = [pair.place for pair in pairs]
    curves = curves_of(results, places)
    first, *_ = curves.values()
    asked = {
        "What does TFO do to the timing?": _timing(max(places, key=lambda place: place.rtt_ms)),
        "How does the RTT change that?": _rtt(results, curves),
        "What do the other settings change?": _settings(results, places),
        "Which handshakes does the page wait for?": _content(results.pages[page], first),
        "How close is it to the upper bound?": _upper_bound(results, pairs),
    }
    return {question: told for question, sentences in asked.items() if (told := list(sentences))}


def run_answers(analysis: RunAnalysis) -> dict[str, list[str]]:
    """Answer `Which pages gain most and least?`. Return {} if fewer than two pages have a saving by TFO."""
    of_page = {page: _pairs(analysis.places(page)) for page in analysis.results.pages}
    gains = {page: [pair.improvement_percent for pair in pairs] for page, pairs in of_page.items() if pairs}
    ranked = sorted(gains, key=lambda page: -mean(gains[page]))
    if len(ranked) < 2:
        return {}
    sentences = []
    for page, word in ((ranked[0], "most"), (ranked[-1], "least")):
        low, high = min(gains[page]), max(gains[page])
        sentences.append(
            f"{page} gains {word}: {signed(mean(gains[page]))}{NBSP}% on average over"
            f" {plural(len(gains[page]), 'row')} ({signed(low)} to {signed(high)}{NBSP}%)"
            f"{_because(of_page[page])}."
        )
    if middle := [f"{page} {signed(mean(gains[page]))}{NBSP}%" for page in ranked[1:-1]]:
        sentences.append(f"Between them: {listed(middle)}.")
    return {"Which pages gain most and least?": sentences}


def _timing(place: Place) -> Iterator[str]:
    before, after = place.baseline_path, place.headline_path
    if before is None or after is None or not (changes := before.changes_ms(after, CHANGE_MIN_MS)):
        return
    loads = " and ".join(dict.fromkeys(map(str, (before.loads, after.loads))))
    of_loads = "" if loads == "1" else f" (means of {loads} loads)"
    in_all_ms = after.plt_ms - before.plt_ms
    pieces = [f"{kind} {change(by)}" for kind, by in changes.items()]
    rest = change(in_all_ms - sum(changes.values()))
    of_path = listed(pieces if rest == change(0) else [*pieces, f"others {rest}"])
    shorter_ms = -changes.get(Kind.HANDSHAKE, 0.0)
    grows = shorter_ms > 0 and changes.get(Kind.TRANSFER, 0.0) > 0
    why = "; transfer grows if requests that begin earlier share the link" if grows else ""
    in_all = f"{change(in_all_ms)} in all{of_loads}"
    yield f"With TFO the critical path {place.where} changes by {in_all}: {of_path}{why}."
    if shorter_ms > 0 and changes.get(Kind.TLS, 0.0) >= MOVED_MIN * shorter_ms:
        yield f"At least {share(MOVED_MIN)} of TCP's handshake time moved to the TLS handshake."


def _rtt(results: Results, curves: dict[str, list[Place]]) -> Iterator[str]:
    rows = [curve for curve in curves.items() if len({place.rtt_ms for place in curve[1]}) > 1]
    for name, places in rows if len(rows) <= NAMED_MAX else rows[:1]:
        where = f" ({name})" if name else ""
        pairs = _pairs(places)
        first, last = pairs[0], pairs[-1]
        ends_ms = f"{first.place.rtt_ms:g} to {last.place.rtt_ms:g}{NBSP}ms of RTT"
        smallest = results.experiment.smallest_effect
        if all(effect_of(pair.headline, smallest) is Effect.NONE for pair in pairs):
            yield f"From {ends_ms}, TFO saves nothing{where}."
            continue
        rtts_ms, saved_ms = [pair.place.rtt_ms for pair in pairs], [pair.saved_ms for pair in pairs]
        per_ms = linear_regression(rtts_ms, saved_ms).slope
        grows = f", as if {plural(per_ms, 'handshake')} in a row were saved"
        if any(pair.saved_ms < 0 or pair.headline.beats_bound for pair in pairs):
            grows = ""
        elif per_ms < HANDSHAKE_MIN:
            grows = ", less than a handshake in a row"
        yield (
            f"From {ends_ms} the saving goes from"
            f" {time(first.saved_ms)} to {time(last.saved_ms)}{where}: {signed(per_ms)}{NBSP}ms for"
            f" each millisecond of RTT{grows}."
        )
        ends = [f"{signed(pair.improvement_percent)}{NBSP}% {pair.place.where}" for pair in (first, last)]
        yield f"That is {listed(ends)} of the page load time{_other_time(first.place, last.place)}."


def _settings(results: Results, places: list[Place]) -> Iterator[str]:
    factors = results.factors
    for factor in factors.varying:
        if factor.name == RTT.name or factor.question:
            continue
        of_value: dict[str, dict[tuple[str, ...], Place]] = {}
        for place in places:
            rest = tuple(text for name, text in place.texts.items() if name != factor.name)
            of_value.setdefault(place.texts[factor.name], {})[rest] = place
        reference, *others = of_value.values()
        for other in others[:NAMED_MAX]:
            common = [rest for rest in reference if rest in other]
            if common:
                rest = max(common, key=lambda one: reference[one].rtt_ms)
                named = factors.name_without(reference[rest].comparison, factor)
                yield from _changed_by(results, factor, reference[rest], other[rest], named)


def _changed_by(results: Results, factor: Factor, first: Place, second: Place, named: str) -> Iterator[str]:
    """Yield at most two sentences, one on loads without TFO and one on loads with TFO. Each compares the page
    load times of two table rows that differ only in `factor`. `named`: other varying settings, as text."""
    points = [results.factors.point(place.comparison) for place in (first, second)]
    before, after = (factor.phrase_at(point) for point in points)
    paths = {
        "Without TFO": (first.baseline_path, second.baseline_path),
        "With TFO": (first.headline_path, second.headline_path),
    }
    for condition, (old, new) in paths.items():
        if old is None or new is None:
            continue
        pieces = [f"{kind} {change(by)}" for kind, by in old.changes_ms(new, CHANGE_MIN_MS).items()]
        why = f": {listed(pieces)}" if pieces else ", with the same critical path"
        where = f" ({named})" if named else ""
        in_all = change(new.plt_ms - old.plt_ms)
        yield f"{condition}, {after} instead of {before}{where}: {in_all}{why}."


def _other_time(first: Place, last: Place) -> str:
    if first.baseline_path is None or last.baseline_path is None:
        return ""
    parts = [
        share(path.share(Kind.TRANSFER) + path.share(Kind.PROCESSING))
        for path in (first.baseline_path, last.baseline_path)
    ]
    return f"; transfer and processing, which TFO does not shorten, are {listed(parts)} of it"


def _content(page: Page, places: list[Place]) -> Iterator[str]:
    domains = {registrable_domain(host) for host in page.hosts()}
    yield (
        f"The page has {plural(len(page.resources), 'request')} to {plural(len(page.hosts()), 'host')} of"
        f" {plural(len(domains), 'registrable domain')}, {size(page.body_bytes())} of content,"
        f" {size(page.body_bytes() / len(page.resources))} a response on average."
    )
    yield _third_parties(page)
    known = [(place, path) for place in places if (path := place.baseline_path) is not None]
    if not known:
        return
    (first, first_path), (last, last_path) = known[0], known[-1]
    yield (
        f"A load without TFO opens {plural(last_path.connections, 'connection')}"
        f" ({plural(len(page.resources) / max(last_path.connections, 1), 'request')} on each, on average),"
        f" and the critical path {last.where} waits for {plural(last_path.handshakes, 'handshake')}."
    )
    shares = f"{share(first_path.share(Kind.HANDSHAKE))} of the page load time {first.where}"
    if last is not first:
        shares += f" and {share(last_path.share(Kind.HANDSHAKE))} {last.where}"
    if most := max(round(path.handshakes, 1) for path in (first_path, last_path)):
        yield f"{'This handshake takes' if most == 1 else 'These handshakes take'} {shares}."
    yield from _slow_handshakes(known)
    ready_ms, plt_ms = last_path.ready_ms, last_path.plt_ms
    if ready_ms >= READY_MIN * plt_ms:
        yield (
            f"{capitalised(last.where)}, {share(ready_ms / plt_ms)} of the load ({time(ready_ms)}) is"
            " waiting for a free connection to the host."
        )


def _slow_handshakes(paths: list[tuple[Place, Breakdown]]) -> Iterator[str]:
    known = [
        (path.kinds_ms[Kind.HANDSHAKE] / path.handshakes, place)
        for place, path in paths
        if path.handshakes and place.rtt_ms
    ]
    if known:
        each_ms, slowest = max(known, key=lambda one: one[0] / one[1].rtt_ms)
        trips = each_ms / slowest.rtt_ms
        if trips >= SLOW_HANDSHAKE:
            yield (
                f"A handshake on the path took {time(each_ms)} on average {slowest.where}, {trips:.1f} round"
                " trips: it queued behind requests on the link."
            )


def _third_parties(page: Page) -> str:
    others = third_parties(page)
    own, requests = registrable_domain(page.resources[0].host), len(page.resources)
    if not others:
        every = "The request stays" if requests == 1 else f"All {requests} requests stay"
        return f"{every} with {own}: 0 third parties."
    largest, count = next(iter(others.items()))
    total = sum(others.values())
    domains = f"{len(others)} other domains, {largest} most often ({count})"
    return (
        f"{total} of its {requests} requests ({share(total / requests)}) leave {own} for"
        f" {domains if len(others) > 1 else largest}."
    )


def _upper_bound(results: Results, pairs: list[_Pair]) -> Iterator[str]:
    shown = pairs
    if len(pairs) > NAMED_MAX:
        ordered = sorted(pairs, key=lambda pair: pair.improvement_percent)
        shown = [ordered[0], ordered[-1]]
    for pair in shown:
        bound = pair.headline.bound
        if bound is not None and (bound.ms or pair.headline.beats_bound):
            yield _compared_with_bound(results, pair, bound)
    for pair in pairs:
        theirs = results.published.get((pair.place.comparison.page, pair.place.comparison.network))
        if theirs is not None:
            published = theirs.improvement_percent
            yield (
                f"At {pair.place.name} the published times come to {signed(published)}{NBSP}%; ours,"
                f" {signed(pair.improvement_percent)}{NBSP}%, is {_against(pair, published)}."
            )


def _compared_with_bound(results: Results, pair: _Pair, bound: Bound) -> str:
    if pair.headline.beats_bound:
        before, after = pair.place.baseline_path, pair.place.headline_path
        changes = before.changes_ms(after, CHANGE_MIN_MS) if before and after else {}
        shorter = [
            f"on the critical path {kind} took {time(-by)} less"
            for kind, by in changes.items()
            if kind is not Kind.HANDSHAKE and by < 0
        ]
        return excess_sentence(pair.place.where, pair.place.baseline, pair.headline, shorter)
    saved = "none of them" + (HELLO_BEYOND_SYN if results.hello_beyond_syn(pair.headline) else "")
    if pair.saved_ms > 0 and change(pair.saved_ms) != change(0):
        saved = f"{time(pair.saved_ms)} of them ({share(pair.saved_ms / bound.ms)})"
    took = f"{time(bound.ms)}, {percent(bound.percent)} of page load time"
    return f"{capitalised(pair.place.where)}, handshakes in a row took {took}; TFO saved {saved}."


def excess_sentence(
    where: str, baseline: CellResult | None, result: CellResult, shorter: Iterable[str] = ()
) -> str:
    """Return a sentence on why TFO saved more time than the handshakes took, or an empty string if it did
    not. `where`: the network and settings, such as `at 20 ms`. `baseline` and `result`: the results without
    and with TFO. `shorter`: phrases on other waits that TFO shortened."""
    if not result.beats_bound or result.bound is None:
        return ""
    assert result.improvement_percent is not None
    causes = list(shorter)
    if baseline is not None and (fewer := (baseline.retransmitted or 0) - (result.retransmitted or 0)) > 0:
        causes.append(
            f"{plural(fewer, 'segment')} fewer per load {'was' if fewer == 1 else 'were'} retransmitted"
        )
    return (
        f"{capitalised(where)}, {decapitalised(result.cell.arm.condition)}, TFO saves"
        f" {percent(result.improvement_percent)}, more than the {percent(result.bound.percent)} of page load"
        f" time that handshakes in a row took:"
        f" {listed(causes) if causes else 'something else took less time as well'}."
    )


def _against(pair: _Pair, published: float) -> str:
    ours = pair.headline
    low, high = ours.interval or (inf, -inf)
    if low <= published <= high:
        hull = f"{with_sign(low)} to {with_sign(high)}"
        certainty = f"{100 * ours.confidence:.0f}{NBSP}% interval {hull}, n{NBSP}{ours.pairs}"
        if ours.deterministic:
            certainty = "virtual time, without noise"
        elif ours.varied:
            samples = f"{ours.pairs} samples {hull}"
            certainty = f"90{NBSP}% of {samples}" if ours.pairs >= FULL_MIN else f"all {samples}"
        return f"the same within its range ({certainty})"
    # Subtract rounded values, so that the difference agrees with the printed numbers.
    apart = round(pair.improvement_percent, 1) - round(published, 1)
    return f"{signed(abs(apart))} points {'above' if apart > 0 else 'below'} it"


def _because(pairs: list[_Pair]) -> str:
    paths = [path for pair in pairs if (path := pair.place.baseline_path) is not None]
    if not paths:
        return ""
    part = mean(path.share(Kind.HANDSHAKE) for path in paths)
    count = mean(path.handshakes for path in paths)
    return f"; without TFO {plural(count, 'handshake')} on its critical path took {share(part)} of its time"
