"""Write comparisons of runs as one HTML file without scripts, with critical paths as bars and tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from fastopen.analysis.attribution import CriticalPath, Kind, PieceChange, request_label
from fastopen.analysis.comparison import LimitCheck, Outcome, RunComparison
from fastopen.common.grid import Column, Entry, Grid
from fastopen.common.phrases import capitalised, listed, nonzero_with_sign, time
from fastopen.pages import Page
from fastopen.report.compared import (
    changed_cells,
    check_lines,
    comparison_grids,
    evidence_lines,
    side_lines,
    unshared_lines,
    verdict_line,
    where_on_the_path,
)
from fastopen.report.figures.style import KIND_COLOURS
from fastopen.report.templates import environment, whole_page

# The maximum number of cells with drawn critical paths, and of changed waits listed for each of these cells.
PATHS_MAX: Final = 60
PIECES_MAX: Final = 40


def comparison_html(compared: Sequence[RunComparison], checks: Sequence[Sequence[LimitCheck]]) -> str:
    """Return an HTML page that compares runs. `checks` contains the checked limits of each comparison."""
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
    """Return an HTML section that compares two runs, with the checked limits on changes. If `first` is True,
    as for the first section of a page, the section has the id `verdict` and the verdict's colour."""
    outcomes = {cell.outcome for cell in compared.cells}
    failed = any(check.failed for check in checks) or Outcome.SLOWER in outcomes
    content = {
        "verdict": verdict_line(compared),
        "tone": "bad" if failed else "good" if Outcome.FASTER in outcomes else "quiet",
        "sides": list(side_lines(compared)),
        "checks": list(check_lines(checks)),
        "grids": list(comparison_grids(compared)),
        "notes": [*evidence_lines(compared), *unshared_lines(compared)],
        "paths": list(_paths(compared)),
    }
    section = environment().get_template("comparison.html.jinja").module
    made = section.comparison(content, kind_colours(), first)  # type: ignore[attr-defined]
    return Markup(made)  # noqa: S704  # the template escapes all texts


def _paths(compared: RunComparison) -> Iterator[dict[str, Any]]:
    for cell in changed_cells(compared)[:PATHS_MAX]:
        if cell.paths is not None:
            of_runs = {letter: path.kinds_ms for letter, path in zip("AB", cell.paths, strict=True)}
            yield {
                "name": cell.name,
                "words": capitalised(where_on_the_path(compared, cell)),
                "bars": path_bars(of_runs),
                "grid": pieces_grid(cell.pieces[:PIECES_MAX]),
            }


def kind_colours() -> list[tuple[str, str]]:
    """Return (kind of wait, colour) pairs for the legend of bars that show critical paths."""
    return [(kind.value, colour) for kind, colour in KIND_COLOURS.items()]


def path_bars(paths: Mapping[str, Mapping[Kind, float]]) -> list[tuple[str, list[dict[str, str]]]]:
    """Return (name, pieces) for each critical path, to draw it as a bar. `paths` maps names to milliseconds
    keyed by kind of wait. A piece has a `share` (percent of the longest bar), a `colour` and a `title`."""
    longest_ms = max((sum(kinds_ms.values()) for kinds_ms in paths.values()), default=0.0) or 1.0
    bars = []
    for name, kinds_ms in paths.items():
        pieces = [
            {
                "share": f"{100 * kinds_ms[kind] / longest_ms:.3f}",
                "colour": KIND_COLOURS[kind],
                "title": f"{kind}: {time(kinds_ms[kind])}",
            }
            for kind in Kind
            if kinds_ms[kind] > 0
        ]
        bars.append((name, pieces))
    return bars


def kinds_of(path: CriticalPath) -> dict[Kind, float]:
    """Return the total milliseconds of each kind of wait on the critical path of one load."""
    return {kind: path.total_ns(kind) / 1e6 for kind in Kind}


def segments_grid(page: Page, path: CriticalPath) -> Grid:
    """Return a table of the waits on one critical path in chronological order."""
    rows = tuple(
        (
            Entry(request_label(page, one.resource)),
            Entry(one.kind),
            *(Entry(f"{ns / 1e6:.3f}", value=ns / 1e6) for ns in (one.start_ns, one.end_ns, one.length_ns)),
        )
        for one in path.segments
    )
    note = "The pieces add up to the page load time."
    return Grid("Critical path", _columns("from ms", "to ms", "ms"), rows, note)


def pieces_grid(pieces: Sequence[PieceChange]) -> Grid:
    """Return a table of the waits that differ between the critical paths of runs A and B."""
    rows = tuple(
        (
            Entry(piece.url if piece.request is None else f"{piece.request} {piece.url}"),
            Entry(piece.kind),
            *(Entry(f"{ns / 1e6:.3f}", value=ns / 1e6) for ns in (piece.before_ns, piece.after_ns)),
            Entry(nonzero_with_sign(piece.change_ns / 1e6), value=piece.change_ns / 1e6),
        )
        for piece in pieces
    )
    return Grid("Pieces that changed", _columns("A ms", "B ms", "B - A ms"), rows)


def _columns(*headers: str) -> tuple[Column, ...]:
    return (Column("request", "key"), Column("waits for", "words"), *map(Column, headers))
