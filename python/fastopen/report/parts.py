"""The parts of a report that all its renderers share."""

from fastopen.analysis.attribution import Reasons
from fastopen.analysis.statistics import Results
from fastopen.report.findings import page_findings
from fastopen.report.grids import flight_grid, result_grid
from fastopen.report.model import Section


def page_section(results: Results, page: str, reasons: Reasons | None = None) -> Section:
    """Return the tables and the findings of a page. `reasons` explain why cells are slower than expected."""
    flights = flight_grid(results, page)
    grids = (result_grid(results, page), *(() if flights is None else (flights,)))
    return Section(page, grids, tuple(page_findings(results, page, reasons)))
