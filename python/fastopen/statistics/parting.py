"""Where published figures and ours part, cell by cell, and what the numbers themselves say of why.

All figures of a published cell are taken as they must have been meant (its unit, its columns); what was
printed beside its own times is one of the marks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fastopen.experiments import Comparison, PublishedCell
from fastopen.statistics.cells import CellResult
from fastopen.statistics.results import Results

# Improvements that differ by less than this many points say the same of a page.
AGREE_POINTS: Final = 3.0
# A printed percentage is rounded, and its times are: what is further off does not come from them.
PRINTED_POINTS: Final = 1.0
# A handshake takes an RTT, and what it waits for, a request and its answer, one more: TFO saves half at most.
HALF_PERCENT: Final = 50.0 + PRINTED_POINTS


class Mark(StrEnum):
    """One thing to be said of a cell; the text is what its column shows."""

    SLOWER = "slower with TFO"
    UNSIGNED = "printed without sign"
    MISPRINTED = "misprinted"
    IMPOSSIBLE = "more than half"
    BEYOND = "beyond handshakes"
    OURS_BEYOND = "ours beyond handshakes"
    AGREES = "agrees"
    THEIRS_MORE = "theirs saves more"
    OURS_MORE = "ours saves more"


@dataclass(frozen=True)
class Parting:
    """A published cell beside ours; milliseconds and percent, None where we have none."""

    comparison: Comparison
    theirs: PublishedCell
    off: CellResult | None
    warm: CellResult | None

    @property
    def at_most_percent(self) -> float | None:
        """What our handshakes in a row took, of our PLT without TFO: the most that TFO can save."""
        if self.off is None or self.warm is None or not self.off.plt_ms_median:
            return None
        if self.warm.handshakes_ms is None:
            return None
        return 100 * self.warm.handshakes_ms / self.off.plt_ms_median

    @property
    def theirs_saved_ms(self) -> float:
        """Negative where TFO was slower."""
        return self.theirs.off_ms - self.theirs.tfo_ms

    @property
    def theirs_longer(self) -> float | None:
        """Their PLT without TFO in ours."""
        if self.off is None or not self.off.plt_ms_median:
            return None
        return self.theirs.off_ms / self.off.plt_ms_median

    @property
    def marks(self) -> tuple[Mark, ...]:
        """What is to be said of the cell: first of their print, then of the two beside each other."""
        return (*self._of_print(), *self._of_both())

    def _of_print(self) -> Iterator[Mark]:
        printed, computed = self.theirs.improvement_percent_as_printed, self.theirs.improvement_percent
        if computed < 0:
            yield Mark.SLOWER
        if abs(printed - computed) > PRINTED_POINTS:
            unsigned = computed < 0 and abs(printed + computed) <= PRINTED_POINTS
            yield Mark.UNSIGNED if unsigned else Mark.MISPRINTED
        if computed > HALF_PERCENT:
            yield Mark.IMPOSSIBLE

    def _of_both(self) -> Iterator[Mark]:
        if self.warm is None or self.warm.improvement_percent is None:
            return
        if self.warm.beats_bound:
            yield Mark.OURS_BEYOND
        theirs, at_most = self.theirs.improvement_percent, self.at_most_percent
        if abs(theirs - self.warm.improvement_percent) <= AGREE_POINTS:
            yield Mark.AGREES
        elif at_most is not None and theirs > at_most:
            yield Mark.BEYOND
        else:
            yield Mark.THEIRS_MORE if theirs > self.warm.improvement_percent else Mark.OURS_MORE


def partings(results: Results) -> list[Parting]:
    """Each published cell of the run's experiment beside ours, in the order of the tables."""
    found = []
    for page in results.pages:
        seen: set[int] = set()
        for comparison, cells in results.comparisons(page).items():
            theirs = results.published.get((page, comparison.network))
            if theirs is None or comparison.network in seen:
                continue
            seen.add(comparison.network)
            arms = {result.cell.arm.name: result for result in cells}
            found.append(Parting(comparison, theirs, arms.get("off"), arms.get("warm")))
    return found


@dataclass(frozen=True)
class Growth:
    """By how many round trips the PLT without TFO grows: what the load waits for one after another."""

    page: str
    theirs: float
    ours: float


def growths(found: list[Parting], results: Results) -> list[Growth]:
    """Of each page that was loaded over two RTTs or more: from its shortest to its longest."""
    grown = []
    for page in dict.fromkeys(one.comparison.page for one in found):
        by_rtt = {
            results.experiment.networks[one.comparison.network].rtt_us: one
            for one in found
            if one.comparison.page == page and one.off is not None and one.off.plt_ms_median is not None
        }
        if len(by_rtt) < 2:
            continue
        shortest, longest = min(by_rtt), max(by_rtt)
        rtt_ms = (longest - shortest) / 1000
        theirs = by_rtt[longest].theirs.off_ms - by_rtt[shortest].theirs.off_ms
        ours = _off_ms(by_rtt[longest]) - _off_ms(by_rtt[shortest])
        grown.append(Growth(page, theirs / rtt_ms, ours / rtt_ms))
    return grown


def _off_ms(one: Parting) -> float:
    assert one.off is not None
    assert one.off.plt_ms_median is not None
    return one.off.plt_ms_median
