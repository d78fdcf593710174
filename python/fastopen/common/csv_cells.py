"""Escape text in CSV cells, so that spreadsheet programs do not evaluate it as a formula."""

from typing import Final, TypeVar

Cell = TypeVar("Cell")
# Spreadsheets evaluate text that begins with one of these as a formula (OWASP, "CSV Injection").
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


def escape_formula(value: Cell) -> Cell | str:
    """Return `value`, with an apostrophe before text that a spreadsheet would evaluate as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def unescape_formula(cell: str) -> str:
    """Return the text of a cell without the apostrophe that `escape_formula` may have added."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell
