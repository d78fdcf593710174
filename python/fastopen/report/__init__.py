"""What people and programs read of a run: tables, verdicts in words, and one JSON document."""

from fastopen.report.document import results_document
from fastopen.report.tables import results_renderables
from fastopen.report.verdict import page_verdict

__all__ = ["page_verdict", "results_document", "results_renderables"]
