"""Judge the effect of TCP Fast Open on page load time from confidence intervals."""

from collections.abc import Sequence
from enum import StrEnum

from fastopen.analysis.statistics.cells import CellResult
from fastopen.experiments import SmallestEffect


class Effect(StrEnum):
    """The effect of TFO on the page load time in one row of a table."""

    REDUCES = "reduces"
    INCREASES = "increases"
    NONE = "no difference"
    """Neither end of the saving's interval exceeds the smallest effect that matters, in absolute value."""
    UNCLEAR = "unclear"
    """The saving's interval contains effects that matter. It also contains 0, or the median is too small."""
    UNKNOWN = "unknown"
    """There are too few valid repeats for an interval."""


class Verdict(StrEnum):
    """The verdict on TFO over a group of table rows. Each value is the text that reports print."""

    WORTH_IT = "TFO is worth turning on"
    WORTH_IT_FOR_SOME = "Worth turning on in some of these cases"
    MIXED = "Worth turning on in some of these cases, not in others"
    MOSTLY_NONE = "No difference in most of these cases"
    """Both reductions and increases occur, but most comparisons show no difference."""
    HARMFUL = "TFO is not worth turning on"
    NO_DIFFERENCE = "TFO makes no difference"
    UNCLEAR = "No certain effect"
    UNKNOWN = "Too few valid repeats to say what TFO does"
    INVALID = "No load with TFO is valid"

    @property
    def tone(self) -> str:
        """Return the verdict's colour in reports: `good`, `bad` or `quiet`."""
        if self in (Verdict.WORTH_IT, Verdict.WORTH_IT_FOR_SOME):
            return "good"
        return "bad" if self in (Verdict.MIXED, Verdict.HARMFUL, Verdict.INVALID) else "quiet"


def effect_of(result: CellResult, smallest: SmallestEffect) -> Effect:
    """Judge the effect of TFO on the page load time from the confidence interval of the saving."""
    saving, interval = result.improvement_percent, result.interval
    if saving is None or interval is None:
        return Effect.UNKNOWN
    sign = certain_sign(saving, interval, _matters_percent(result, smallest))
    return {1: Effect.REDUCES, -1: Effect.INCREASES, 0: Effect.NONE, None: Effect.UNCLEAR}[sign]


def certain_sign(value: float, interval: tuple[float, float], matters: float) -> int | None:
    """Return the sign of an effect, 1 or -1, if the confidence `interval` excludes 0 and the absolute `value`
    is at least `matters`. Return 0 if the effect is too small to matter, because neither end of the interval
    exceeds `matters` in absolute value. Otherwise, return None: the effect is uncertain."""
    low, high = interval
    if (low > 0 or high < 0) and abs(value) >= matters:
        return 1 if low > 0 else -1
    return 0 if max(-low, high) <= matters else None


def slower_in_the_median(result: CellResult, smallest: SmallestEffect) -> bool:
    """Return True if the median effect of TFO is a slowdown of at least the smallest effect that matters,
    even if the confidence interval contains 0. Return False if there is no interval."""
    effect = effect_of(result, smallest)
    slower = (result.improvement_percent or 0.0) <= -_matters_percent(result, smallest)
    return effect is Effect.INCREASES or (effect is Effect.UNCLEAR and slower)


def _matters_percent(result: CellResult, smallest: SmallestEffect) -> float:
    return max(smallest.percent, 100 * smallest.ms / result.plt_ms_median if result.plt_ms_median else 0.0)


def verdict_on(cells: Sequence[CellResult], smallest: SmallestEffect) -> Verdict:
    """Return one verdict on TFO over several results. `cells`: the results with TFO, one for each row of a
    table. `smallest`: the smallest effect that matters. A result with too few repeats is treated as unclear.
    If all results have too few, the verdict is UNKNOWN."""
    if cells and all(cell.loads and cell.invalid == cell.loads for cell in cells):
        return Verdict.INVALID
    of_cells = [effect_of(cell, smallest) for cell in cells]
    effects = set(of_cells) or {Effect.UNKNOWN}
    if effects == {Effect.UNKNOWN}:
        return Verdict.UNKNOWN
    if effects == {Effect.REDUCES}:
        return Verdict.WORTH_IT
    if Effect.INCREASES in effects:
        if Effect.REDUCES not in effects:
            return Verdict.HARMFUL
        return Verdict.MOSTLY_NONE if of_cells.count(Effect.NONE) > len(cells) / 2 else Verdict.MIXED
    if Effect.REDUCES in effects:
        return Verdict.WORTH_IT_FOR_SOME
    return Verdict.NO_DIFFERENCE if effects == {Effect.NONE} else Verdict.UNCLEAR
