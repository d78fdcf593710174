"""The cells of a run as one flat table, CSV: a row for each cell, for spreadsheets and data frames."""

import csv
import io
from typing import Any, Final

from fastopen.attribution import Kind
from fastopen.figures import Source
from fastopen.report.document import results_document

# Lists and objects of the document that have no place in a table.
_NESTED: Final = (
    "invalid_reasons",
    "repeated_reasons",
    "extra_rtt_ms",
    "published",
    "outliers",
    "screenshots_missing",
)


def sheet(source: Source) -> str:
    """CSV with a heading; keys as in the JSON document, then the critical path and published figures."""
    rows = []
    for cell, result in zip(results_document(source.results)["cells"], source.results.cells, strict=True):
        flat: dict[str, Any] = {key: value for key, value in cell.items() if key not in _NESTED}
        low, high = flat.pop("improvement_ci95", None) or (None, None)
        flat.update(improvement_ci95_low=low, improvement_ci95_high=high)
        path = source.attribution.breakdowns.get(result.cell.index)
        for kind in Kind:
            name = f"path_{kind.value.replace(' ', '_').replace('-', '_')}_ms"
            flat[name] = None if path is None else round(path.kinds_ms[kind], 6)
        flat["path_handshakes"] = None if path is None else path.handshakes
        for key, value in (cell.get("published") or dict.fromkeys(_PUBLISHED)).items():
            flat[f"published_{key}"] = value
        rows.append({key: value for key, value in flat.items() if not isinstance(value, dict | list)})
    target = io.StringIO()
    writer = csv.DictWriter(target, fieldnames=list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows({key: _safe(value) for key, value in row.items()} for row in rows)
    return target.getvalue()


_PUBLISHED: Final = (
    "source",
    "page",
    "plt_off",
    "plt_tfo",
    "unit_as_printed",
    "improvement_percent_as_printed",
)


def _safe(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets an apostrophe (OWASP, CSV injection)."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
