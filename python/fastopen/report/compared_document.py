"""Write comparisons of runs as one JSON document. docs/json.md lists its keys."""

from collections.abc import Sequence
from typing import Any, Final

from fastopen.analysis.comparison import CellChange, Change, LimitCheck, RunComparison, Side
from fastopen.experiments.factors import cell_columns
from fastopen.report.document import SOFTWARE

FORMAT: Final = "fastopen-comparison/1"
COUNTS: Final = ("loads", "invalid", "connections", "syn_data_connections")


def comparison_document(
    compared: Sequence[RunComparison], checks: Sequence[Sequence[LimitCheck]]
) -> dict[str, Any]:
    """Return comparisons of runs, with the checked limits of each, as an object for `json.dumps`."""
    return {
        "format": FORMAT,
        "failed": any(check.failed for of_one in checks for check in of_one),
        "reference": _side(compared[0].before),
        "comparisons": [_comparison(one, of_one) for one, of_one in zip(compared, checks, strict=True)],
    }


def _side(side: Side) -> dict[str, Any]:
    known, status = side.results.environment, side.results.status
    environment = {key: known[key] for key in SOFTWARE if key in known}
    return {"run": side.place, "label": side.label, "status": status, "environment": environment}


def _comparison(compared: RunComparison, checks: Sequence[LimitCheck]) -> dict[str, Any]:
    return {
        **_side(compared.after),
        "differs": [vars(setting) for setting in compared.settings],
        "cells": [_cell(compared, cell) for cell in compared.cells],
        "only_before": list(compared.only_before),
        "only_after": list(compared.only_after),
        "checks": [
            {
                "limit": check.limit.text,
                "cell": compared.cells.index(check.change),
                "verdict": check.verdict,
                "failed": check.failed,
            }
            for check in checks
        ],
    }


def _cell(compared: RunComparison, cell: CellChange) -> dict[str, Any]:
    factors, sides = compared.before.results.factors, (cell.before, cell.after)
    return {
        "page": cell.page,
        "name": cell.name,
        **cell_columns(factors.point(cell.before.cell)),
        "outcome": cell.outcome,
        "basis": cell.basis,
        "plt_ms": _change(cell.plt),
        "saving_percent": _change(cell.saving),
        **{name: [getattr(one, name) for one in sides] for name in COUNTS},
        "retransmitted_segments_median": [one.retransmitted for one in sides],
        "evidence_changed": cell.evidence_changed,
        "critical_path_ms": cell.paths
        and {kind.value: [path.kinds_ms[kind] for path in cell.paths] for kind in cell.paths[0].kinds_ms},
        "pieces": [
            {
                "kind": piece.kind,
                "url": piece.url,
                "request": piece.request,
                "on_both_paths": piece.on_both,
                "before_ms": piece.before_ns / 1e6,
                "after_ms": piece.after_ns / 1e6,
            }
            for piece in cell.pieces
        ],
        "reason": cell.reason,
    }


def _change(found: Change | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {key: value for key, value in vars(found).items() if key != "percent" or value is not None}
