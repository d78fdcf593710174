"""Audit a table of published page load times: find impossible or inconsistent figures."""

from collections.abc import Iterable

from fastopen.analysis.audit.kinds import QUESTIONS, AuditFinding
from fastopen.analysis.audit.physics import MeasuredCell, physics_findings, series_findings
from fastopen.analysis.audit.printing import improvement_findings, true_units
from fastopen.analysis.audit.table import PrintedCell, read_table
from fastopen.common.grouping import grouped


def audit(cells: Iterable[PrintedCell]) -> list[AuditFinding]:
    """Check the rows of published tables. The rows of one experiment form one table. Return the findings in
    the order of the tables and, within a table, of the lines."""
    ordered: list[AuditFinding] = []
    for table in grouped((cell.experiment, cell) for cell in cells).values():
        seconds, wrong_units = true_units(table)
        found = [*improvement_findings(table), *wrong_units]
        series = grouped(
            (
                (cell.page, cell.down_mbit, cell.up_mbit, cell.flight_off, cell.flight_tfo),
                MeasuredCell.of(cell, seconds[cell.line]),
            )
            for cell in table
        )
        for measured in series.values():
            found += [*series_findings(measured), *physics_findings(measured)]
        ordered += sorted(found, key=lambda finding: finding.cell.line)
    return ordered
