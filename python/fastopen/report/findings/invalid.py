"""Loads whose evidence contradicts their arm."""

from collections.abc import Iterator
from typing import Final

from fastopen.analysis.statistics import Results
from fastopen.report.findings.verdict import invalid_lines
from fastopen.report.model import Finding

RANK: Final = 30
SEVERITY: Final = "warning"


def findings(results: Results, page: str) -> Iterator[Finding]:
    cells = [cell for cell in results.cells if cell.cell.page == page]
    for kind, loads, line in invalid_lines(results, cells):
        yield Finding("invalid_loads", line, {"reason": kind, "loads": loads})
