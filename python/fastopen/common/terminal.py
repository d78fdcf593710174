"""Render tables for a terminal with Rich, in the widest layout that fits."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fastopen.common.grid import Column, Entry, Grid
from fastopen.common.phrases import MINUS, NBSP

# Longer lines are hard to read, even in a wide terminal.
PROSE_MAX: Final = 110
STYLES: Final = {"": "", "good": "green", "bad": "red", "quiet": "dim", "notable": "yellow"}
PLAIN: Final = str.maketrans({NBSP: " ", MINUS: "-"})


def plain(text: str) -> str:
    """Replace no-break spaces and minus signs with ASCII, so that the text can be searched and copied."""
    return text.translate(PLAIN)


@dataclass(frozen=True)
class Layout:
    """Options that make a table in a terminal narrower. `asides_below` puts confidence intervals below their
    numbers, and `split` breaks the intervals into two lines. `short` abbreviates text. `tight` reduces the
    space between columns. `merged` joins all columns of settings except the last into one column. `numbered`
    replaces this column by numbers, which lines below the table explain. `bare` omits minor columns."""

    asides_below: bool = False
    short: bool = False
    tight: bool = False
    merged: bool = False
    numbered: bool = False
    bare: bool = False
    split: bool = False


LAYOUTS: Final = (
    Layout(),
    Layout(asides_below=True),
    Layout(asides_below=True, short=True),
    Layout(asides_below=True, short=True, tight=True),
    Layout(asides_below=True, short=True, merged=True),
    Layout(asides_below=True, short=True, tight=True, merged=True),
    Layout(asides_below=True, short=True, tight=True, numbered=True),
    Layout(asides_below=True, short=True, tight=True, numbered=True, bare=True),
    Layout(asides_below=True, short=True, tight=True, numbered=True, bare=True, split=True),
)
# A column of merged settings is at least this wide, in characters, unless its texts are shorter.
WORDS_MIN: Final = 9
# Footnote numbers replace the columns of settings only if their total width exceeds this, in characters.
COLUMNS_MIN: Final = 8
# If space is short, longer names are broken into several lines.
NAME_MIN: Final = 20


def tabled(grid: Grid, width: int) -> Iterator[RenderableType]:
    """Yield the title, the table and the lines below it, for Rich to print in `width` characters."""
    heading = f"{grid.title}  {grid.subtitle}".strip()
    for line in filled([heading] if heading else [], width, indent="  "):
        line.stylize("bold", 0, len(grid.title))
        yield line
    table, layout = fitting_table(grid, width)
    yield table
    yield from filled(below_table(grid, layout), width, "dim", indent="   ")


def filled(lines: Iterable[str], width: int, style: str = "", indent: str = "") -> Iterator[Text]:
    """Wrap lines to `width` characters, at most PROSE_MAX, but keep numbers with their unit `ms` or `%`."""
    for line in lines:
        whole = line.replace(" %", f"{NBSP}%").replace(" ms", f"{NBSP}ms")
        text = textwrap.fill(whole, min(width, PROSE_MAX), subsequent_indent=indent, break_on_hyphens=False)
        yield Text(plain(text), style=style)


def fits(grid: Grid, width: int) -> bool:
    """Return True if the table fits into `width` characters in the widest layout."""
    return _min_width(_table(grid, LAYOUTS[0])) <= width


def fitting_table(grid: Grid, width: int) -> tuple[Table, Layout]:
    """Return the table in the first of LAYOUTS that fits into `width` characters, and this layout. If none
    fits, return a table wider than `width`, because numbers cut off at the end would be wrong."""
    for layout in LAYOUTS:
        kept = [number for number, column in enumerate(grid.columns) if not column.detail]
        shown = grid.picked(kept) if layout.bare else grid
        if layout.merged or layout.numbered:
            numbers = _numbers(grid) if layout.numbered else {}
            shown = shown if layout.numbered and not numbers else _merged(shown, numbers)
        table = _table(shown, layout)
        if _min_width(table) <= width:
            break
    else:
        table.width = _min_width(table)
    return table, layout


def below_table(grid: Grid, layout: Layout) -> Iterator[str]:
    """Yield the lines to print below a table, such as the settings that the layout replaced by numbers."""
    if layout.numbered:
        yield from (f"{number}: {words}" for words, number in _numbers(grid).items())
    left_out = [plain(column.heading) for column in grid.columns if column.detail] if layout.bare else []
    if left_out:
        yield f"Left out, since the terminal is too narrow: {', '.join(left_out)}."


def _merged_factors(grid: Grid) -> list[int]:
    return [number for number, column in enumerate(grid.columns) if column.kind == "factor"][:-1]


def _words(grid: Grid, row: Sequence[Entry]) -> str:
    return ", ".join(row[number].phrase for number in _merged_factors(grid))


def _numbers(grid: Grid) -> dict[str, int]:
    """Map each row's settings, such as `RTT 20 ms`, to a footnote number; {} if numbers save no width."""
    if sum(_width(grid, number) for number in _merged_factors(grid)) <= COLUMNS_MIN:
        return {}
    distinct = dict.fromkeys(_words(grid, row) for row in grid.rows)
    return {words: number for number, words in enumerate(distinct, 1)}


