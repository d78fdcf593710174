"""The 95 % interval of a median: bias-corrected and accelerated bootstrap (BCa), from a seed."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 9_999
# Of fewer values a resample is nearly always the sample: nothing can be said of the spread.
VALUES_MIN: Final = 3
# So many numbers of the jackknife in memory at once.
JACKKNIFE_BATCH: Final = 4_000_000


def median_interval(values: Sequence[float], seed: int) -> tuple[float, float] | None:
    """Low and high end, or None where there are too few values. Equal values give an interval of no width."""
    if len(values) < VALUES_MIN:
        return None
    if min(values) == max(values):
        return (values[0], values[0])
    # They take most of a second to import, and most commands need neither.
    import numpy as np
    from scipy import stats

    data = np.sort(np.asarray(values, dtype=float))
    drawn = _Drawn(resampled_medians(data, np.random.default_rng(seed)))
    for method in ("BCa", "percentile"):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            interval = stats.bootstrap(
                (data,),
                np.median,
                vectorized=True,
                n_resamples=0,
                bootstrap_result=drawn,
                batch=max(1, JACKKNIFE_BATCH // len(data)),
                confidence_level=CONFIDENCE,
                method=method,
            ).confidence_interval
        # BCa is undefined where the jackknife sees no spread; the plain percentiles never are.
        if np.isfinite(interval.low) and np.isfinite(interval.high):
            return (float(interval.low), float(interval.high))
    raise AssertionError("percentiles of finite values are finite")


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


class _Drawn:
    """What scipy wants of the result of an earlier bootstrap, which it then continues."""

    def __init__(self, medians: Any) -> None:
        self.bootstrap_distribution = medians
