"""The unknown that moves the answer most, by rank correlations of samples with savings."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import correlation
from typing import Final

from fastopen.analysis.statistics.cells import CellResult
from fastopen.experiments import UNKNOWNS, Experiment, draw_of

# Of fewer draws rank correlations of 0.4 come by accident.
DRAWS_MIN: Final = 20


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity of one cell."""

    correlations: dict[str, float]
    """Unknown to Spearman's rank correlation with the saving: near 1 more is saved where it is larger."""
    draws: int

    @property
    def rest(self) -> float:
        """The share of the variance of ranks that no unknown explains alone, 0 to 1.

        It is of the order of equal requests, and of unknowns that act together. Draws are independent, so
        that shares add up; one by one each explains 1 / (draws - 1) by accident.
        """
        accident = 1 / (self.draws - 1)
        return max(0.0, 1 - sum(max(0.0, one**2 - accident) for one in self.correlations.values()))

    @property
    def most(self) -> str | None:
        """The unknown that explains most, where that is more than the rest together does; else None."""
        name = max(self.correlations, key=lambda one: abs(self.correlations[one]), default=None)
        return name if name is not None and self.correlations[name] ** 2 > self.rest else None


def sensitivity(experiment: Experiment, result: CellResult) -> Sensitivity | None:
    """None where the draws are not all that moved the loads, are too few, or moved nothing."""
    savings = result.improvements_percent
    if not result.varied or len(savings) < DRAWS_MIN or len(set(savings.values())) < 2:
        return None
    draws = [draw_of(experiment, result.cell.comparison, repeat) for repeat in savings]
    saved = _ranks([*savings.values()])
    correlations = {}
    for name in UNKNOWNS:
        drawn = [getattr(draw, name) for draw in draws]
        if len(set(drawn)) > 1:
            correlations[name] = correlation(_ranks(drawn), saved)
    return Sensitivity(correlations, len(savings))


def _ranks(values: Sequence[float]) -> list[float]:
    """Equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
