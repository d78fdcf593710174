"""Tables in a terminal, by Rich: the roomiest layout that fits its width."""

from dataclasses import dataclass, replace
from typing import Final

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fastopen.attribution.phrases import MINUS, NBSP
from fastopen.report.grid import Column, Entry, Grid

# Wider than any table: tells how wide one would be.
MEASURE: Final = Console(width=10_000)
STYLES: Final = {"": "", "good": "green", "bad": "red", "quiet": "dim", "notable": "yellow"}
PLAIN: Final = str.maketrans({NBSP: " ", MINUS: "-"})


def plain(text: str) -> str:
    """As a terminal has it, where it is searched and copied: ordinary spaces, and hyphens for minus signs."""
    return text.translate(PLAIN)


@dataclass(frozen=True)
class Layout:
    """What gives way where room is short."""

    asides_below: bool = False
    """Intervals go below their figures."""
    short: bool = False
    """Headers take more lines, and words are short."""
    tight: bool = False
    """Columns are one space apart."""
    merged: bool = False
    """All factors but the last are put together into one column of words, on several lines where need be."""
    bare: bool = False
    """What proves the figures is left out."""


LAYOUTS: Final = (
    Layout(),
    Layout(asides_below=True),
    Layout(asides_below=True, short=True),
    Layout(asides_below=True, short=True, tight=True),
    Layout(asides_below=True, short=True, merged=True),
    Layout(asides_below=True, short=True, tight=True, merged=True),
    Layout(asides_below=True, short=True, tight=True, merged=True, bare=True),
)
# Words of factors that are put together need so many columns to be read.
WORDS_MIN: Final = 9


def fitting_table(grid: Grid, width: int) -> tuple[Table, Layout]:
    """The table for so many columns of a terminal, and how it is laid out."""
    table, layout = _table(grid, LAYOUTS[0]), LAYOUTS[0]
    for layout in LAYOUTS:
        shown = _without_proof(grid) if layout.bare else grid
        table = _table(_merged(shown) if layout.merged else shown, layout)
        if _least(table) <= width:
            break
    return table, layout


def _least(table: Table) -> int:
    """How many columns of a terminal it needs: words that are put together go on several lines."""
    least = Measurement.get(MEASURE, MEASURE.options, table).maximum
    for column in table.columns:
        if not column.no_wrap:
            widest = max((cell.cell_len for cell in column.cells if isinstance(cell, Text)), default=0)
            least -= max(0, widest - WORDS_MIN)
    return least


def _without_proof(grid: Grid) -> Grid:
    kept = [number for number, column in enumerate(grid.columns) if not column.proof]
    rows = tuple(tuple(row[number] for number in kept) for row in grid.rows)
    return replace(grid, columns=tuple(grid.columns[number] for number in kept), rows=rows)


def _merged(grid: Grid) -> Grid:
    factors = [number for number, column in enumerate(grid.columns) if column.kind == "factor"][:-1]
    if not factors:
        return grid
    first = factors[0]
    others = [number for number in range(len(grid.columns)) if number not in factors and number > first]
    rows = [
        (
            *row[:first],
            Entry(", ".join(row[number].phrase for number in factors)),
            *(row[number] for number in others),
        )
        for row in grid.rows
    ]
    columns = (*grid.columns[:first], Column("", "key"), *(grid.columns[number] for number in others))
    return Grid(grid.title, columns, tuple(rows), grouped=grid.grouped)


def _table(grid: Grid, layout: Layout) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0 if layout.tight else 1, 0, 0), pad_edge=False)
    headers = [plain((layout.short and column.short) or column.header) for column in grid.columns]
    lines = max(header.count("\n") for header in headers)
    for column, header in zip(grid.columns, headers, strict=True):
        above = "\n" * (lines - header.count("\n")) if column.kind == "key" and header else ""
        table.add_column(
            Text(above + header),
            justify="left" if column.kind in ("key", "words") else "right",
            no_wrap=bool(column.header),
            overflow="fold",
            min_width=None if column.header else WORDS_MIN,
        )
    marked = [any(row[number].mark for row in grid.rows) for number in range(len(grid.columns))]
    before = None
    grouped = grid.grouped and len({row[0].text for row in grid.rows}) < len(grid.rows)
    for row, following in zip(grid.rows, [*grid.rows[1:], None], strict=True):
        entries = list(row)
        if grid.grouped and before == row[0]:
            entries[0] = Entry("")
        before = row[0]
        ends = grouped and following is not None and following[0] != row[0]
        table.add_row(
            *(_text(one, layout, marked=has) for one, has in zip(entries, marked, strict=True)),
            end_section=ends,
        )
    return table


def _text(entry: Entry, layout: Layout, *, marked: bool) -> Text:
    """`marked`: whether figures of this column have marks, for which the others leave room."""
    text = entry.short if layout.short and entry.short else entry.text
    text += entry.mark or (" " if marked else "")
    if entry.aside:
        text += ("\n" if layout.asides_below else " ") + entry.aside
    return Text(plain(text), style=STYLES[entry.tone])
