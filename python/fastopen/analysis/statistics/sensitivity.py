"""Find the sampled value that affects the saving most, by rank correlations over the samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import correlation
from typing import Final

from fastopen.analysis.statistics.cells import CellResult
from fastopen.experiments import UNKNOWNS, Experiment, draw_of

# With fewer samples, rank correlations of 0.4 occur by accident.
DRAWS_MIN: Final = 20


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity of one cell's saving to the sampled values."""

    correlations: dict[str, float]
    """Spearman's rank correlation of each sampled value with the saving; positive if both grow."""
    draws: int

    @property
    def rest(self) -> float:
        """Return the part of the variance of ranks that no single sampled value explains, 0 to 1.

        It comes from the order of equal requests, and from values that act together. Values are independent,
        so their parts add up. The part that each explains by accident, 1 / (draws - 1), is subtracted.
        """
        accident = 1 / (self.draws - 1)
        return max(0.0, 1 - sum(max(0.0, one**2 - accident) for one in self.correlations.values()))

    @property
    def most(self) -> str | None:
        """Return the name of the value that explains most; None if it does not explain more than `rest`."""
        name = max(self.correlations, key=lambda one: abs(self.correlations[one]), default=None)
        return name if name is not None and self.correlations[name] ** 2 > self.rest else None


def sensitivity(experiment: Experiment, result: CellResult) -> Sensitivity | None:
    """Return the sensitivity; None if the cell is not `varied`, samples are few or all savings are equal."""
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
    """Return the ranks. Equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
