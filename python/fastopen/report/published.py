"""Compare published figures with measured ones, in a table and in sentences."""

from collections.abc import Iterator
from typing import Final

from fastopen.analysis.statistics import (
    AGREE_POINTS,
    BEYOND_BOUND,
    Discrepancy,
    Label,
    Results,
    discrepancies,
    slopes,
)
from fastopen.common.grid import Column, Entry, Grid
from fastopen.common.phrases import NBSP, capitalised, plural, with_sign
from fastopen.experiments import BASELINE
from fastopen.report.shared_columns import factor_entry, known, time_in

# The maximum number of implausible published savings in sentences: the largest ones.
NAMED: Final = 3
# If published PLTs, or their slopes over RTT, differ from ours by more than this factor, report this.
OTHER_LOAD: Final = 1.5

# The short text of each label, for a terminal of 80 columns, and its meaning if the text does not show it.
LABELS: Final = {
    Label.SLOWER: ("slower", "their times are longer with TFO than without"),
    Label.UNSIGNED: ("unsigned", "their table prints the size of the difference without its sign"),
    Label.MISPRINTED: ("misprint", "the printed improvement is not that of the printed times"),
    Label.IMPOSSIBLE: (
        "over half",
        "theirs saves more than half, but a request of the same length follows each handshake",
    ),
    Label.BEYOND: ("too much", "theirs saves more than our handshakes in a row took"),
    Label.OURS_BEYOND: ("ours: much", "ours saves more than its handshakes in a row took, see above"),
    Label.AGREES: ("agrees", ""),
    Label.THEIRS_MORE: ("theirs more", ""),
    Label.OURS_MORE: ("ours more", ""),
}
# The factors that have a column in the table of published figures, in which only the network varies.
PUBLISHED_FACTORS: Final = ("down", "rtt")
# Labels that are followed by the improvement as printed in the source.
OF_PRINT: Final = (Label.UNSIGNED, Label.MISPRINTED)


def _label_texts(one: Discrepancy, *, short: bool = False) -> list[str]:
    """Return remarks that compare a published result with the measured one. If `short`, abbreviate them."""
    printed = f"{one.published.improvement_percent_as_printed:.3g}"
    shown = f" {printed}" if short else f" ({printed})"
    return [_name(label, short=short) + (shown if label in OF_PRINT else "") for label in one.labels]


def _name(label: Label, *, short: bool) -> str:
    return LABELS[label][0] if short else str(label)


def published_grid(results: Results) -> Grid:
    """Return a table that compares published load times and savings, after correction of misprints, with the
    measured ones. It has no rows if nothing is published for this experiment."""
    found = discrepancies(results)
    factors = [factor for factor in results.factors.varying if factor.name in PUBLISHED_FACTORS]
    columns = (
        Column("page", "key"),
        *(Column(factor.header, "factor") for factor in factors),
        *(
            Column(f"{whose}\n{what}", short=f"{whose}\n{short}")
            for whose in ("theirs", "ours")
            for what, short in (
                (f"{BASELINE.name}{NBSP}s", f"{BASELINE.name} s"),
                (f"TFO{NBSP}s", "TFO s"),
                (f"saves{NBSP}%", "saves\n%"),
            )
        ),
        Column(f"ours at\nmost{NBSP}%", short="at\nmost\n%"),
        Column("comparison", "words", short="label"),
    )
    rows = []
    for one in found:
        point = results.factors.point(one.comparison)
        agrees = one.labels == (Label.AGREES,)
        mark = BEYOND_BOUND if one.headline and one.headline.beats_bound else ""
        rows.append(
            (
                Entry(one.comparison.page),
                *(factor_entry(factor, point) for factor in factors),
                *(time_in("s", one.published.off_ms), time_in("s", one.published.tfo_ms)),
                Entry(with_sign(one.published.improvement_percent)),
                time_in("s", one.baseline_ms),
                time_in("s", one.headline.plt_ms_median if one.headline else None),
                known(one.improvement_percent, with_sign, mark=mark),
                known(one.at_most_percent),
                Entry(
                    ", ".join(_label_texts(one)),
                    "good" if agrees else "notable" if len(one.labels) > 1 else "",
                    short="\n".join(_label_texts(one, short=True)),
                ),
            )
        )
    sources = "; ".join(dict.fromkeys(one.published.source for one in found))
    note = "At most: time of our handshakes in a row without TFO, in % of our PLT."
    title = "Compared with the published figures"
    return Grid(title, columns, tuple(rows), note, sources, grouped=True).hoist_common_factors()


