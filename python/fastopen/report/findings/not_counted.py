"""Report invalid loads, and planned loads that were not carried out."""

from collections.abc import Iterator

from fastopen.analysis.statistics import Results
from fastopen.common.phrases import plural
from fastopen.report.findings import Finding, finds
from fastopen.report.findings.verdict import invalid_lines


@finds(rank=30, severity="warning")
def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield findings on each kind of invalid load of `page`, and on planned loads that were not done."""
    cells = [cell for cell in results.cells if cell.cell.page == page]
    for kind, loads, line in invalid_lines(results, cells):
        yield Finding("invalid_loads", line, {"reason": kind, "loads": loads})
    missing = [
        sum(cell.asked - cell.loads for cell in arms.values()) for arms in results.comparisons(page).values()
    ]
    if short := [loads for loads in missing if loads]:
        rows = f", in {len(short)} of {len(missing)} rows" if len(missing) > 1 else ""
        yield Finding("not_done", f"Not done: {plural(sum(short), 'load')}{rows}.", {"loads": sum(short)})
