"""The 95 % interval of a median: bias-corrected and accelerated bootstrap (BCa), from a seed."""

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Interval = tuple[float, float]
CONFIDENCE: Final = 0.95
RESAMPLES: Final = 9_999
# Of fewer values the sample's spread says nothing.
VALUES_MIN: Final = 3
# Fewer values lie on one side of their median too often (2 * 0.5^n > 5 %) for any interval of 95 %.
FULL_MIN: Final = 6
NORMAL: Final = NormalDist()


def median_interval(values: Sequence[float], seed: int) -> Interval | None:
    """Low and high end; None of too few values.

    Of fewer than FULL_MIN values it is all that they span, which holds the median as often as `confidence_of`
    says. Equal values give an interval of no width.
    """
    if len(values) < VALUES_MIN:
        return None
    if len(values) < FULL_MIN or min(values) == max(values):
        return (min(values), max(values))
    # Most of a tenth of a second to import, and a run without noise has no interval.
    import numpy as np

    data = np.sort(np.asarray(values, dtype=float))
    resampled = resampled_medians(data, np.random.default_rng(seed))
    low, high = np.quantile(resampled, bca_levels(data, resampled))
    return (float(low), float(high))


def change_interval(
    before: Sequence[float], after: Sequence[float], seed: int, *, relative: bool
) -> Interval | None:
    """Return the 95 % interval of the difference of the medians of two samples that do not pair.

    Its ends are percentiles of the resampled medians' difference, in percent of the first if `relative`. With
    fewer than FULL_MIN values in either sample, it reaches from the smallest to the largest difference of any
    two values. None if there are too few.
    """
    import numpy as np

    def change(first: Any, second: Any) -> Any:
        return 100 * (second - first) / first if relative else second - first

    if min(len(before), len(after)) < VALUES_MIN:
        return None
    if min(len(before), len(after)) < FULL_MIN:
        ends = [change(first, second) for first in (*before,) for second in (*after,)]
        return (min(ends), max(ends))
    rng = np.random.default_rng(seed)
    medians = [resampled_medians(np.sort(np.asarray(one, dtype=float)), rng) for one in (before, after)]
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(change(*medians), [tail, 100 - tail])
    return (float(low), float(high))


def confidence_of(values: int) -> float:
    """Return the probability that such an interval contains the median of the distribution, 0 to 1.

    The range of n values contains it unless all lie on one side of it (Hettmansperger and Sheather 1986).
    """
    if values < VALUES_MIN:
        return 0.0
    return CONFIDENCE if values >= FULL_MIN else 1 - 2 * 0.5**values


def bca_levels(data: "NDArray[np.float64]", resampled: "NDArray[np.float64]") -> tuple[float, float]:
    """Return the quantiles of the resampled medians that are the ends of the interval.

    Efron and Tibshirani 1993, section 14.3. If the bias or the acceleration is undefined, because no
    resampled median is beyond the sample's or the jackknife sees no spread, they are those of the plain
    percentiles.
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
    """Return the acceleration of the median of sorted `data` by the jackknife; None without spread.

    The medians without one value each take only two or three values: without one of the lower values, without
    the middle one (of an odd number), and without one of the upper ones.
    """
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
    # The scale cancels out, and powers of very small numbers are 0.
    apart = apart / furthest
    return float((times * apart**3).sum() / (times * apart**2).sum() ** 1.5 / 6)


def resampled_medians(data: "NDArray[np.float64]", rng: "np.random.Generator") -> "NDArray[np.float64]":
    """Medians of RESAMPLES resamples of sorted `data`, without drawing the resamples.

    The order statistics of n indices drawn with replacement are those of n uniform numbers, times n and
    rounded down; the k-th smallest of n uniform numbers is Beta(k, n + 1 - k), and given it the next one is
    the smallest of n - k uniform numbers above it. So a median costs two draws instead of n, and a run of
    100,000 loads has its intervals in seconds instead of minutes.
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