def comparison_sentences(results: Results, *, short: bool = False) -> list[str]:
    """Return sentences to print below the table of `published_grid`, if it has rows. They explain its
    remarks, such as `misprinted`, and describe implausible published savings and different page load times.
    `short`: True if the table has the short remarks for narrow terminals."""
    found = discrepancies(results)
    used = {label for one in found for label in one.labels}
    lines = [
        f"{capitalised(_name(label, short=short))}: {meaning}."
        for label, (_, meaning) in LABELS.items()
        if label in used and meaning
    ]
    lines += _excessive_savings(results, found)
    of_page = slopes(found, results)
    pages = dict.fromkeys(one.comparison.page for one in found)
    if times := [line for page in pages if (line := _time_difference(page, found, of_page.get(page)))]:
        lines += [*times, "Their page, client or server may differ."]
    if (published := results.experiment.published) is not None and published.known:
        lines += ["Known about the source:", *(f"- {sentence}" for sentence in published.known)]
    return lines


def agreement(results: Results) -> str:
    """Return sentences with the numbers of measured savings that agree with the published savings, and that
    differ from them. Return an empty string if nothing is published for this experiment."""
    found = discrepancies(results)
    both = [(one, ours) for one in found if (ours := one.improvement_percent) is not None]
    if not both:
        return "None of our valid loads can be compared with the published figures." if found else ""
    differing = [(one, ours) for one, ours in both if Label.AGREES not in one.labels]
    agree = len(both) - len(differing)
    more = sum(one.published.improvement_percent > ours for one, ours in differing)
    less = len(differing) - more
    counts = [f"{who} save more in {count}" for who, count in (("we", less), ("they", more)) if count]
    matched = f"{agree} of {plural(len(both), 'cell')} {'matches' if agree == 1 else 'match'}"
    opening = f"{matched} the published savings within {AGREE_POINTS:g} points."
    return f"{opening} {capitalised(', '.join(counts))}." if counts else opening


def _excessive_savings(results: Results, found: list[Discrepancy]) -> Iterator[str]:
    """Yield sentences on published savings above 50 %, or above the handshake time that we measured."""
    beyond = [one for one in found if Label.BEYOND in one.labels or Label.IMPOSSIBLE in one.labels]
    for one in sorted(beyond, key=lambda one: one.published.improvement_percent, reverse=True)[:NAMED]:
        rtt_ms = results.experiment.networks[one.comparison.network].rtt_us / 1000
        bound = None if one.headline is None else one.headline.bound
        ours = "" if bound is None else f"; in ours, handshakes in a row took {_in_rtts(bound.ms, rtt_ms)}"
        yield (
            f"{one.comparison.page} {results.factors.where(one.comparison)}: theirs saves "
            f"{_in_rtts(one.published.off_ms - one.published.tfo_ms, rtt_ms)}{ours}."
        )


def _in_rtts(milliseconds: float, rtt_ms: float) -> str:
    return f"{milliseconds / 1000:.3g} s ({milliseconds / rtt_ms:.3g} RTTs)"


def _time_difference(page: str, found: list[Discrepancy], slope: tuple[float, float] | None) -> str:
    """Return a sentence if a page's published load times without TFO, or their growth with the RTT, differ
    from the measured ones; otherwise empty. `slope`: growth (published, measured) in ms per ms of RTT."""
    parts = []
    of_page = [one for one in found if one.comparison.page == page]
    ratios = [one.published.off_ms / one.baseline_ms for one in of_page if one.baseline_ms]
    if ratios and (max(ratios) > OTHER_LOAD or min(ratios) < 1 / OTHER_LOAD):
        low, high = f"{min(ratios):.2g}", f"{max(ratios):.2g}"
        parts.append(f"is {low if low == high else f'{low} to {high}'} times ours")
    theirs, ours = slope or (1.0, 1.0)
    if not 1 / OTHER_LOAD <= theirs / max(ours, 0.1) <= OTHER_LOAD:
        faster = "faster" if theirs > ours else "slower"
        parts.append(f"grows {faster} with RTT ({theirs:.3g} ms per ms; ours {ours:.3g})")
    return f"{page}: their load time without TFO {' and '.join(parts)}." if parts else ""
