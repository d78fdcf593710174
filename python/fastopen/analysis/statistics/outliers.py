"""Loads far from the others of their cell. They count in every figure; medians are not sensitive to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import quantiles
from typing import Final

# Tukey 1977: beyond three interquartile ranges from the quartiles a value is "far out".
FENCE: Final = 3.0
# In an emulated network most loads are alike to a per mille; what is nearer is no outlier.
SHARE_MIN: Final = 0.01
VALUES_MIN: Final = 5


@dataclass(frozen=True)
class Outlier:
    """A valid load that took much longer, or less long, than the others of its cell."""

    repeat: int
    plt_ms: float


def find_outliers(plts_ms: Mapping[int, float]) -> tuple[Outlier, ...]:
    """Return the outliers of one cell: repeat to PLT in milliseconds. Few values have none."""
    if len(plts_ms) < VALUES_MIN:
        return ()
    low, middle, high = quantiles(plts_ms.values(), n=4, method="inclusive")
    slack = max(FENCE * (high - low), SHARE_MIN * middle)
    low, high = low - slack, high + slack
    far_out = [(repeat, plt_ms) for repeat, plt_ms in plts_ms.items() if not low <= plt_ms <= high]
    return tuple(Outlier(repeat, plt_ms) for repeat, plt_ms in sorted(far_out))
