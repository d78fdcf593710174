"""Everything that people and programs read of a run: tables, verdicts, findings, and one JSON document."""

from fastopen.report.document import flat_cells, results_document
from fastopen.report.printed import results_renderables
