"""The 95 % interval of a median: bias-corrected and accelerated bootstrap (BCa), from a seed."""

import warnings
from collections import defaultdict
from collections.abc import Sequence
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
# Samples of one size that are taken together: 80 kB of resampled medians each.
TOGETHER: Final = 100
# So many numbers of the jackknife in memory at once.
JACKKNIFE_BATCH: Final = 4_000_000


def median_intervals(samples: Sequence[Sequence[float]], seeds: Sequence[int]) -> list[Interval | None]:
    """The interval of each sample from its own seed: low and high end, None of too few values.

    Of fewer than FULL_MIN values it is all that they span, which holds the median as often as `confidence_of`
    says. Equal values give an interval of no width. Samples of one size are taken together, which costs a
    fifth of one after another.
    """
    found: list[Interval | None] = [_without_chance(values) for values in samples]
    of_size: dict[int, list[int]] = defaultdict(list)
    for place, values in enumerate(samples):
        if len(values) >= VALUES_MIN and found[place] is None:
            of_size[len(values)].append(place)
    for places in of_size.values():
        for begin in range(0, len(places), TOGETHER):
            some = places[begin : begin + TOGETHER]
            intervals = _of_one_size([samples[place] for place in some], [seeds[place] for place in some])
            for place, interval in zip(some, intervals, strict=True):
                found[place] = interval
    return found


def change_interval(
    before: Sequence[float], after: Sequence[float], seed: int, *, relative: bool
) -> Interval | None:
    """How far the median of `after` is from that of `before`, of two samples that do not pair: 95 %.

    Percentiles of the resampled medians' difference, in percent of the first where `relative`. Of fewer than
    FULL_MIN values in either: from the least to the most that any two of them differ. None of too few.
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
    """How often such an interval holds the median of what so many values were drawn from, 0 to 1.

    All that n values span holds it but where all lie on one side of it (Hettmansperger and Sheather 1986).
    """
    if values < VALUES_MIN:
        return 0.0
    return CONFIDENCE if values >= FULL_MIN else 1 - 2 * 0.5**values


def _without_chance(values: Sequence[float]) -> Interval | None:
    if len(values) >= VALUES_MIN and (len(values) < FULL_MIN or min(values) == max(values)):
        return (min(values), max(values))
    return None


def _of_one_size(samples: Sequence[Sequence[float]], seeds: Sequence[int]) -> list[Interval]:
    # They take most of a second to import, and most commands need neither.
    import numpy as np
    from scipy import stats

    data = np.sort(np.asarray(samples, dtype=float), axis=-1)
    drawn = np.stack(
        [resampled_medians(of, np.random.default_rng(seed)) for of, seed in zip(data, seeds, strict=True)]
    )
    low, high = np.full(len(data), np.nan), np.full(len(data), np.nan)
    for method in ("BCa", "percentile"):
        # BCa is undefined where the jackknife sees no spread; the plain percentiles never are.
        missing = ~(np.isfinite(low) & np.isfinite(high))
        if not missing.any():
            break
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            interval = stats.bootstrap(
                (data[missing],),
                middle_of_sorted,
                axis=-1,
                vectorized=True,
                n_resamples=0,
                bootstrap_result=_Drawn(drawn[missing]),
                batch=max(1, JACKKNIFE_BATCH // data[missing].size),
                confidence_level=CONFIDENCE,
                method=method,
            ).confidence_interval
        low[missing], high[missing] = interval.low, interval.high
    return list(zip(low.tolist(), high.tolist(), strict=True))


def middle_of_sorted(values: "NDArray[np.float64]", axis: int = -1) -> "NDArray[np.float64]":
    """Medians of rows that are sorted; they stay so when the jackknife leaves one value out."""
    assert axis == -1
    size = values.shape[-1]
    medians: NDArray[np.float64] = (values[..., (size - 1) // 2] + values[..., size // 2]) / 2
    return medians


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
