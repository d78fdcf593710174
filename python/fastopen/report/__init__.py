"""Report a run: tables, verdicts, findings, figures (`figures`) and a JSON document."""

from fastopen.report.document import flat_cells, results_document
from fastopen.report.printed import results_renderables
