"""Compute 95 % intervals of a median and of the difference of two medians, from order statistics.

The intervals assume nothing about the distribution of the values, and need no random numbers.
benches/intervals.py measures how often they contain the true value."""

from collections.abc import Callable, Sequence
from functools import cache
from math import exp, hypot, log
from statistics import median
from typing import Final

Interval = tuple[float, float]
CONFIDENCE: Final = 0.95
# With fewer values there is no interval, because their spread shows little about the population.
VALUES_MIN: Final = 3
# With fewer values, all are on one side of the true median too often for a 95 % interval: 2 * 0.5^n > 5 %.
FULL_MIN: Final = 6


def median_interval(values: Sequence[float]) -> Interval | None:
    """Return the 95 % confidence interval of the median; None for fewer than VALUES_MIN values. For fewer
    than FULL_MIN values, return their range, whose confidence is lower (`confidence_of`)."""
    # The range from the k-th smallest to the k-th largest value contains the median unless fewer than k
    # values lie on one side of it. Interpolate between the narrowest range with at least 95 % probability
    # and the next narrower range (Hettmansperger and Sheather 1986).
    size, ordered = len(values), sorted(values)
    if size < VALUES_MIN:
        return None
    if size < FULL_MIN:
        return ordered[0], ordered[-1]
    rank, inward = interval_ends(size)
    low, high = (
        (1 - inward) * outer + inward * inner
        for outer, inner in ((ordered[rank - 1], ordered[rank]), (ordered[-rank], ordered[-rank - 1]))
    )
    return low, high


@cache
def interval_ends(size: int) -> tuple[int, float]:
    """Return (k, fraction) for the 95 % interval of the median of `size` values. The interval begins at this
    fraction of the way from the k-th smallest value to the next larger value, and ends at this fraction of
    the way from the k-th largest value to the next smaller value."""
    # Each value lies below or above the median with equal probability. Count, in exact integers, the cases
    # with fewer than `rank` values on one side. `scale` also makes 5 % of all cases an integer.
    scale = round(1 / (1 - CONFIDENCE))
    missed, outside, more, rank, cases = 2**size, 0, 2 * scale, 0, 1
    while outside + more <= missed:
        outside, rank = outside + more, rank + 1
        cases = cases * (size - rank + 1) // rank
        more = 2 * scale * cases
    share = (missed - outside) / more
    return rank, (size - rank) * share / (rank + (size - 2 * rank) * share)


def change_interval(before: Sequence[float], after: Sequence[float], *, relative: bool) -> Interval | None:
    """Return the 95 % confidence interval of the difference of the medians of two unpaired samples. With
    `relative`, it is in percent of the median of `before`, and all values must be positive.

    If a sample has fewer than FULL_MIN values, return the range of the differences between any value of
    `after` and any value of `before`. If a sample has fewer than VALUES_MIN values, return None."""
    # Combine the distances of the two medians from the ends of their own intervals (MOVER, Zou and Donner
    # 2008), or the distances of their logarithms if `relative`.
    first, second = median_interval(before), median_interval(after)
    if first is None or second is None:
        return None
    if min(len(before), len(after)) < FULL_MIN:
        ends = [100 * (new - old) / old if relative else new - old for old in before for new in after]
        return min(ends), max(ends)
    scale: Callable[[float], float] = log if relative else float
    low, old, high = map(scale, (first[0], median(before), first[1]))
    new_low, new, new_high = map(scale, (second[0], median(after), second[1]))
    least = new - old - hypot(new - new_low, high - old)
    most = new - old + hypot(new_high - new, old - low)
    return (100 * (exp(least) - 1), 100 * (exp(most) - 1)) if relative else (least, most)


def confidence_of(values: int) -> float:
    """Return the probability that the `median_interval` of this many values contains the true median."""
    # The whole range of values contains the median unless all values lie on one side of it.
    if values < VALUES_MIN:
        return 0.0
    return CONFIDENCE if values >= FULL_MIN else 1 - 2 * 0.5**values
