"""Write the tables of a run for a paper, as LaTeX with booktabs."""

import re
from collections.abc import Iterable
from typing import Final

from fastopen.common.errors import one_line
from fastopen.common.grid import Grid

_ESCAPES: Final = {
    **{letter: f"\\{letter}" for letter in "{}$&#%_"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "[": r"{[}",
    "]": r"{]}",
    "\N{MINUS SIGN}": r"$-$",
    "\N{DAGGER}": r"\textdagger{}",
    "\N{NO-BREAK SPACE}": "~",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
}


def escaped(text: str) -> str:
    """Escape the text so that LaTeX prints it unchanged. Unprintable characters become spaces."""
    return "".join(_ESCAPES.get(letter, letter if letter.isprintable() else " ") for letter in text)


def latex(grids: Iterable[Grid], preamble: Iterable[str] = (), name: str = "fastopen") -> str:
    """Return LaTeX with a `table` environment for each table. It needs the packages booktabs and textcomp.

    `preamble` contains lines to write as comments at the top. The label of a table is `tab:`, `name` and the
    table's title, such as `tab:run-evidence-of-each-cell`."""
    comments = ("Needs \\usepackage{booktabs,textcomp}.", *preamble)
    # A line break would end a comment.
    lines = (one_line(text, len(text)) for text in comments)
    return "\n".join([*(f"% {line}" for line in lines), *(_table(grid, name) for grid in grids)])


def _table(grid: Grid, name: str) -> str:
    columns = "".join("r" if column.kind == "figure" else "l" for column in grid.columns)
    caption = ". ".join(escaped(text) for text in (grid.title, grid.subtitle, grid.note) if text)
    return "\n".join(
        [
            "",
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{caption}}}",
            rf"  \label{{tab:{_slug(name)}-{_slug(grid.title)}}}",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            f"    {_row(column.heading for column in grid.columns)}",
            r"    \midrule",
            *(f"    {_row(str(cell) for cell in row)}" for row in grid.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _slug(text: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:60] or "x"


def _row(cells: Iterable[str]) -> str:
    return " & ".join(escaped(cell) for cell in cells) + r" \\"
