"""Cells of CSV files: foreign text never becomes a formula."""

from typing import Final, TypeVar

Cell = TypeVar("Cell")
# What spreadsheets take for the beginning of a formula, or pass over before one (OWASP, CSV injection).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


def inert(value: Cell) -> Cell | str:
    """The value; a text that a spreadsheet would take for a formula gets an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def as_written(cell: str) -> str:
    """The text that `inert` made this cell of."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell
