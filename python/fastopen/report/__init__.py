"""Report runs and their comparisons: verdicts, findings, tables and figures, for people and for programs."""

from fastopen.report.document import flat_cells, results_document
from fastopen.report.printed import results_renderables
