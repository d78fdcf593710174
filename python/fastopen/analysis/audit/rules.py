"""Run all checks of an audit on each published table of a file. The rows of one experiment are one table."""

from collections.abc import Iterable, Sequence

from fastopen.analysis.audit.kinds import AuditFinding
from fastopen.analysis.audit.physics import MeasuredCell, physics_findings, series_findings
from fastopen.analysis.audit.printing import improvement_findings, true_units
from fastopen.analysis.audit.table import PrintedCell
from fastopen.common.grouping import grouped


def audit(cells: Iterable[PrintedCell]) -> list[AuditFinding]:
    """Check the rows of published tables, and return the findings, ordered by experiment and line."""
    tables = grouped((cell.experiment, cell) for cell in cells)
    by_line = (
        sorted(_audit_table(table), key=lambda finding: finding.cell.line) for table in tables.values()
    )
    return [finding for findings in by_line for finding in findings]


def _audit_table(table: Sequence[PrintedCell]) -> list[AuditFinding]:
    seconds, wrong_units = true_units(table)
    found = [*improvement_findings(table), *wrong_units]
    series = grouped(
        (
            (cell.page, cell.down_mbit, cell.up_mbit, cell.flight_off, cell.flight_tfo),
            MeasuredCell.of(cell, seconds[cell.line]),
        )
        for cell in table
    )
    for cells in series.values():
        found += series_findings(cells)
        found += physics_findings(cells)
    return found
