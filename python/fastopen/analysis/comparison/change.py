"""The difference between a figure in two cells: exact, pair by pair, or between two samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from fastopen.analysis.statistics import central, change_interval, median_interval


class Basis(StrEnum):
    """The basis of a change."""

    EXACT = "exact"
    """Virtual time without chance: both come out the same however often they are loaded."""
    PAIRED = "paired"
    """Loads of the same repeat drew the same: the median over their pairs."""
    SAMPLES = "samples"
    """Loads that have nothing to do with each other: the difference of their medians."""


@dataclass(frozen=True)
class Change:
    """From `before` to `after`, medians in the figure's unit, and how far apart they are."""

    before: float
    after: float
    difference: float
    """In the figure's unit."""
    percent: float | None
    """Of `before`; None of a figure that is itself in percent."""
    interval: tuple[float, float] | None
    """Of `percent` where there is one, else of `difference`; no width where exact, None of too few loads."""

    @property
    def stated(self) -> float:
        """Return the figure that `interval` belongs to."""
        return self.difference if self.percent is None else self.percent


def change_of(
    before: Mapping[int, float],
    after: Mapping[int, float],
    basis: Basis,
    seed: int,
    *,
    relative: bool,
    drawn: bool = False,
) -> Change | None:
    """The change between figures by repeat; None where either has none, or no pair.

    `relative`: also in percent of the first. `drawn`: repeats are draws, whose range of 90 % the interval is.
    """
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
        interval = central(stated, 0.9) if drawn else median_interval(stated, seed)
        percent = median(percents) if relative else None
        return Change(first, second, _exact(median(differences)), percent, interval)
    difference = _exact(second - first)
    percent = 100 * difference / first if relative else None
    exact = difference if percent is None else percent
    interval = (
        (exact, exact)
        if basis is Basis.EXACT
        else change_interval([*before.values()], [*after.values()], seed, relative=relative)
    )
    return Change(first, second, difference, percent, interval)


def _exact(milliseconds: float) -> float:
    """Without what floating point adds below a nanosecond."""
    return round(milliseconds, 6) or 0.0
