"""Runs compared as one HTML file that needs no network and no scripts."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from markupsafe import Markup

from fastopen.attribution import Kind, PieceChange
from fastopen.attribution.phrases import listed, nonzero_with_sign, time
from fastopen.comparison import CellChange, Check, Outcome, RunComparison
from fastopen.figures.style import KIND_COLOURS
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
from fastopen.report.grid import Column, Entry, Grid
from fastopen.report.templates import asset, environment, policy

# Cells whose critical paths are drawn, and pieces that are listed of each.
PATHS_MAX: Final = 60
PIECES_MAX: Final = 40


def comparison_html(compared: Sequence[RunComparison], checks: Sequence[Sequence[Check]]) -> str:
    """The whole file; `checks` are those of each comparison."""
    pages = list(dict.fromkeys(cell.page for one in compared for cell in one.cells))
    return (
        environment()
        .get_template("compared.html.jinja")
        .render(
            subject=listed(pages) if len(pages) < 5 else f"{len(pages)} pages",
            comparisons=[_comparison(one, of_one) for one, of_one in zip(compared, checks, strict=True)],
            kinds=[(kind.value, colour) for kind, colour in KIND_COLOURS.items()],
            style=Markup(asset("report.css")),  # noqa: S704  # ours
            policy=policy(),
        )
    )


def _comparison(compared: RunComparison, checks: Sequence[Check]) -> dict[str, Any]:
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
            yield {
                "name": cell.name,
                "words": _sentence(where_on_the_path(compared, cell)),
                "bars": _bars(cell),
                "grid": _pieces_grid(cell.pieces[:PIECES_MAX]),
            }


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _bars(cell: CellChange) -> list[tuple[str, list[dict[str, str]]]]:
    """Both mean critical paths to one scale."""
    assert cell.paths is not None
    longest = max(path.plt_ms for path in cell.paths) or 1.0
    return [
        (
            letter,
            [
                {
                    "share": f"{100 * path.kinds_ms[kind] / longest:.3f}",
                    "colour": KIND_COLOURS[kind],
                    "title": f"{kind}: {time(path.kinds_ms[kind])}",
                }
                for kind in Kind
                if path.kinds_ms[kind] > 0
            ],
        )
        for letter, path in zip("AB", cell.paths, strict=True)
    ]


def _pieces_grid(pieces: Sequence[PieceChange]) -> Grid:
    columns = (
        Column("request", "key"),
        Column("waits for", "words"),
        *(Column(header) for header in ("A ms", "B ms", "B - A ms")),
    )
    rows = tuple(
        (
            Entry(piece.url if piece.request is None else f"{piece.request} {piece.url}"),
            Entry(piece.kind),
            *(Entry(f"{ns / 1e6:.3f}", value=ns / 1e6) for ns in (piece.before_ns, piece.after_ns)),
            Entry(nonzero_with_sign(piece.change_ns / 1e6), value=piece.change_ns / 1e6),
        )
        for piece in pieces
    )
    return Grid("Pieces that changed", columns, rows)
