"""Report facts that cast doubt on savings: invalid and missing loads, and savings above their upper bound."""

from collections.abc import Iterator

from fastopen.analysis.attribution import excess_sentence
from fastopen.analysis.statistics import Results
from fastopen.common.phrases import plural
from fastopen.experiments import baseline_of, treatments_of
from fastopen.report.findings import Finding, finds
from fastopen.report.findings.verdict import invalid_lines


@finds(rank=30, severity="warning")
def loads_not_counted(results: Results, page: str) -> Iterator[Finding]:
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


@finds(rank=70, severity="warning")
def savings_beyond_bound(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding for each arm with savings on `page` above their upper bound. It describes the largest
    of these savings."""
    rows = results.comparisons(page)
    for arm in treatments_of(results.experiment.arms):
        cells = {row: arms.get(arm.name) for row, arms in rows.items()}
        beyond = {row: cell for row, cell in cells.items() if cell and cell.beats_bound}
        if beyond:
            row, cell = max(beyond.items(), key=lambda item: item[1].improvement_percent or 0.0)
            others = plural(len(beyond) - 1, "other row exceeds", "other rows exceed")
            more = f" {others} the bound as well." if len(beyond) > 1 else ""
            sentence = f"{excess_sentence(results.factors.where(row), baseline_of(rows[row]), cell)}{more}"
            bound = None if cell.bound is None else cell.bound.percent
            figures = {"saved_percent": cell.improvement_percent, "bound_percent": bound}
            yield Finding("beyond_bound", sentence, figures)
