"""Compute the change of a figure, such as the page load time, between two runs, and its interval."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from fastopen.analysis.statistics import (
    FULL_MIN,
    change_interval,
    confidence_of,
    median_interval,
    range_of_samples,
)


class Basis(StrEnum):
    """The method for computing a change between two runs. It depends on how their loads correspond."""

    EXACT = "exact"
    """The loads ran in virtual time without randomness, so the change is exact."""
    PAIRED = "paired"
    """A repeat has the same random numbers in both runs, so the change is the median of paired changes."""
    SAMPLES = "samples"
    """The loads are independent, so the change is the difference of two medians."""


@dataclass(frozen=True)
class Change:
    """The change in a figure, such as the PLT, between two runs. `before`, `after`: the runs' medians."""

    before: float
    after: float
    difference: float
    """The change in the figure's unit: the difference of the medians or, for pairs, the median difference."""
    percent: float | None
    """The change as a percentage of the first run's figure; None if the figure itself is in percent."""
    interval: tuple[float, float] | None
    """The interval of `stated`, with equal ends if the change is exact; None if there are too few loads."""
    confidence: float | None = None
    """The confidence level, 0 to 1; None if `interval` is a range, not a confidence interval."""

    @property
    def stated(self) -> float:
        """Return the change to print: in percent, or in the figure's unit if `percent` is None."""
        return self.difference if self.percent is None else self.percent


def change_of(
    before: Mapping[int, float],
    after: Mapping[int, float],
    basis: Basis,
    *,
    relative: bool,
    drawn: bool = False,
) -> Change | None:
    """Return the change in a figure, such as the page load time, between two runs. `before` and `after`: the
    figure, keyed by repeat number. `basis`: the method, such as the median over pairs. `relative`: also
    give the change in percent. `drawn`: repeats sample uncertain inputs such as RTTs (`--vary`). With PAIRED,
    the interval is then the range of the central 90 % of the changes, not a confidence interval.

    Return None if a run has no figures, if PAIRED finds no pair or, with `relative`, `before` contains 0."""
    if basis is Basis.PAIRED:
        common = sorted(before.keys() & after.keys())
        before, after = ({repeat: side[repeat] for repeat in common} for side in (before, after))
    if not before or not after or (relative and 0 in before.values()):
        return None
    first, second = median(before.values()), median(after.values())
    if basis is Basis.PAIRED:
        differences = [after[repeat] - before[repeat] for repeat in before]
        percents = [100 * (after[repeat] - before[repeat]) / before[repeat] for repeat in before if relative]
        stated = percents if relative else differences
        interval = range_of_samples(stated, 0.9) if drawn else median_interval(stated)
        sure = None if drawn else confidence_of(len(stated))
        percent = median(percents) if relative else None
        return Change(first, second, _exact(median(differences)), percent, interval, sure)
    difference = _exact(second - first)
    percent = 100 * difference / first if relative else None
    exact = difference if percent is None else percent
    if basis is Basis.EXACT:
        return Change(first, second, difference, percent, (exact, exact), 1.0)
    interval = change_interval([*before.values()], [*after.values()], relative=relative)
    fewest = min(len(before), len(after))
    sure = confidence_of(fewest) if fewest >= FULL_MIN else None
    return Change(first, second, difference, percent, interval, sure)


def _exact(milliseconds: float) -> float:
    """Round a change to 6 decimals (1 ns for ms), so that floating-point errors do not count as a change."""
    return round(milliseconds, 6) or 0.0
