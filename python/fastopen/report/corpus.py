"""Report the savings over a corpus of pages, and the properties of pages that correlate with savings."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastopen.analysis.statistics import PROPERTIES, Correlation, Distribution, Effect, Results
from fastopen.common.grid import Column, Entry, Grid, Tone, entries, figures
from fastopen.common.grouping import grouped
from fastopen.common.phrases import NBSP, listed, plural, with_sign
from fastopen.experiments import treatments_of
from fastopen.report.shared_columns import MISSING, factor_entry

QUANTILES: Final = (5, 25, 50, 75, 95)
# The maximum number of correlations in a sentence.
NAMED: Final = 3
# The number of pages with the largest savings, and with the smallest, that are described individually.
EXTREMES: Final = 3


def corpus_grids(results: Results, places: int | None = None) -> Iterator[Grid]:
    """Yield tables on a corpus of pages: the distribution of savings, and their correlations with page
    properties for at most `places` networks and setups (all if None). Yield none for too few pages."""
    if not results.distributions:
        return
    yield _distribution_grid(results)
    judged = _judged(results)
    if any(one.correlations for one in judged):
        yield _correlation_grid(judged, places)


def corpus_sentences(results: Results) -> Iterator[str]:
    """Yield sentences on the distribution of TFO's saving over many pages, and on page properties that
    correlate with the saving, for each network and setup. The saving is with warm TFO cookies, or with cold
    cookies if the run has no warm ones."""
    for one in _judged(results):
        low, _, middle, _, high = one.quantiles
        slower = one.effects.get(Effect.INCREASES, 0)
        where = f"{one.arm.condition} at {one.place}" if one.place else one.arm.condition
        left = one.pages_without_pairs
        without = f" {plural(left, 'page')} without a valid pair of loads." if left else ""
        yield (
            f"{where} TFO saves {with_sign(middle)} % of the median page, {with_sign(low)} to"
            f" {with_sign(high)} % of nine in ten; {slower or 'none'} of {len(one.savings)} pages"
            f" {'are' if slower > 1 else 'is'} slower.{without}"
        )
        if one.strongest:
            yield f"The saving {_correlation_clause(one.strongest[:NAMED])}."
        elif one.correlations:
            yield "No known property of these pages correlates with the saving for certain."


def pages_described_singly(results: Results) -> list[str]:
    """Return the pages that a report describes one by one. These are all pages or, if there are many, the
    three (EXTREMES) that save most and the three that save least on each network with each setup."""
    if not results.distributions:
        return list(results.pages)
    told: set[str] = set()
    for one in _judged(results):
        ordered = sorted(one.savings, key=one.savings.__getitem__)
        told.update((*ordered[:EXTREMES], *ordered[-EXTREMES:]))
    return [page for page in results.pages if page in told]


def corpus_document(results: Results) -> list[dict[str, Any]] | None:
    """Return, as JSON values, the distribution of TFO's savings over the pages, and the correlations between
    savings and page properties. None if there are too few pages."""
    if not results.distributions:
        return None
    return [
        {
            "place": one.place,
            "arm": one.arm.name,
            "pages": len(one.savings),
            "pages_without_pairs": one.pages_without_pairs,
            "quantiles_percent": dict(zip(map(str, QUANTILES), one.quantiles, strict=True)),
            "median_ci95": None if one.median_interval is None else list(one.median_interval),
            "effects": {effect.value: count for effect, count in one.effects.items()},
            "correlations": [
                {
                    "property": found.name,
                    "pages": found.pages,
                    "rho": found.rho,
                    "ci95": list(found.interval),
                    "sign": found.sign,
                }
                for found in one.correlations
            ],
        }
        for one in results.distributions
    ]


def _judged(results: Results) -> list[Distribution]:
    arms = treatments_of(results.experiment.arms)
    return [one for one in results.distributions if one.arm.name == arms[0].name]


def _correlation_clause(found: Sequence[Correlation]) -> str:
    """Return a clause such as `grows with hosts (+0.71, 95 % +0.62 to +0.79) and falls with depth (...)`."""
    intervals = ((one, " to ".join(with_sign(end, 2) for end in one.interval)) for one in found)
    named = grouped(
        (one.sign, f"{PROPERTIES[one.name]} ({with_sign(one.rho, 2)}, 95{NBSP}% {interval})")
        for one, interval in intervals
    )
    verbs = ((1, "grows"), (-1, "falls"))
    return listed([f"{verb} with {listed(named[sign])}" for sign, verb in verbs if sign in named])


def _distribution_grid(results: Results) -> Grid:
    factors = results.factors.varying
    columns = (
        *(Column(factor.header, "factor") for factor in factors),
        Column("arm", "key"),
        Column("pages"),
        *(Column(f"{share}{NBSP}%\nbelow") for share in QUANTILES[:2]),
        Column(f"median\n[95{NBSP}%]", main_result=True),
        *(Column(f"{share}{NBSP}%\nbelow") for share in QUANTILES[3:]),
        *figures("faster", "same", "slower"),
    )
    rows = []
    for one in results.distributions:
        point = results.factors.point(one.comparison)
        cuts = list(entries(*map(with_sign, one.quantiles)))
        if one.median_interval is not None:
            cuts[2] = Entry(cuts[2].text, aside=_bracketed(one.median_interval, 1))
        counts = (one.effects.get(effect, 0) for effect in (Effect.REDUCES, Effect.NONE, Effect.INCREASES))
        rows.append(
            (
                *(factor_entry(factor, point) for factor in factors),
                *entries(one.arm.name, str(len(one.savings))),
                *cuts,
                *entries(*map(str, counts)),
            )
        )
    note = (
        "Percentiles over pages of the saving, in percent of page load time. In"
        " brackets: 95 % interval of the median over all pages of which these are a sample."
        " Faster, same, slower: pages by the smallest effect of interest."
    )
    return Grid("Saved over the pages, %", columns, tuple(rows), note).hoist_common_factors()


def _correlation_grid(judged: Sequence[Distribution], most: int | None) -> Grid:
    shown = list(judged)
    if most is not None and len(shown) > most:
        shown = [shown[round(at * (len(shown) - 1) / (most - 1))] for at in range(most)]
    by_name = [{found.name: found for found in one.correlations} for one in shown]
    names = sorted(
        (name for name in PROPERTIES if any(name in found for found in by_name)),
        key=lambda name: -abs(by_name[-1][name].rho if name in by_name[-1] else 0.0),
    )
    rows = tuple(
        (Entry(PROPERTIES[name]), *(_correlation(found.get(name)) for found in by_name)) for name in names
    )
    columns = (Column("property of the page", "key"), *(Column(one.place or "all") for one in shown))
    left = f" {len(shown)} of {len(judged)} networks are here." if len(shown) < len(judged) else ""
    counts = sorted({len(one.savings) for one in shown})
    pages = " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))
    note = (
        f"Spearman's rank correlation with the saving {shown[0].arm.words}, of {pages} pages, and its 95 %"
        " interval (bootstrap over pages). Properties of pages are correlated, so none proves a cause. Of 20"
        f" properties without any relation, one shows one by chance.{left}"
    )
    return Grid("Properties of pages that correlate with the saving", columns, rows, note)


def _correlation(found: Correlation | None) -> Entry:
    if found is None:
        return Entry(MISSING)
    tone: Tone = "quiet" if found.sign == 0 else "good" if found.sign > 0 else "bad"
    return Entry(with_sign(found.rho, 2), tone, _bracketed(found.interval, 2), value=found.rho)


def _bracketed(interval: tuple[float, float], digits: int) -> str:
    low, high = interval
    return f"[{with_sign(low, digits)},{NBSP}{with_sign(high, digits)}]"
