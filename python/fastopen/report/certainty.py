"""Describe the certainty of a run's results: noise floor, precision, repeats needed, outliers."""

from collections.abc import Iterator
from typing import Final

from fastopen.analysis.statistics import CellResult, Results, half_width_percent, pairs_needed
from fastopen.common.phrases import decapitalised, plural, with_sign
from fastopen.experiments import CONTROL, Role

# The half-width of intervals, in percentage points, for which the number of needed repeats is computed.
WANTED_PERCENT: Final = 1.0
NAMED: Final = 3


def certainty_lines(results: Results) -> Iterator[str]:
    """Yield sentences on the noise floor, the precision and the outliers of this run, if it has any."""
    noisy = [cell for cell in results.cells if not (cell.deterministic or cell.varied)]
    yield from _noise_floor([cell for cell in noisy if cell.cell.arm.role is Role.CONTROL])
    yield from _precision(results, [cell for cell in noisy if cell.cell.arm.role is Role.TREATMENT])
    yield from _outliers(results)


def _noise_floor(controls: list[CellResult]) -> Iterator[str]:
    intervals = [cell.improvement_ci95 for cell in controls if cell.improvement_ci95 is not None]
    if intervals:
        low, high = min(low for low, _ in intervals), max(high for _, high in intervals)
        yield (
            f"Noise floor: {decapitalised(CONTROL.condition)}, page load time seems"
            f" to be reduced by {with_sign(low)} to {with_sign(high)} % (95 % intervals): savings within that"
            " mean nothing."
        )


def _precision(results: Results, treatments: list[CellResult]) -> Iterator[str]:
    widths = [(width, cell) for cell in treatments if (width := half_width_percent(cell)) is not None]
    if not widths:
        return
    width, widest = max(widths, key=lambda one: one[0])
    needed = pairs_needed(widest, WANTED_PERCENT)
    where = f"{_name(results, widest)}, {widest.cell.arm.name}"
    if width <= WANTED_PERCENT:
        yield f"No interval is wider than ±{width:.1g} points ({where})."
    else:
        yield (
            f"The widest interval is ±{width:.1f} points ({where});"
            f" ±{WANTED_PERCENT:g} point would need about {needed:,} repeats"
            f" (--until-ci {WANTED_PERCENT:g}% --max-repeats {needed})."
        )


def _outliers(results: Results) -> Iterator[str]:
    lossy = [cell for cell in results.cells if results.loses(cell)]
    others = [cell for cell in results.cells if not results.loses(cell)]
    if late := sum(len(cell.outliers) for cell in lossy):
        loads = sum(len(cell.plts_ms) for cell in lossy)
        which = f"{late:,} of {loads:,} loads {'is' if late == 1 else 'are'}"
        yield (
            f"Where segments are lost at random, {which} far from the others of their cell, as losses make"
            " them; all are in every figure."
        )
    found = [(cell, outlier) for cell in others for outlier in cell.outliers]
    if found:
        named = "; ".join(
            f"{_name(results, cell)}, {cell.cell.arm.name}, repeat {outlier.repeat}: {outlier.plt_ms:.0f} ms"
            for cell, outlier in found[:NAMED]
        )
        more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
        yield f"{plural(len(found), 'outlier')}, kept in every figure ({named}{more})."


def _name(results: Results, cell: CellResult) -> str:
    return f"{cell.cell.page} {results.factors.where(cell.cell.comparison)}"
