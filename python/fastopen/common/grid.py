"""Define tables independently of their output format: terminal, HTML, Markdown, LaTeX or CSV."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

Tone = Literal["", "good", "bad", "quiet", "notable"]
Kind = Literal["key", "factor", "figure", "words"]
Value = str | float | bool | None
Cell = TypeVar("Cell")
# Spreadsheets evaluate text that begins with one of these as a formula (OWASP, "CSV Injection").
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


@dataclass(frozen=True)
class Entry:
    """The content of one cell of a table. `text` is the text to show. Narrow tables show `short` instead.
    `tone` sets the colour, for example `good` for a shorter page load time and `bad` for a longer one.
    `aside` is shown after a number, for example its confidence interval. `mark` refers to a note below the
    table, for example by a dagger. `phrase` is the value of a setting together with the setting's name, such
    as `RTT 20 ms`, for outputs that do not show the column's header."""

    text: str
    tone: Tone = ""
    aside: str = ""
    mark: str = ""
    short: str = ""
    phrase: str = ""
    value: Value = None
    """The exact value, for output formats that programs read."""

    def __str__(self) -> str:
        return f"{self.text}{self.mark} {self.aside}".rstrip()


@dataclass(frozen=True)
class Column:
    """A column of a table. `kind` is the type of its cells: `key` for names of rows, `factor` for values of a
    setting, `figure` for numbers, `words` for any other text. `short` replaces the header in narrow tables.
    If `main_result` is True, reports move the column to the left, next to the names and settings. If `detail`
    is True, narrow tables omit the column. If `wraps` is True, its cells may have several lines."""

    header: str
    kind: Kind = "figure"
    short: str = ""
    main_result: bool = False
    wraps: bool = False
    detail: bool = False

    @property
    def heading(self) -> str:
        """Return the header on one line."""
        return self.header.replace("-\n", "").replace("\n", " ")

    @property
    def is_head(self) -> bool:
        """Return True if the column helps to identify a row: by the row's name or the value of a setting."""
        return self.kind in ("key", "factor")


@dataclass(frozen=True)
class Grid:
    """A table, independent of its output format."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    note: str = ""
    subtitle: str = ""
    """Text that applies to all rows, such as the settings that they share: `RTT 20 ms`."""
    grouped: bool = False
    """True if consecutive rows with the same first entry form a group."""

    def main_results_first(self) -> "Grid":
        """Return the table with the columns of main results moved next to the columns that identify rows."""
        ranks = [0 if column.is_head else 1 if column.main_result else 2 for column in self.columns]
        return self.picked(sorted(range(len(ranks)), key=ranks.__getitem__))

    def picked(self, numbers: Sequence[int]) -> "Grid":
        """Return the table with only the columns at the indexes `numbers`, in this order."""
        rows = (tuple(row[number] for number in numbers) for row in self.rows)
        return replace(self, columns=tuple(self.columns[number] for number in numbers), rows=tuple(rows))

    def hoist_common_factors(self) -> "Grid":
        """Return the table without columns of settings that have the same value in all rows. The subtitle
        lists these settings. At least one column that identifies rows stays."""
        heads = [number for number, column in enumerate(self.columns) if column.is_head]
        factors = [number for number in heads if self.columns[number].kind == "factor"]
        common = [number for number in factors if len({row[number].text for row in self.rows}) == 1]
        common = common[:-1] if common == heads else common
        if not common:
            return self
        kept = [number for number in range(len(self.columns)) if number not in common]
        words = ", ".join(self.rows[0][number].phrase for number in common)
        return replace(self.picked(kept), subtitle="; ".join(filter(None, (words, self.subtitle))))


def keys(*headers: str) -> tuple[Column, ...]:
    """For each header, return a column of the kind `key`, whose entries identify the rows."""
    return tuple(Column(header, "key") for header in headers)


def figures(*headers: str) -> tuple[Column, ...]:
    return tuple(Column(header) for header in headers)


def entries(*texts: str, tone: Tone = "") -> tuple[Entry, ...]:
    return tuple(Entry(text, tone) for text in texts)


def listing(columns: Sequence[Column], rows: Iterable[Sequence[Entry | str]], title: str = "") -> Grid:
    """Return a table with the given columns and rows. A cell given as text becomes an Entry."""
    made = (tuple(Entry(one) if isinstance(one, str) else one for one in row) for row in rows)
    return Grid(title, tuple(columns), tuple(made))


def escape_formula(value: Cell) -> Cell | str:
    """Return `value`, with an apostrophe before text that a spreadsheet would evaluate as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def unescape_formula(cell: str) -> str:
    """Return the text of a cell without the apostrophe that `escape_formula` may have added."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell
