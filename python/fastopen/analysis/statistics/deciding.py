"""Find the factor, such as the RTT, or the randomly sampled input that affects TFO's saving most."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import correlation, fmean, median
from typing import Final

from fastopen.analysis.statistics.cells import CellResult, mid_ranks
from fastopen.analysis.statistics.results import Results
from fastopen.common.grouping import grouped
from fastopen.experiments import UNKNOWNS, Experiment, Factor, draw_of, treatments_of

# A factor decides only if it explains at least this fraction of the variance of the savings.
SHARE_MIN: Final = 0.5
# A factor does not decide if the median savings at its values differ by fewer percentage points than this.
SPAN_MIN: Final = 1.0
# With fewer samples, rank correlations of 0.4 occur by accident.
DRAWS_MIN: Final = 20


@dataclass(frozen=True)
class FactorLevel:
    """One value of a factor, such as an RTT of 20 ms, and the results of the run that have this value."""

    phrase: str
    cells: tuple[CellResult, ...]

    @property
    def saving_percent(self) -> float:
        """Return the median saving over the results, as a percentage of the page load time."""
        return median(cell.improvement_percent or 0.0 for cell in self.cells)

    @property
    def retransmitted(self) -> float:
        """Return the median number of retransmitted segments per load over the results."""
        return median(cell.retransmitted or 0.0 for cell in self.cells)


@dataclass(frozen=True)
class Deciding:
    """The factor, such as the RTT, that explains most of the variance of the savings by TFO."""

    factor: Factor
    together: tuple[Factor, ...]
    """Other factors that vary only together with `factor`, as RTT and rates do in named networks."""
    levels: tuple[FactorLevel, ...]


def deciding_factor(results: Results, cells: Sequence[CellResult]) -> Deciding | None:
    """Return the factor, such as the RTT or the version of HTTP, that explains most of the differences
    between the savings in `cells`. Only savings with warm TFO cookies are used, or with cold cookies if the
    run has no warm ones. Factors that vary only together, as in named networks, are treated as one factor.

    Return None if fewer than two factors vary, if no factor explains the fraction SHARE_MIN of the variance,
    or if the median savings at the factor's values differ by less than SPAN_MIN."""
    # An experiment is a full factorial design, so the sums of squares between groups can be added.
    preferred = [arm.name for arm in treatments_of(results.experiment.arms)[:1]]
    known = (cell for cell in cells if cell.improvement_percent is not None)
    judged = [cell for cell in known if cell.cell.arm.name in preferred]
    levels_of = {}
    for factor in results.factors.varying:
        found = grouped((factor.phrase_at(results.factors.point(cell.cell)), cell) for cell in judged)
        levels_of[factor] = tuple(FactorLevel(phrase, tuple(of_level)) for phrase, of_level in found.items())
    alike = grouped(
        (frozenset(frozenset(cell.cell.index for cell in level.cells) for level in levels), factor)
        for factor, levels in levels_of.items()
        if len(levels) > 1
    )
    together = {first: tuple(others) for first, *others in alike.values()}
    if len(together) < 2:
        return None
    of_page = grouped((cell.cell.page, cell.improvement_percent or 0.0) for cell in judged)
    centred = {
        cell.cell.index: (cell.improvement_percent or 0.0) - fmean(of_page[cell.cell.page]) for cell in judged
    }
    total = sum(value**2 for value in centred.values())
    if total == 0:
        return None
    shares = {}
    for factor in together:
        groups = [[centred[cell.cell.index] for cell in level.cells] for level in levels_of[factor]]
        shares[factor] = sum(len(group) * fmean(group) ** 2 for group in groups) / total
    most = max(together, key=lambda factor: shares[factor])
    levels = levels_of[most]
    savings = [level.saving_percent for level in levels]
    if shares[most] < SHARE_MIN or max(savings) - min(savings) < SPAN_MIN:
        return None
    return Deciding(most, together[most], levels)


@dataclass(frozen=True)
class Sensitivity:
    """Rank correlations of the saving by TFO with the uncertain inputs, sampled by `--vary`."""

    correlations: dict[str, float]
    """Spearman's rank correlation of each sampled input with the saving, positive if both grow together."""
    rest: float
    """The fraction of the variance of the saving's ranks, 0 to 1, that no single input explains. Its causes
    are the order of simultaneous requests and interactions between inputs."""

    @property
    def most(self) -> str | None:
        """Return the name of the sampled input on which the saving by TFO depends most. Return None if this
        input explains no more of the variance than the unexplained fraction (`rest`)."""
        name = max(self.correlations, key=lambda one: abs(self.correlations[one]), default=None)
        return name if name is not None and self.correlations[name] ** 2 > self.rest else None


def sensitivity(experiment: Experiment, result: CellResult) -> Sensitivity | None:
    """Return the correlations of the saving with the uncertain inputs that `--vary` samples. Return None
    without `--vary`, with other randomness, for fewer than DRAWS_MIN samples, or if all savings are equal."""
    savings = result.improvements_percent
    if not result.varied or len(savings) < DRAWS_MIN or len(set(savings.values())) < 2:
        return None
    draws = [draw_of(experiment, result.cell.comparison, repeat) for repeat in savings]
    saved = mid_ranks([*savings.values()])
    drawn = {name: [getattr(draw, name) for draw in draws] for name in UNKNOWNS}
    varying = {name: values for name, values in drawn.items() if len(set(values)) > 1}
    correlations = {name: correlation(mid_ranks(values), saved) for name, values in varying.items()}
    # Inputs are drawn independently, so the fractions of the variance that they explain add up. `accident` is
    # the fraction that an input without any effect explains by accident.
    accident = 1 / (len(savings) - 1)
    rest = max(0.0, 1 - sum(max(0.0, one**2 - accident) for one in correlations.values()))
    return Sensitivity(correlations, rest)
