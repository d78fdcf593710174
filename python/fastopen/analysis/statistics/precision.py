"""The precision of an improvement, and the repeats that a wanted precision needs."""

from math import ceil
from typing import Final

from fastopen.analysis.statistics.bootstrap import FULL_MIN
from fastopen.analysis.statistics.cells import CellResult

PAIRS_MIN: Final = FULL_MIN
# An estimate from few pairs is a guess: no step asks for more than so many times what there is.
STEP_MAX: Final = 4


def half_width_percent(result: CellResult) -> float | None:
    """Half of the 95 % interval of the improvement, in points of percent; None where there is none yet.

    Draws have none: however many there are, what they span gets no narrower.
    """
    if result.deterministic and result.improvement_percent is not None:
        return 0.0
    if result.varied or result.improvement_ci95 is None or result.pairs < PAIRS_MIN:
        return None
    low, high = result.improvement_ci95
    return (high - low) / 2


def pairs_needed(result: CellResult, wanted_percent: float) -> int | None:
    """Return the number of pairs for an interval of this half-width; None if nothing is known yet.

    The interval of a median narrows with the square root of the number of values.
    """
    width = half_width_percent(result)
    if width is None:
        return None
    if result.deterministic:
        return 1
    return max(PAIRS_MIN, ceil(result.pairs * (width / wanted_percent) ** 2))


def more_pairs(result: CellResult, wanted_percent: float) -> int:
    """Return the number of pairs to add in the next step: 0 if the interval is narrow enough."""
    width = half_width_percent(result)
    if width is None:
        return max(1, PAIRS_MIN - result.pairs)
    if width <= wanted_percent:
        return 0
    needed = pairs_needed(result, wanted_percent)
    assert needed is not None
    return max(1, min(needed, STEP_MAX * result.pairs) - result.pairs)
