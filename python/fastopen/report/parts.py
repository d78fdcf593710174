"""The parts of a report that all its renderers share."""

from fastopen.analysis.statistics import Results
from fastopen.report.findings import page_findings
from fastopen.report.grids import flight_grid, level_grid, result_grid, syn_grid
from fastopen.report.model import Section


def page_section(results: Results, page: str) -> Section:
    """Return the tables and the findings of a page."""
    sizes = level_grid(results, page)
    first = (result_grid(results, page), flight_grid(results, page)) if sizes is None else (sizes,)
    grids = tuple(grid for grid in (*first, syn_grid(results, page)) if grid is not None)
    return Section(page, grids, tuple(page_findings(results, page)))
