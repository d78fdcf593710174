"""Compare the matching cells of two runs."""

from dataclasses import dataclass

from fastopen.analysis.comparison.cells import CellChange, Kinship
from fastopen.analysis.comparison.matching import ComparedSetting, match, settings_that_differ
from fastopen.analysis.comparison.side import Side
from fastopen.analysis.statistics import CellResult, Results
from fastopen.experiments import Factor
from fastopen.experiments.factors import RTT


@dataclass(frozen=True)
class RunComparison:
    """The comparison of two runs. Reports call them A (`before`) and B (`after`)."""

    before: Side
    after: Side
    settings: tuple[ComparedSetting, ...]
    """Settings that differ between the runs."""
    factors: tuple[Factor, ...]
    """The factors that distinguish the cells of a page, in the order of a table's columns."""
    cells: tuple[CellChange, ...]
    """Changes of the cells that both runs have, in the order of A's tables."""
    only_before: tuple[str, ...]
    """Names of the cells that only A has."""
    only_after: tuple[str, ...]


def compare_runs(before: Side, after: Side) -> RunComparison:
    """Compare two runs cell by cell. Raises InputError if the runs have no common cell."""
    matching = match(before, after)
    varying = dict.fromkeys((*before.results.factors.registered, *after.results.factors.registered))
    factors = [factor for factor in varying if factor in matching.common and factor is not RTT]
    factors += [RTT] if RTT in matching.common else []
    kinship = Kinship(before, after, factors)
    return RunComparison(
        before=before,
        after=after,
        settings=settings_that_differ(before, after, matching),
        factors=tuple(factors),
        cells=tuple(kinship.change(old, new) for old, new in matching.pairs),
        only_before=tuple(_name(before.results, cell) for cell in matching.only_before),
        only_after=tuple(_name(after.results, cell) for cell in matching.only_after),
    )


def _name(results: Results, result: CellResult) -> str:
    return f"{result.cell.page} {results.factors.where(result.cell)}, {result.cell.arm.short_label}"
