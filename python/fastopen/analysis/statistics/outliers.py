"""Find loads that took much longer or shorter than the others of their cell. All figures include them."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import quantiles
from typing import Final

# Tukey 1977: a value more than three interquartile ranges from the quartiles is "far out".
FENCE: Final = 3.0
# Outliers also lie at least this part of the median outside the quartiles, because most loads in an emulated
# network differ by only a thousandth.
SHARE_MIN: Final = 0.01
VALUES_MIN: Final = 5


@dataclass(frozen=True)
class Outlier:
    """A valid load that took much longer or shorter than the other loads of its cell."""

    repeat: int
    plt_ms: float


def find_outliers(plts_ms: Mapping[int, float]) -> tuple[Outlier, ...]:
    """Return the outliers of one cell, given its PLTs by repeat; empty for fewer than VALUES_MIN loads."""
    if len(plts_ms) < VALUES_MIN:
        return ()
    low, middle, high = quantiles(plts_ms.values(), n=4, method="inclusive")
    slack = max(FENCE * (high - low), SHARE_MIN * middle)
    low, high = low - slack, high + slack
    far_out = [(repeat, plt_ms) for repeat, plt_ms in plts_ms.items() if not low <= plt_ms <= high]
    return tuple(Outlier(repeat, plt_ms) for repeat, plt_ms in sorted(far_out))
