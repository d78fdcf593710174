"""Tables, verdicts, findings, `figures` and the JSON document of a run."""

from fastopen.report.document import flat_cells, results_document
from fastopen.report.printed import results_renderables
