"""Find the factor that explains most of the variance of the savings."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from fastopen.analysis.statistics.cells import CellResult
from fastopen.analysis.statistics.results import Results
from fastopen.common.grouping import grouped
from fastopen.experiments import Factor, treatments_of

# A factor decides if it explains more of the variance than everything else together.
SHARE_MIN: Final = 0.5
# A factor decides nothing if the median savings at its values differ by fewer percentage points.
SPAN_MIN: Final = 1.0


@dataclass(frozen=True)
class FactorLevel:
    """One value of a factor, and the cells that have it."""

    phrase: str
    cells: tuple[CellResult, ...]

    @property
    def saving_percent(self) -> float:
        return median(cell.improvement_percent or 0.0 for cell in self.cells)

    @property
    def retransmitted(self) -> float:
        """Return the median of the cells' retransmitted segments per load."""
        return median(cell.retransmitted or 0.0 for cell in self.cells)


@dataclass(frozen=True)
class Deciding:
    """The factor that explains more of the variance of the savings than all else."""

    factor: Factor
    together: tuple[Factor, ...]
    """Other factors that vary together with `factor`, such as the RTT and the rates of `4g` and `fibre`."""
    levels: tuple[FactorLevel, ...]
    """The factor's values, in the order of the experiment."""


def deciding_factor(results: Results, cells: Sequence[CellResult]) -> Deciding | None:
    """Return the factor that decides the preferred treatment's saving; None if no factor does.

    Factors that vary together (`--combine zip`, named networks) count as one; fewer than two decide nothing.
    The savings, minus the mean saving of their page, are grouped by each factor in turn. An experiment is a
    full cross of its factors, so the sums of squares between groups can be added.
    """
    preferred = treatments_of(results.experiment.arms)[:1]
    known = (cell for cell in cells if cell.improvement_percent is not None)
    judged = [cell for cell in known if cell.cell.arm in preferred]
    levels_of = {factor: _levels(results, factor, judged) for factor in results.factors.varying}
    alike = grouped(
        (frozenset(frozenset(cell.cell.index for cell in level.cells) for level in levels), factor)
        for factor, levels in levels_of.items()
        if len(levels) > 1
    )
    varying = [of_part[0] for of_part in alike.values()]
    if len(varying) < 2:
        return None
    of_page = grouped((cell.cell.page, cell.improvement_percent or 0.0) for cell in judged)
    centred = {
        cell.cell.index: (cell.improvement_percent or 0.0) - fmean(of_page[cell.cell.page]) for cell in judged
    }
    total = sum(value**2 for value in centred.values())
    if total == 0:
        return None
    shares = {}
    for factor in varying:
        groups = [[centred[cell.cell.index] for cell in level.cells] for level in levels_of[factor]]
        shares[factor] = sum(len(group) * fmean(group) ** 2 for group in groups) / total
    most = max(varying, key=lambda factor: shares[factor])
    levels = levels_of[most]
    savings = [level.saving_percent for level in levels]
    if shares[most] < SHARE_MIN or max(savings) - min(savings) < SPAN_MIN:
        return None
    together = next(tuple(others) for first, *others in alike.values() if first == most)
    return Deciding(most, together, levels)


def _levels(results: Results, factor: Factor, cells: Sequence[CellResult]) -> tuple[FactorLevel, ...]:
    found = grouped((factor.phrase_at(results.factors.point(cell.cell)), cell) for cell in cells)
    return tuple(FactorLevel(phrase, tuple(of_level)) for phrase, of_level in found.items())
