"""Compute the precision of TFO's savings (the width of their intervals), and the repeats still needed."""

from collections import defaultdict
from dataclasses import dataclass
from math import ceil
from typing import Final

from fastopen.analysis.statistics.cells import CellResult
from fastopen.analysis.statistics.intervals import FULL_MIN
from fastopen.analysis.statistics.results import Results
from fastopen.experiments import Comparison, PlannedJob, Role, make_plan
from fastopen.runs import RunStore


@dataclass(frozen=True)
class UntilInterval:
    """The condition on which a run stops adding repeats: half the width of each improvement's 95 % interval
    is at most `half_width_percent` percentage points, or there are `max_repeats` repeats."""

    half_width_percent: float
    max_repeats: int

    def more_jobs(self, results: Results, run: RunStore) -> list[PlannedJob]:
        """Return the jobs to run next: further repeats of comparisons whose results are not precise enough.
        Return an empty list if all results are precise enough or have `max_repeats` repeats."""
        planned_repeats = run.planned_repeats()
        more: dict[Comparison, int] = defaultdict(int)
        for result in filter(_repeats_help, results.cells):
            comparison, needed = result.cell.comparison, pairs_needed(result, self.half_width_percent)
            further = max(1, FULL_MIN - result.pairs)
            if needed is not None:
                further = min(needed, STEP_MAX * result.pairs) - result.pairs
            more[comparison] = max(more[comparison], further)
        wanted = {
            comparison: min(repeats + more[comparison], self.max_repeats)
            for comparison, repeats in planned_repeats.items()
        }
        if all(wanted[comparison] <= repeats for comparison, repeats in planned_repeats.items()):
            return []
        experiment = results.experiment.model_copy(update={"repeats": max(wanted.values())})
        return [
            planned
            for planned in make_plan(experiment, list(results.pages.values()), run.auto_engine()).jobs
            if planned_repeats[planned.comparison] <= planned.repeat < wanted[planned.comparison]
        ]

    def too_wide(self, results: Results) -> int:
        """Return the number of results whose 95 % interval is wider than allowed or has an unknown width."""
        widths = [half_width_percent(result) for result in results.cells if _repeats_help(result)]
        return sum(width is None or width > self.half_width_percent for width in widths)


def _repeats_help(result: CellResult) -> bool:
    """Return False if repeats cannot narrow the interval: for baselines, or if only sampled inputs vary."""
    return result.cell.arm.role is not Role.BASELINE and not result.varied


# Estimates from few pairs are uncertain, so one step multiplies the number of pairs by at most this factor.
STEP_MAX: Final = 4


def half_width_percent(result: CellResult) -> float | None:
    """Return half the width of the improvement's 95 % interval, in percentage points. Return 0 if nothing is
    random, and None if repeats sample uncertain inputs or there are fewer than FULL_MIN pairs of loads."""
    if result.deterministic and result.improvement_percent is not None:
        return 0.0
    if result.varied or result.improvement_ci95 is None or result.pairs < FULL_MIN:
        return None
    low, high = result.improvement_ci95
    return (high - low) / 2


def pairs_needed(result: CellResult, wanted_percent: float) -> int | None:
    """Estimate the total number of pairs of loads, with and without TFO, for which half the width of the
    result's interval is `wanted_percent` percentage points. Return None if the present width is unknown."""
    width = half_width_percent(result)
    if width is None:
        return None
    if result.deterministic:
        return 1
    return max(FULL_MIN, ceil(result.pairs * (width / wanted_percent) ** 2))