def _width(grid: Grid, number: int) -> int:
    column = grid.columns[number]
    texts = (*(column.short or column.header).split("\n"), *(row[number].text for row in grid.rows))
    return max(map(len, texts)) + 1


def _min_width(table: Table) -> int:
    pad = table.padding[1]
    columns = 0
    for column in table.columns:
        lines = (line for text in (column.header, *column.cells) for line in str(text).split("\n"))
        columns += max(map(cell_len, lines)) if column.no_wrap else column.min_width or 0
    # Rich's box has a space between columns, in addition to the padding, and a space at each end.
    return columns + (len(table.columns) - 1) * (pad + 1) + 2


def _merged(grid: Grid, numbers: Mapping[str, int]) -> Grid:
    """Return the table with its columns of settings, apart from the last one, merged into one. The cells of
    the new column contain text such as `RTT 20 ms` or, if `numbers` is not empty, a footnote's number."""
    factors = _merged_factors(grid)
    if not factors:
        return grid
    first = factors[0]
    left = grid.picked([number for number in range(len(grid.columns)) if number not in factors])
    words = (_words(grid, row) for row in grid.rows)
    merged = (Entry(str(numbers[one]) if numbers else one) for one in words)
    rows = ((*row[:first], one, *row[first:]) for row, one in zip(left.rows, merged, strict=True))
    columns = (*left.columns[:first], Column("no." if numbers else "", "key"), *left.columns[first:])
    return Grid(grid.title, columns, tuple(rows), grouped=grid.grouped)


def _table(grid: Grid, layout: Layout) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0 if layout.tight else 1, 0, 0),
        pad_edge=False,
        show_edge=bool(grid.title),
    )
    headers = [plain((layout.short and column.short) or column.header) for column in grid.columns]
    lines = max(header.count("\n") for header in headers)
    for number, (column, header) in enumerate(zip(grid.columns, headers, strict=True)):
        texts = [row[number].text for row in grid.rows]
        least = None if header else max(map(_words_width, texts), default=WORDS_MIN)
        if header and layout.tight and column.kind == "key":
            least = min(max(map(len, (*texts, *header.split("\n")))), NAME_MIN)
        if column.wraps:
            longest = max((cell_len(line) for text in texts for line in text.split("\n")), default=0)
            least = min(max(longest, len(header)), NAME_MIN)
        above = "\n" * (lines - header.count("\n")) if column.kind == "key" and header else ""
        table.add_column(
            Text(above + header),
            justify="left" if column.kind in ("key", "words") else "right",
            no_wrap=least is None,
            overflow="fold",
            min_width=least,
        )
    marked = [any(row[number].mark for row in grid.rows) for number in range(len(grid.columns))]
    before = None
    grouped = grid.grouped and len({row[0].text for row in grid.rows}) < len(grid.rows)
    for row, following in zip(grid.rows, [*grid.rows[1:], None], strict=True):
        entries = list(row)
        if grid.grouped and before == row[0]:
            entries[0] = Entry("")
        before = row[0]
        table.add_row(
            *(_text(one, layout, marked=has) for one, has in zip(entries, marked, strict=True)),
            end_section=grouped and following is not None and following[0] != row[0],
        )
    return table


def _words_width(words: str) -> int:
    """Return the width in characters of the narrowest column in which `words` takes at most two lines."""
    longest = max(map(len, words.split()), default=0)
    whole = len(words)
    widths = range(max(WORDS_MIN, longest, whole // 2), whole + 1)
    return next((width for width in widths if len(textwrap.wrap(words, width)) <= 2), whole)


def _text(entry: Entry, layout: Layout, *, marked: bool) -> Text:
    text = entry.short if layout.short and entry.short else entry.text
    text += entry.mark or (" " if marked else "")
    if entry.aside:
        aside = entry.aside.replace(f",{NBSP}", ",\n ") if layout.split else entry.aside
        text += ("\n" if layout.asides_below else " ") + aside
    return Text(plain(text), style=STYLES[entry.tone])
