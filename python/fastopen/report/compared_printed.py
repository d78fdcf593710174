"""Print the comparison of two runs in a terminal."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from fastopen.analysis.comparison import LimitCheck, RunComparison
from fastopen.common.terminal import STYLES, filled, tabled
from fastopen.report.compared import (
    check_lines,
    comparison_grids,
    evidence_lines,
    path_lines,
    side_lines,
    unshared_lines,
    verdict_line,
)


def comparison_renderables(
    compared: RunComparison, checks: Sequence[LimitCheck], width: int
) -> Iterator[RenderableType]:
    """Yield the sentences and tables of a comparison, settings first, for a terminal with `width` columns."""
    yield from filled(side_lines(compared), width, indent="   ")
    yield Text()
    notes: dict[str, None] = {}
    for grid in comparison_grids(compared):
        yield from tabled(grid, width)
        notes[grid.note] = None
    yield from filled([verdict_line(compared)], width, "bold")
    yield from filled(path_lines(compared), width, indent="  ")
    yield from filled(evidence_lines(compared), width, "yellow", indent="  ")
    yield from filled(unshared_lines(compared), width, "yellow", indent="  ")
    yield from filled(notes, width, "dim")
    for line, tone in check_lines(checks):
        yield from filled([line], width, STYLES[tone], indent="    ")
