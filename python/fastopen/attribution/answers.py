"""The questions that reports on TCP Fast Open answer, answered from a run's own figures.

Every sentence carries the figure that it rests on; a question that the run cannot answer is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean
from typing import Final

from fastopen.attribution.breakdown import Attribution
from fastopen.attribution.content import content_sentences
from fastopen.attribution.curves import Curve, Place, curves_of, places_of, slope
from fastopen.attribution.excess import excess_sentence
from fastopen.attribution.phrases import (
    NBSP,
    change,
    gain,
    interval,
    listed,
    percent,
    plural,
    share,
    signed,
    time,
)
from fastopen.attribution.segments import Kind
from fastopen.experiments import treatments_of
from fastopen.statistics import CellResult, Results

# More comparisons of one page than this are summed up by the two ends.
NAMED_MAX: Final = 4
# Pieces of the critical path that changed by less are not worth a word.
CHANGE_MIN_MS: Final = 1.0
# Below this slope no whole handshake is saved for a round trip.
HANDSHAKE_MIN: Final = 0.5


@dataclass(frozen=True)
class Answer:
    """A question and what the run says to it."""

    question: str
    sentences: tuple[str, ...]


def page_answers(results: Results, attribution: Attribution, page: str) -> list[Answer]:
    """What can be said of one page."""
    places = [
        place for place in places_of(results, attribution, page) if place.improvement_percent is not None
    ]
    if not places:
        return []
    curves = curves_of(results, places)
    asked = {
        "What does TFO do to the timing?": _timing(places),
        "How does the RTT change that?": _rtt(curves),
        "Does the content lend itself to TFO?": content_sentences(results.pages[page], curves[0]),
        "Is that surprising?": _surprise(results, places),
    }
    answers = [Answer(question, tuple(sentences)) for question, sentences in asked.items()]
    return [answer for answer in answers if answer.sentences]


def run_answers(results: Results, attribution: Attribution) -> list[Answer]:
    """What can be said of the pages compared with each other."""
    sentences = tuple(_most_and_least(results, attribution))
    return [Answer("Which pages gain most and least?", sentences)] if sentences else []


def _timing(places: list[Place]) -> Iterator[str]:
    for place in _ends(places):
        headline, baseline = place.headline, place.baseline
        if headline is None or headline.plt_ms_median is None:
            continue
        if baseline is None or baseline.plt_ms_median is None:
            continue
        yield (
            f"{headline.cell.arm.condition} the median load at {place.name} takes"
            f" {time(headline.plt_ms_median)} instead of {time(baseline.plt_ms_median)}; pair by pair it is"
            f" {gain(_improvement(place))} ({_certainty(headline)})."
        )
    yield from _where_it_went(max(places, key=lambda place: place.rtt_ms))
    yield from _other_treatments(places)


def _ends(places: list[Place]) -> list[Place]:
    """All of a few; of many the one that gains least and the one that gains most."""
    if len(places) <= NAMED_MAX:
        return places
    ordered = sorted(places, key=_improvement)
    return [ordered[0], ordered[-1]]


def _improvement(place: Place) -> float:
    return place.improvement_percent or 0.0


def _changes_ms(place: Place) -> dict[Kind, float]:
    """By how much the pieces of the critical path became longer, those that are worth a word."""
    before, after = place.baseline_path, place.headline_path
    if before is None or after is None:
        return {}
    changes = {kind: after.kinds_ms[kind] - before.kinds_ms[kind] for kind in Kind}
    return {kind: by for kind, by in changes.items() if abs(by) >= CHANGE_MIN_MS}


def _where_it_went(place: Place) -> Iterator[str]:
    """Which pieces of the critical path became shorter and longer."""
    before, after, changes = place.baseline_path, place.headline_path, _changes_ms(place)
    if before is not None and after is not None and changes:
        yield (
            f"On the critical path at {place.name} that is"
            f" {listed([f'{kind} {change(by)}' for kind, by in changes.items()])},"
            f" {change(after.plt_ms - before.plt_ms)} in all"
            f" (means of {before.loads} and {after.loads} loads)."
        )


def _other_treatments(places: list[Place]) -> Iterator[str]:
    """The arms that the first sentences were not about, such as a first visit."""
    for arm in treatments_of(dict.fromkeys(name for place in places for name in place.arms)):
        known = [
            f"{gain(other.improvement_percent)} at {place.name}"
            for place in _ends(places)
            if (other := place.arms.get(arm.name)) is not None
            and other is not place.headline
            and other.improvement_percent is not None
        ]
        if known:
            yield f"On {arm.visit} the page is loaded {listed(known)}."


def _rtt(curves: list[Curve]) -> Iterator[str]:
    """How the saving grows along each row of RTTs; of many rows the first."""
    rows = [curve for curve in curves if len({place.rtt_ms for place in curve.places}) > 1]
    for curve in rows if len(rows) <= NAMED_MAX else rows[:1]:
        where = f" ({curve.name})" if curve.name else ""
        first, last = curve.places[0], curve.places[-1]
        saved = [(place.rtt_ms, place.headline.saved_ms) for place in curve.places if place.headline]
        known = [(rtt, ms) for rtt, ms in saved if ms is not None]
        per_ms = slope(known)
        if per_ms is None:
            continue
        yield (
            f"From {first.rtt_ms:g} to {last.rtt_ms:g}{NBSP}ms of RTT the saving goes from"
            f" {time(known[0][1])} to {time(known[-1][1])}{where}: {signed(per_ms)}{NBSP}ms for"
            f" each millisecond of RTT, {_as_if(per_ms)}."
        )
        yield (f"Of the page load time it is {_of_plt(first)} and {_of_plt(last)}{_other_time(first, last)}.")


def _as_if(per_ms: float) -> str:
    if per_ms < HANDSHAKE_MIN:
        return "so it hardly depends on the RTT: what it saves is queueing on the link"
    return f"as if {plural(per_ms, 'handshake')} in a row fell away"


def _of_plt(place: Place) -> str:
    return f"{signed(_improvement(place))}{NBSP}% at {place.name}"


def _other_time(first: Place, last: Place) -> str:
    """What of the page load time no handshake touches, at both ends."""
    if first.baseline_path is None or last.baseline_path is None:
        return ""
    parts = [
        share(path.share(Kind.TRANSFER) + path.share(Kind.PROCESSING))
        for path in (first.baseline_path, last.baseline_path)
    ]
    return f"; transfer and processing, which TFO does not shorten, are {parts[0]} and {parts[1]} of it"


def _surprise(results: Results, places: list[Place]) -> Iterator[str]:
    for place in _ends(places):
        yield from _compared_with_bound(place)
    yield from _compared_with_published(results, places)


def _compared_with_bound(place: Place) -> Iterator[str]:
    headline = place.headline
    if headline is None or headline.saved_ms is None or headline.bound is None:
        return
    if headline.beats_bound:
        shorter = [
            f"on the critical path {kind} took {time(-by)} less"
            for kind, by in _changes_ms(place).items()
            if kind is not Kind.HANDSHAKE and by < 0
        ]
        yield excess_sentence(place.name, place.baseline, headline, shorter)
        return
    most_ms = headline.bound.ms
    part = f", {share(headline.saved_ms / most_ms)} of that" if most_ms > 0 and headline.saved_ms > 0 else ""
    yield (
        f"At {place.name} TFO could save at most the {time(most_ms)} ({percent(headline.bound.percent)}) that"
        f" handshakes in a row took; it saved {time(headline.saved_ms)}{part}: no surprise."
    )


def _compared_with_published(results: Results, places: list[Place]) -> Iterator[str]:
    for place in places:
        theirs = results.published.get((place.comparison.page, place.comparison.network))
        if theirs is None or place.headline is None or place.improvement_percent is None:
            continue
        printed = theirs.improvement_percent_as_printed
        yield (
            f"At {place.name} the published figure is {signed(printed)}{NBSP}%; ours,"
            f" {signed(place.improvement_percent)}{NBSP}%, is {_against(place.headline, printed)}."
        )


def _against(ours: CellResult, printed: float) -> str:
    assert ours.improvement_percent is not None
    apart = ours.improvement_percent - printed
    if ours.improvement_ci95 is not None and ours.improvement_ci95[0] <= printed <= ours.improvement_ci95[1]:
        return f"the same within its interval ({_certainty(ours)})"
    return f"{signed(abs(apart))} points {'above' if apart > 0 else 'below'} it"


def _most_and_least(results: Results, attribution: Attribution) -> Iterator[str]:
    ranked = []
    for page in results.pages:
        places = places_of(results, attribution, page)
        known = [place for place in places if place.improvement_percent is not None]
        if known:
            ranked.append((mean(_improvement(place) for place in known), page, known))
    if len(ranked) < 2:
        return
    ranked.sort(key=lambda row: -row[0])
    for (average, page, known), word in ((ranked[0], "most"), (ranked[-1], "least")):
        gains = [_improvement(place) for place in known]
        yield (
            f"{page} gains {word}: {signed(average)}{NBSP}% on average over"
            f" {plural(len(known), 'network')} ({signed(min(gains))} to {signed(max(gains))}{NBSP}%)"
            + _because(known)
        )
    middle = [f"{page} {signed(average)}{NBSP}%" for average, page, _ in ranked[1:-1]]
    if middle:
        yield f"Between them: {listed(middle)}."


def _because(places: list[Place]) -> str:
    paths = [place.baseline_path for place in places if place.baseline_path is not None]
    if not paths:
        return "."
    part = mean(path.share(Kind.HANDSHAKE) for path in paths)
    count = mean(path.handshakes for path in paths)
    return f"; without TFO {plural(count, 'handshake')} on its critical path took {share(part)} of its load."


def _certainty(result: CellResult) -> str:
    """The interval, or why there is none."""
    if result.deterministic:
        return "virtual time, without noise"
    return interval(result.improvement_ci95, result.pairs)
