"""Define `fastopen audit`: find impossible or contradictory figures in published page load times."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from rich.console import RenderableType
from rich.text import Text
from typer import Argument, Option

from fastopen.analysis.audit import QUESTIONS, AuditFinding, PrintedCell, audit, read_table
from fastopen.analysis.audit.kinds import MEANING
from fastopen.cli.output import console, print_json, print_message
from fastopen.common.grid import Column, figures, keys, listing
from fastopen.common.grouping import grouped
from fastopen.common.terminal import tabled

ALL_CELLS: Final = "all cells"
PANEL: Final = "Trust"


def command(
    file: Annotated[
        Path,
        Argument(
            metavar="TABLE.csv",
            help="A table in the form of experiments/published.csv, or the output of fastopen report -f csv.",
        ),
    ],
    json: Annotated[bool, Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Find impossible or contradictory figures in a table of published page load times."""
    table = read_table(file)
    findings = audit(table.cells)
    if table.ignored:
        print_message(f"columns not checked: {', '.join(table.ignored)}")
    if json:
        print_json({"findings": [finding.as_json() for finding in findings]})
    else:
        screen = console()
        for renderable in _renderables(table.cells, findings, screen.width):
            screen.print(renderable)


def _renderables(
    cells: Sequence[PrintedCell], findings: Sequence[AuditFinding], width: int
) -> Iterator[RenderableType]:
    """Yield terminal output: the findings about rows of a published table, then their counts by kind."""
    of_cell = grouped((finding.cell, finding) for finding in findings)
    for experiment, size in Counter(cell.experiment for cell in cells).items():
        found = {cell: ones for cell, ones in of_cell.items() if cell.experiment == experiment}
        found_text = f"{len(found)} of {size} cells" if found else "nothing found"
        units = [one for ones in found.values() for one in ones if one.kind == "units"]
        of_all = len(units) == size
        rows = [(ALL_CELLS, "units", units[0].detail)] if of_all else []
        rows += [
            (_place(cell), one.kind, one.detail)
            for cell, ones in found.items()
            for one in ones
            if not (of_all and one.kind == "units")
        ]
        columns = (Column("cell", "key", wraps=True), *keys("kind"), Column("finding", "words", wraps=True))
        grid = replace(listing(columns, rows, experiment), subtitle=found_text, grouped=True)
        yield from tabled(grid, width) if rows else [Text(f"{experiment}  {found_text}")]
        yield Text()
    if findings:
        kinds = Counter(finding.kind for finding in findings)
        columns = (*keys("kind"), *figures("findings"), Column("meaning", "words", wraps=True))
        counted = ((kind, str(count), MEANING[kind]) for kind, count in kinds.items())
        yield from tabled(listing(columns, counted), width)
        yield Text()
    if medians := sum(cell.improvement is not None and not cell.improvement_is_computed for cell in cells):
        words = f"{medians} improvements are medians over pairs of loads, which the two times do not give."
        yield Text(words)
    struck = {finding.cell.line for finding in findings if finding.kind not in QUESTIONS}
    yield Text(f"{len(struck)} of {len(cells)} cells are impossible or inconsistent.", style="bold")
    if asked := len({finding.cell.line for finding in findings} - struck):
        words = "other cell raises a question" if asked == 1 else "other cells raise a question"
        yield Text(f"{asked} {words}.", style="bold")


def _place(cell: PrintedCell) -> str:
    rate = "" if cell.down_mbit is None else f", {cell.down_mbit} Mbit/s"
    return f"{cell.page}, RTT {cell.rtt_ms} ms{rate} (line {cell.line})"
