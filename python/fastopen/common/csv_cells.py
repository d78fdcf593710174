"""Cells of CSV files: foreign text never becomes a formula."""

from typing import Final, TypeVar

Cell = TypeVar("Cell")
# Spreadsheets take these for the beginning of a formula, or skip them before one (OWASP, CSV injection).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


def inert(value: Cell) -> Cell | str:
    """Return the value, with an apostrophe before text that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def as_written(cell: str) -> str:
    """Return the text from which `inert` made this cell."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell
