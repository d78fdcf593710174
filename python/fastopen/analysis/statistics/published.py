"""Compare the rows of published tables with measured results, and label the differences.

Misprints, wrong units and swapped columns have been corrected in the published times (PublishedCell). A label
also marks a printed percentage that does not agree with the corrected times."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fastopen.analysis.statistics.cells import CellResult
from fastopen.analysis.statistics.results import Results
from fastopen.experiments import Comparison, PublishedCell, baseline_of, headline_of

# Improvements agree if they differ by at most this many percentage points.
AGREE_POINTS: Final = 3.0
# Rounding cannot explain a larger difference between the printed percentage and the one that the times give.
PRINTED_POINTS: Final = 1.0
# A handshake takes one RTT, and the request after it takes at least one. So TFO saves at most half of a load.
HALF_PERCENT: Final = 50.0 + PRINTED_POINTS


class Label(StrEnum):
    """A finding about a published row, or about our result for this row. Tables print the enum's values."""

    SLOWER = "slower with TFO"
    UNSIGNED = "printed without sign"
    MISPRINTED = "misprinted"
    IMPOSSIBLE = "more than half"
    BEYOND = "exceeds our upper bound"
    OURS_BEYOND = "ours exceeds its upper bound"
    AGREES = "agrees"
    THEIRS_MORE = "theirs saves more"
    OURS_MORE = "ours saves more"


@dataclass(frozen=True)
class Discrepancy:
    """A row of a published table, and the measured results to compare with it: `baseline` without TFO, and
    `headline` with TFO, with warm cookies if measured. A result is None if it was not measured."""

    comparison: Comparison
    published: PublishedCell
    baseline: CellResult | None
    headline: CellResult | None

    @property
    def improvement_percent(self) -> float | None:
        """Return the measured saving by TFO, in percent; None if it is unknown."""
        return None if self.headline is None else self.headline.improvement_percent

    @property
    def at_most_percent(self) -> float | None:
        """Return the upper bound on the saving of our measured page, in percent; None if it is unknown."""
        bound = None if self.headline is None else self.headline.bound
        return None if bound is None else bound.percent

    @property
    def baseline_ms(self) -> float | None:
        """Return the median measured page load time without TFO, in milliseconds; None if it is unknown."""
        return None if self.baseline is None else self.baseline.plt_ms_median

    @property
    def labels(self) -> tuple[Label, ...]:
        """Return the findings on the published row itself, then a finding if our saving is above its upper
        bound, then the comparison of the published saving with ours."""
        return tuple(self._labels())

    def _labels(self) -> Iterator[Label]:
        printed, theirs = self.published.improvement_percent_as_printed, self.published.improvement_percent
        if theirs < 0:
            yield Label.SLOWER
        if self.published.corrected_off is not None:
            yield Label.MISPRINTED
        elif abs(printed - theirs) > PRINTED_POINTS:
            unsigned = theirs < 0 and abs(printed + theirs) <= PRINTED_POINTS
            yield Label.UNSIGNED if unsigned else Label.MISPRINTED
        if theirs > HALF_PERCENT:
            yield Label.IMPOSSIBLE
        ours, at_most = self.improvement_percent, self.at_most_percent
        if self.headline is None or ours is None:
            return
        if self.headline.beats_bound:
            yield Label.OURS_BEYOND
        if abs(theirs - ours) <= AGREE_POINTS:
            yield Label.AGREES
        elif at_most is not None and theirs > at_most:
            yield Label.BEYOND
        else:
            yield Label.THEIRS_MORE if theirs > ours else Label.OURS_MORE


def discrepancies(results: Results) -> list[Discrepancy]:
    """Return each published row whose page and network the run measured, together with the measured results,
    in the order of the run's tables. If several setups were measured, use only the first of them."""
    found: dict[tuple[str, int], Discrepancy] = {}
    for page in results.pages:
        for comparison, arms in results.comparisons(page).items():
            row = (page, comparison.network)
            if theirs := results.published.get(row):
                found.setdefault(row, Discrepancy(comparison, theirs, baseline_of(arms), headline_of(arms)))
    return list(found.values())


def slopes(found: list[Discrepancy], results: Results) -> dict[str, tuple[float, float]]:
    """Return (published slope, measured slope) for each page: the number of ms that each ms of RTT adds to
    the load time without TFO. It approximates the number of successive round trips of a load. Leave out pages
    that were loaded with only one RTT. `found`: the published rows and the measured results."""
    points: dict[str, dict[float, tuple[float, float]]] = defaultdict(dict)
    for one in found:
        if one.baseline_ms is not None:
            rtt_ms = results.experiment.networks[one.comparison.network].rtt_us / 1000
            points[one.comparison.page][rtt_ms] = (one.published.off_ms, one.baseline_ms)
    known = {}
    for page, of_rtt in points.items():
        if len(of_rtt) > 1:
            shortest, longest = min(of_rtt), max(of_rtt)
            before, after = of_rtt[shortest], of_rtt[longest]
            theirs, ours = ((after[at] - before[at]) / (longest - shortest) for at in (0, 1))
            known[page] = (theirs, ours)
    return known
