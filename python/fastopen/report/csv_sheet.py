"""Write the values of a table as CSV (RFC 4180) without rounding, for spreadsheets and data frames."""

import csv
import io

from fastopen.common.grid import Grid, escape_formula


def csv_text(grid: Grid) -> str:
    """Return the table as CSV text: a line with the column headings, then a line for each row."""
    target = io.StringIO()
    writer = csv.writer(target)
    writer.writerow(column.heading for column in grid.columns)
    writer.writerows([escape_formula(entry.value) for entry in row] for row in grid.rows)
    return target.getvalue()
