"""A table as CSV (RFC 4180), for spreadsheets and data frames: what programs read, nothing rounded."""

import csv
import io

from fastopen.report.grid import Grid, Value


def csv_text(grid: Grid) -> str:
    """The columns' headings, then the rows."""
    target = io.StringIO()
    writer = csv.writer(target)
    writer.writerow(column.heading for column in grid.columns)
    writer.writerows([_inert(entry.value) for entry in row] for row in grid.rows)
    return target.getvalue()


def _inert(value: Value) -> Value:
    """A text that a spreadsheet would take for a formula gets an apostrophe (OWASP, CSV injection)."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
