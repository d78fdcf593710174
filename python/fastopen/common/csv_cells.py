"""Escape text in CSV cells, so that spreadsheets do not evaluate it as a formula."""

from typing import Final, TypeVar

Cell = TypeVar("Cell")
# Spreadsheets evaluate text that begins with one of these as a formula (OWASP, "CSV Injection").
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


def inert(value: Cell) -> Cell | str:
    """Return the value, with an apostrophe before text that a spreadsheet would evaluate as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def as_written(cell: str) -> str:
    """Undo `inert`: return the cell's text without the apostrophe that `inert` added, if it did."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell
