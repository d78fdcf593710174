"""What people and programs read of a run: tables, verdicts in words, and one JSON document."""

from fastopen.report.document import flat_cells, results_document
from fastopen.report.printed import results_renderables
from fastopen.report.verdict import page_verdicts

__all__ = ["flat_cells", "page_verdicts", "results_document", "results_renderables"]
