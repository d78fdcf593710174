"""Repeats until every interval is narrow enough: which jobs to add to a run after what it has shown."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from fastopen.analysis.statistics.cells import CellResult
from fastopen.analysis.statistics.precision import half_width_percent, more_pairs
from fastopen.analysis.statistics.results import Results
from fastopen.experiments import Comparison, PlannedJob, Role, make_plan
from fastopen.runs import RunStore


@dataclass(frozen=True)
class UntilInterval:
    """Half-width of the 95 % interval that each improvement is to reach, and how many repeats at most."""

    half_width_percent: float
    max_repeats: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, document: Mapping[str, Any] | None) -> Self | None:
        return None if document is None else cls(**document)

    def more_jobs(self, results: Results, run: RunStore) -> list[PlannedJob]:
        """The jobs to do next; none where all is narrow enough or at its maximum."""
        asked = run.asked()
        wanted = {
            comparison: min(repeats + self._more(results, comparison), self.max_repeats)
            for comparison, repeats in asked.items()
        }
        if all(wanted[comparison] <= repeats for comparison, repeats in asked.items()):
            return []
        experiment = results.experiment.model_copy(update={"repeats": max(wanted.values())})
        plan = make_plan(experiment, list(results.pages.values()), run.auto_engine())
        return [
            planned
            for planned in plan.jobs
            if asked[planned.comparison] <= planned.repeat < wanted[planned.comparison]
        ]

    def _more(self, results: Results, comparison: Comparison) -> int:
        return max(
            (
                more_pairs(result, self.half_width_percent)
                for result in results.cells
                if result.cell.comparison == comparison and _is_judged(result)
            ),
            default=0,
        )

    def too_wide(self, results: Results) -> int:
        """Return the number of improvements that have not reached the precision."""
        widths = [half_width_percent(result) for result in results.cells if _is_judged(result)]
        return sum(width is None or width > self.half_width_percent for width in widths)


def _is_judged(result: CellResult) -> bool:
    """Return True if repeats narrow its interval: not for the baseline, nor for samples."""
    return result.cell.arm.role is not Role.BASELINE and not result.varied
