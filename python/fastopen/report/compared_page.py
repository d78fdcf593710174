"""Write comparisons of runs as one HTML file that needs neither network nor scripts."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from markupsafe import Markup

from fastopen.analysis.comparison import LimitCheck, Outcome, RunComparison
from fastopen.common.phrases import capitalised, listed
from fastopen.report.compared import (
    check_lines,
    comparison_grids,
    evidence_lines,
    moved,
    side_lines,
    unshared_lines,
    verdict_line,
    where_on_the_path,
)
from fastopen.report.path_pieces import kind_colours, path_bars, pieces_grid
from fastopen.report.templates import environment, whole_page

# The maximum number of cells whose critical paths are drawn, and of changed waits listed for each.
PATHS_MAX: Final = 60
PIECES_MAX: Final = 40


def comparison_html(compared: Sequence[RunComparison], checks: Sequence[Sequence[LimitCheck]]) -> str:
    """Return the HTML of the file. `checks`: the checks of each comparison."""
    pages = list(dict.fromkeys(cell.page for one in compared for cell in one.cells))
    return whole_page(
        "compared.html.jinja",
        subject=listed(pages) if len(pages) < 5 else f"{len(pages)} pages",
        comparisons=[
            comparison_section(one, of_one, first=number == 0)
            for number, (one, of_one) in enumerate(zip(compared, checks, strict=True))
        ],
    )


def comparison_section(
    compared: RunComparison, checks: Sequence[LimitCheck], *, first: bool = True
) -> Markup:
    section = environment().get_template("comparison.html.jinja").module
    made = section.comparison(_comparison(compared, checks), kind_colours(), first)  # type: ignore[attr-defined]
    return Markup(made)  # noqa: S704  # a macro of a template that escapes


def _comparison(compared: RunComparison, checks: Sequence[LimitCheck]) -> dict[str, Any]:
    outcomes = {cell.outcome for cell in compared.cells}
    failed = any(check.failed for check in checks) or Outcome.SLOWER in outcomes
    return {
        "verdict": verdict_line(compared),
        "tone": "bad" if failed else "good" if Outcome.FASTER in outcomes else "quiet",
        "sides": side_lines(compared),
        "checks": list(check_lines(checks)),
        "grids": list(comparison_grids(compared)),
        "notes": [*evidence_lines(compared), *unshared_lines(compared)],
        "paths": list(_paths(compared)),
    }


def _paths(compared: RunComparison) -> Iterator[dict[str, Any]]:
    for cell in moved(compared)[:PATHS_MAX]:
        if cell.paths is not None:
            of_runs = {letter: path.kinds_ms for letter, path in zip("AB", cell.paths, strict=True)}
            yield {
                "name": cell.name,
                "words": capitalised(where_on_the_path(compared, cell)),
                "bars": path_bars(of_runs),
                "grid": pieces_grid(cell.pieces[:PIECES_MAX]),
            }
