"""Compute intervals of savings and page load times, and the distribution of a set of values."""

from collections.abc import Sequence
from typing import Final

from fastopen.analysis.statistics import CellResult

# The maximum number of points of a distribution. More points could not be distinguished in a panel.
POINTS_MAX: Final = 200


def interval(result: CellResult) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of the median improvement, or the range of samples; Nones if exact or unknown."""
    return (None, None) if result.deterministic or result.interval is None else result.interval


def median_span(ordered: Sequence[float]) -> tuple[float, float] | None:
    """Return a confidence interval of the median by order statistics, of at least 95 % for any distribution.

    It goes from the k-th smallest to the k-th largest value. k is the largest number for which a fair coin
    thrown n times gives fewer than k heads in at most 2.5 % of cases (David and Nagaraja, Order Statistics,
    section 7.1). None for fewer than 6 values; for 1,000 or more, k is approximate.
    """
    count, k, below = len(ordered), 0, 0.0
    probability = 0.5**count if count < 1000 else 0.0
    if count >= 1000:
        k = int((count - 1.96 * count**0.5) / 2)
        return (ordered[k - 1], ordered[count - k])
    while below + probability <= 0.025:
        below += probability
        probability *= (count - k) / (k + 1)
        k += 1
    return (ordered[k - 1], ordered[count - k]) if k else None


def distribution(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """Return pairs of a value and the share of values up to it; of more than POINTS_MAX values, only some."""
    count = len(ordered)
    step = max(1, -(-count // POINTS_MAX))
    taken = sorted({*range(0, count, step), count - 1})
    return [(ordered[at], (at + 1) / count) for at in taken]
