"""Show critical paths in HTML: bars on one scale, and tables of their segments."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastopen.analysis.attribution import CriticalPath, Kind, PieceChange
from fastopen.common.grid import Column, Entry, Grid
from fastopen.common.phrases import nonzero_with_sign, time
from fastopen.pages import Page
from fastopen.report.figures.requests import request_name
from fastopen.report.figures.style import KIND_COLOURS


def kind_colours() -> list[tuple[str, str]]:
    """Return the legend of the bars: each kind of wait with its colour."""
    return [(kind.value, colour) for kind, colour in KIND_COLOURS.items()]


def path_bars(paths: Mapping[str, Mapping[Kind, float]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the name and bar of each path, given its milliseconds by kind, with all bars on one scale."""
    longest = max((sum(kinds_ms.values()) for kinds_ms in paths.values()), default=0.0) or 1.0
    return [(name, list(_bar(kinds_ms, longest))) for name, kinds_ms in paths.items()]


def _bar(kinds_ms: Mapping[Kind, float], longest_ms: float) -> Iterator[dict[str, str]]:
    for kind in Kind:
        if kinds_ms[kind] > 0:
            yield {
                "share": f"{100 * kinds_ms[kind] / longest_ms:.3f}",
                "colour": KIND_COLOURS[kind],
                "title": f"{kind}: {time(kinds_ms[kind])}",
            }


def kinds_of(path: CriticalPath) -> dict[Kind, float]:
    """Return the milliseconds of each kind of wait on the critical path of one load."""
    return {kind: path.total_ns(kind) / 1e6 for kind in Kind}


def segments_grid(page: Page, path: CriticalPath) -> Grid:
    """Return a table of the segments of one path in chronological order."""
    rows = tuple(
        (
            Entry(request_name(page, one.resource)),
            Entry(one.kind),
            *(Entry(f"{ns / 1e6:.3f}", value=ns / 1e6) for ns in (one.start_ns, one.end_ns, one.length_ns)),
        )
        for one in path.segments
    )
    return Grid(
        "Critical path", _columns("from ms", "to ms", "ms"), rows, "The pieces add up to the page load time."
    )


def pieces_grid(pieces: Sequence[PieceChange]) -> Grid:
    """Return a table of the waits that changed from one critical path to another."""
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


def _columns(*figures: str) -> tuple[Column, ...]:
    return (Column("request", "key"), Column("waits for", "words"), *map(Column, figures))
