"""Draw page load times in a terminal: a bar of braille dots for each result, with a mark for each load."""

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from fastopen.analysis.statistics import CellResult, Results
from fastopen.common.phrases import time, with_sign
from fastopen.common.terminal import plain

# The braille character without dots. Its lowest eight bits set the dots 1 to 8 (Unicode 17, section 21.1).
BLANK: Final = 0x2800
# A bar uses the second row of dots from below, here in the left and the right half of a character.
BAR: Final = (0x04, 0x20)
# The mark of a load is a column of four dots, here in the left and the right half of a character.
LOAD: Final = (0x47, 0xB8)
WIDTH_MIN: Final = 16
# The characters for the bar and for a load, if the encoding has no braille.
PLAIN: Final = "-|"


def bars(results: Results, width: int, encoding: str = "utf-8") -> Iterator[Text]:
    """Yield the lines of a bar chart of median page load times, for a terminal of `width` columns that uses
    `encoding`. Each page with valid loads has a heading, and a bar for each network, setting and arm."""
    for page in results.pages:
        rows = results.comparisons(page)
        cells = [(results.factors.name(row), cell) for row, arms in rows.items() for cell in arms.values()]
        longest_ms = max((max(cell.plts_ms.values(), default=0.0) for _, cell in cells), default=0.0)
        if not longest_ms:
            continue
        yield Text(f"{page}: page load time", style="bold")
        named = min(max(len(name) for name, _ in cells), width // 3)
        labelled = max(len(cell.cell.arm.short_label) for _, cell in cells)
        figured = max(len(_figure(cell)) for _, cell in cells)
        room = max(WIDTH_MIN, width - named - labelled - figured - 3)
        before = ""
        for name, cell in cells:
            shown = "" if name == before else name[:named]
            before = name
            arm = cell.cell.arm
            yield Text.assemble(
                f"{shown:>{named}} {arm.short_label:<{labelled}} ",
                (bar(cell, longest_ms, room, encoding), arm.colour),
                f" {_figure(cell):>{figured}}",
            )


def _figure(cell: CellResult) -> str:
    if cell.plt_ms_median is None:
        return "-"
    saved = "" if cell.improvement_percent is None else f"  {with_sign(cell.improvement_percent):>5} %"
    return plain(f"{time(cell.plt_ms_median)}{saved or ' ' * 9}")


def bar(cell: CellResult, longest_ms: float, room: int, encoding: str) -> str:
    """Return a bar as text, from 0 to the median page load time, with a mark for each load. A bar for
    `longest_ms` is `room` characters long. If `encoding` has no braille characters, the bar is in ASCII."""
    columns = 2 * room
    dots = [0] * room
    median = cell.plt_ms_median or 0.0
    for column in range(round(columns * median / longest_ms)):
        dots[column // 2] |= BAR[column % 2]
    for plt_ms in cell.plts_ms.values():
        column = min(columns - 1, max(0, round(columns * plt_ms / longest_ms) - 1))
        dots[column // 2] |= LOAD[column % 2]
    text = "".join(chr(BLANK + dot) for dot in dots)
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        loads = LOAD[0] & ~BAR[0] | LOAD[1] & ~BAR[1]
        return "".join(" " if not dot else PLAIN[bool(dot & loads)] for dot in dots)
    return text
