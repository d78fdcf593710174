"""The 95 % interval of a median: bias-corrected and accelerated bootstrap (BCa), from a seed."""

import warnings
from collections.abc import Sequence
from typing import Final

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 9_999
# Of fewer values a resample is nearly always the sample: nothing can be said of the spread.
VALUES_MIN: Final = 3


def median_interval(values: Sequence[float], seed: int) -> tuple[float, float] | None:
    """Low and high end, or None where there are too few values. Equal values give an interval of no width."""
    if len(values) < VALUES_MIN:
        return None
    if min(values) == max(values):
        return (values[0], values[0])
    # They take most of a second to import, and most commands need neither.
    import numpy as np
    from scipy import stats

    for method in ("BCa", "percentile"):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            interval = stats.bootstrap(
                (np.asarray(values, dtype=float),),
                np.median,
                vectorized=True,
                n_resamples=RESAMPLES,
                confidence_level=CONFIDENCE,
                method=method,
                rng=np.random.default_rng(seed),
            ).confidence_interval
        # BCa is undefined where the jackknife sees no spread; the plain percentiles never are.
        if np.isfinite(interval.low) and np.isfinite(interval.high):
            return (float(interval.low), float(interval.high))
    raise AssertionError("percentiles of finite values are finite")
