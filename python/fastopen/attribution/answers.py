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
from fastopen.attribution.phrases import (
    NBSP,
    change,
    gain,
    interval,
    listed,
    plural,
    share,
    signed,
    time,
)
from fastopen.attribution.segments import Kind
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
        place
        for place in places_of(results, attribution, page)
        if place.on is not None and place.on.improvement_percent is not None
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
    answers = [Answer(question, tuple(said)) for question, said in asked.items()]
    return [answer for answer in answers if answer.sentences]


def run_answers(results: Results, attribution: Attribution) -> list[Answer]:
    """What can be said of the pages beside each other."""
    said = tuple(_most_and_least(results, attribution))
    return [Answer("Which pages gain most and least?", said)] if said else []


def _timing(places: list[Place]) -> Iterator[str]:
    for place in _ends(places):
        on, off = place.on, place.off
        if on is None or off is None or on.plt_ms_median is None or off.plt_ms_median is None:
            continue
        assert on.improvement_percent is not None
        yield (
            f"At {place.name} the median load takes {time(on.plt_ms_median)} with {_arm(on)} instead of"
            f" {time(off.plt_ms_median)}; pair by pair it is {gain(on.improvement_percent)}"
            f" ({_certainty(on)})."
        )
    yield from _where_it_went(max(places, key=lambda place: place.rtt_ms))
    yield from _cold(places)


def _ends(places: list[Place]) -> list[Place]:
    """All of a few; of many the one that gains least and the one that gains most."""
    if len(places) <= NAMED_MAX:
        return places
    ordered = sorted(places, key=_improvement)
    return [ordered[0], ordered[-1]]


def _improvement(place: Place) -> float:
    on = place.on
    return on.improvement_percent if on is not None and on.improvement_percent is not None else 0.0


def _where_it_went(place: Place) -> Iterator[str]:
    """Which pieces of the critical path became shorter and longer."""
    on = place.on
    off_path = place.breakdowns.get("off")
    on_path = place.breakdowns.get(on.cell.arm.name) if on is not None else None
    if off_path is None or on_path is None:
        return
    changes = {kind: on_path.kinds_ms[kind] - off_path.kinds_ms[kind] for kind in Kind}
    said = [f"{kind} {change(by)}" for kind, by in changes.items() if abs(by) >= CHANGE_MIN_MS]
    total = on_path.plt_ms - off_path.plt_ms
    if said:
        yield (
            f"On the critical path at {place.name} that is {listed(said)}, {change(total)} in all"
            f" (means of {off_path.loads} and {on_path.loads} loads)."
        )


def _cold(places: list[Place]) -> Iterator[str]:
    """A first visit, where the run has both."""
    parts = []
    for place in _ends(places):
        cold = place.arms.get("cold")
        if "warm" not in place.arms or cold is None or cold.improvement_percent is None:
            continue
        parts.append(f"{gain(cold.improvement_percent)} at {place.name}")
    if parts:
        yield f"On a first visit, with no cookies yet, the page is loaded {listed(parts)}."


def _rtt(curves: list[Curve]) -> Iterator[str]:
    """How the saving grows along each row of RTTs; of many rows the first."""
    rows = [curve for curve in curves if len({place.rtt_ms for place in curve.places}) > 1]
    for curve in rows if len(rows) <= NAMED_MAX else rows[:1]:
        where = f" ({curve.name})" if curve.name else ""
        first, last = curve.places[0], curve.places[-1]
        saved = [(place.rtt_ms, place.on.saved_ms) for place in curve.places if place.on is not None]
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
    paths = [place.breakdowns.get("off") for place in (first, last)]
    if None in paths:
        return ""
    shares = [
        share(path.share(Kind.TRANSFER) + path.share(Kind.PROCESSING)) for path in paths if path is not None
    ]
    return f"; transfer and processing, which TFO does not shorten, are {shares[0]} and {shares[1]} of it"


def _surprise(results: Results, places: list[Place]) -> Iterator[str]:
    for place in _ends(places):
        yield from _beside_the_bound(place)
    yield from _beside_published(results, places)


def _beside_the_bound(place: Place) -> Iterator[str]:
    on, off_path = place.on, place.breakdowns.get("off")
    if on is None or on.saved_ms is None or off_path is None:
        return
    most = off_path.kinds_ms[Kind.HANDSHAKE]
    stood = plural(off_path.handshakes, "handshake")
    if on.saved_ms <= most * 1.02 + 1:
        part = f", {share(on.saved_ms / most)} of that" if most > 0 and on.saved_ms > 0 else ""
        yield (
            f"At {place.name} TFO could save at most the {time(most)} that {stood} on the critical path"
            f" took; it saved {time(on.saved_ms)}{part}: no surprise."
        )
        return
    in_a_row = (
        "" if on.handshakes_ms is None else f", and the longest handshakes in a row {time(on.handshakes_ms)}"
    )
    verdict = "a surprise: the rest has other causes" if on.beats_bound else "other requests gained as well"
    yield (
        f"At {place.name} it saved {time(on.saved_ms)}, more than the {time(most)} that {stood} on the"
        f" critical path took{in_a_row}: {verdict}{_sent_again(place)}."
    )


def _sent_again(place: Place) -> str:
    off, on = place.off, place.on
    if off is None or on is None or off.retransmitted is None or on.retransmitted is None:
        return ""
    if off.retransmitted == on.retransmitted:
        return ""
    return f" (segments sent again a load: {off.retransmitted:g} without, {on.retransmitted:g} with TFO)"


def _beside_published(results: Results, places: list[Place]) -> Iterator[str]:
    for place in places:
        theirs = results.published.get((place.comparison.page, place.comparison.network))
        on = place.on
        if theirs is None or on is None or on.improvement_percent is None:
            continue
        printed = theirs.improvement_percent_as_printed
        yield (
            f"At {place.name} the published figure is {signed(printed)}{NBSP}%; ours,"
            f" {signed(on.improvement_percent)}{NBSP}%, is {_against(on, printed)}."
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
        known = [
            place for place in places if place.on is not None and place.on.improvement_percent is not None
        ]
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
    paths = [place.breakdowns["off"] for place in places if "off" in place.breakdowns]
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


def _arm(result: CellResult) -> str:
    return f"TFO and {result.cell.arm.name} cookies"
