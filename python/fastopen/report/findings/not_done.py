"""Loads of the plan that were not made."""

from collections.abc import Iterator
from typing import Final

from fastopen.analysis.statistics import Results
from fastopen.common.phrases import plural
from fastopen.report.model import Finding

RANK: Final = 31
SEVERITY: Final = "warning"


def findings(results: Results, page: str) -> Iterator[Finding]:
    missing = [
        sum(cell.asked - cell.loads for cell in cells.values())
        for cells in results.comparisons(page).values()
    ]
    if short := [loads for loads in missing if loads]:
        rows = f", in {len(short)} of {len(missing)} rows" if len(missing) > 1 else ""
        yield Finding("not_done", f"Not done: {plural(sum(short), 'load')}{rows}.", {"loads": sum(short)})
