"""All rules together, over all tables of a file: the rows of one experiment are one table."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from fastopen.analysis.audit.findings import Finding
from fastopen.analysis.audit.improvement import improvement_findings
from fastopen.analysis.audit.physics import MeasuredCell, physics_findings
from fastopen.analysis.audit.series import series_findings
from fastopen.analysis.audit.table import PrintedCell
from fastopen.analysis.audit.units import true_units


def audit(cells: Iterable[PrintedCell]) -> list[Finding]:
    """Return the faults in the order of the rows. Raises nothing for cells that could be read."""
    tables: dict[str, list[PrintedCell]] = defaultdict(list)
    for cell in cells:
        tables[cell.experiment].append(cell)
    found = [finding for table in tables.values() for finding in _audit_table(table)]
    order = {name: number for number, name in enumerate(tables)}
    return sorted(found, key=lambda finding: (order[finding.cell.experiment], finding.cell.line))


def _audit_table(table: Sequence[PrintedCell]) -> list[Finding]:
    seconds, wrong_units = true_units(table)
    found = [*improvement_findings(table), *wrong_units]
    series: dict[tuple[object, ...], list[MeasuredCell]] = defaultdict(list)
    for cell in table:
        measured = MeasuredCell.of(cell, seconds[cell.line])
        flights = (cell.flight_off, cell.flight_tfo)
        series[cell.page, cell.down_mbit, cell.up_mbit, *flights].append(measured)
    for cells in series.values():
        found += series_findings(cells)
        found += physics_findings(cells)
    return found
