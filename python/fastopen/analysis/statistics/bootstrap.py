"""Compute 95 % intervals by seeded bootstraps: of a median (bias-corrected and accelerated, BCa), and of the
difference between two medians (percentiles)."""

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Interval = tuple[float, float]
CONFIDENCE: Final = 0.95
RESAMPLES: Final = 9_999
# With fewer values there is no interval, because their spread shows little about the population.
VALUES_MIN: Final = 3
# With fewer values, all lie on one side of the true median too often (2 * 0.5^n > 5 %) for a 95 % interval.
FULL_MIN: Final = 6
NORMAL: Final = NormalDist()


def median_interval(values: Sequence[float], seed: int) -> Interval | None:
    """Return both ends of the 95 % interval of the median; None for fewer than VALUES_MIN values. For fewer
    than FULL_MIN values, the interval is their range, which contains the median with the probability
    `confidence_of`. If all values are equal, both ends are this value."""
    if len(values) < VALUES_MIN:
        return None
    if len(values) < FULL_MIN or min(values) == max(values):
        return (min(values), max(values))
    # Importing numpy takes almost a tenth of a second, and a run without noise needs no bootstrap.
    import numpy as np

    data = np.sort(np.asarray(values, dtype=float))
    resampled = resampled_medians(data, np.random.default_rng(seed))
    low, high = np.quantile(resampled, bca_levels(data, resampled))
    return (float(low), float(high))


def change_interval(
    before: Sequence[float], after: Sequence[float], seed: int, *, relative: bool
) -> Interval | None:
    """Return the 95 % interval of the difference of the medians of two unpaired samples.

    Its ends are percentiles of the differences of resampled medians, in percent of the first median if
    `relative`. If either sample has fewer than FULL_MIN values, the interval is the range of the differences
    between any value of the first and any of the second. None if either has fewer than VALUES_MIN values.
    """
    import numpy as np

    def change(first: Any, second: Any) -> Any:
        return 100 * (second - first) / first if relative else second - first

    if min(len(before), len(after)) < VALUES_MIN:
        return None
    if min(len(before), len(after)) < FULL_MIN:
        ends = [change(first, second) for first in before for second in after]
        return (min(ends), max(ends))
    rng = np.random.default_rng(seed)
    medians = [resampled_medians(np.sort(np.asarray(one, dtype=float)), rng) for one in (before, after)]
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(change(*medians), [tail, 100 - tail])
    return (float(low), float(high))


def confidence_of(values: int) -> float:
    """Return the probability that the interval of this many values contains the true median, 0 to 1. A range
    contains it unless all values lie on one side of it (Hettmansperger and Sheather 1986)."""
    if values < VALUES_MIN:
        return 0.0
    return CONFIDENCE if values >= FULL_MIN else 1 - 2 * 0.5**values


def bca_levels(data: "NDArray[np.float64]", resampled: "NDArray[np.float64]") -> tuple[float, float]:
    """Return the two probabilities whose quantiles of the resampled medians bound the BCa interval.

    See Efron and Tibshirani 1993, section 14.3. Return the probabilities of the percentile interval if the
    bias is undefined, because all resampled medians lie on one side of the sample median, or if the
    acceleration is undefined, because all jackknife medians are equal.
    """
    tail = (1 - CONFIDENCE) / 2
    middle = (data[(len(data) - 1) // 2] + data[len(data) // 2]) / 2
    beyond = ((resampled < middle).mean() + (resampled <= middle).mean()) / 2
    acceleration = median_acceleration(data)
    if acceleration is None or not 0 < beyond < 1:
        return (tail, 1 - tail)
    bias, reach = NORMAL.inv_cdf(beyond), NORMAL.inv_cdf(1 - tail)
    low, high = (
        NORMAL.cdf(bias + shifted / (1 - acceleration * shifted)) for shifted in (bias - reach, bias + reach)
    )
    return (low, high)


def median_acceleration(data: "NDArray[np.float64]") -> float | None:
    """Return the jackknife acceleration of the median of sorted `data`; None if all jackknife medians are
    equal. They depend only on the position of the left-out value: below, in or above the middle."""
    import numpy as np

    half, odd = divmod(len(data), 2)
    if odd:
        below, middle, above = data[half - 1 : half + 2]
        medians = np.array([(middle + above) / 2, (below + above) / 2, (below + middle) / 2])
        times = np.array([half, 1, half])
    else:
        medians, times = data[[half, half - 1]], np.array([half, half])
    shifts = medians - medians[0]
    apart = (shifts * times).sum() / len(data) - shifts
    furthest = np.abs(apart).max()
    if not furthest > 0:
        return None
    # The scale cancels out. Without this division, powers of very small numbers would be 0.
    apart = apart / furthest
    return float((times * apart**3).sum() / (times * apart**2).sum() ** 1.5 / 6)


def resampled_medians(data: "NDArray[np.float64]", rng: "np.random.Generator") -> "NDArray[np.float64]":
    """Return the medians of RESAMPLES resamples of sorted `data`, without drawing the resamples.

    The order statistics of n indices drawn with replacement are the order statistics of n uniform numbers,
    times n and rounded down. The k-th smallest of n uniform numbers is Beta(k, n + 1 - k). Given its value,
    the next is the smallest of n - k uniform numbers above it. So a median costs two draws instead of n, and
    the intervals of a run of 100,000 loads take seconds instead of minutes.
    """
    import numpy as np

    size = len(data)
    middle = (size + 1) // 2
    lower = rng.beta(middle, size + 1 - middle, RESAMPLES)
    upper = lower
    if size % 2 == 0:
        upper = lower + (1 - lower) * rng.beta(1, size - middle, RESAMPLES)
    picked = [np.minimum((uniform * size).astype(int), size - 1) for uniform in (lower, upper)]
    medians: NDArray[np.float64] = (data[picked[0]] + data[picked[1]]) / 2
    return medians
