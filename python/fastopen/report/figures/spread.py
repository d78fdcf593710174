"""The spread of page load times and improvements: intervals, and the distribution of a cell's loads."""

from collections.abc import Sequence
from typing import Final

from fastopen.analysis.statistics import CellResult

# Of more loads in a cell a distribution shows this many, evenly taken: more cannot be told apart in a panel.
POINTS_MAX: Final = 200


def interval(result: CellResult) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of the median improvement, or the range of samples; None for a single load."""
    return (None, None) if result.deterministic or result.interval is None else result.interval


def median_span(ordered: Sequence[float]) -> tuple[float, float] | None:
    """The interval of a median from order statistics, exact for any distribution, of at least 95 %.

    The k-th smallest and k-th largest value, with k so large that a fair coin thrown n times falls heads
    fewer than k times in at most 2.5 % of cases; so none of fewer than 6 values (David and Nagaraja, Order
    Statistics, section 7.1).
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
    """(value, share of values up to it), thinned where there are many."""
    count = len(ordered)
    step = max(1, -(-count // POINTS_MAX))
    taken = sorted({*range(0, count, step), count - 1})
    return [(ordered[at], (at + 1) / count) for at in taken]
