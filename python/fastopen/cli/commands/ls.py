"""`fastopen ls`: list the kept runs."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fastopen.cli.output import console, print_json
from fastopen.cli.shared_options import JsonOption
from fastopen.common import units
from fastopen.runs import RunSummary, list_runs, runs_folder

PANEL: Final = "Runs"

STYLES: Final = {"finished": "green", "running": "cyan"}
# Wider than any table: tells how wide one would be.
MEASURED: Final = 10_000


def command(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A folder with runs in it. (default: your runs)")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List kept runs, oldest first."""
    place = folder or runs_folder()
    runs = list(list_runs(place))
    if json:
        print_json({"folder": str(place), "runs": [_document(run) for run in runs]})
        return
    if not runs:
        console().print(f"no runs in {place}", markup=False, soft_wrap=True)
        return
    target, table = console(), _table(runs)
    if Measurement.get(target, target.options.update(width=MEASURED), table).maximum > target.width:
        for run in runs:
            target.print(_lines(run, target.width))
    else:
        target.print(table)
    total = shown_size(sum(run.bytes for run in runs))
    console().print(Text(f"{total} in {place}", style="dim"), soft_wrap=True)


def _document(run: RunSummary) -> dict[str, Any]:
    return {**asdict(run), "folder": str(run.folder), "name": run.folder.name}


def _table(runs: Sequence[RunSummary]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("run", "started", "status", "loads", "pages", "RTT", "client", "varying", "size"):
        right = heading in ("loads", "size")
        whole = heading in ("started", "loads", "size")
        table.add_column(
            heading, justify="right" if right else "left", overflow="fold", no_wrap=whole, min_width=6
        )
    for run in runs:
        known = bool(run.started)
        table.add_row(
            Text(run.folder.name + (f"\n{run.label}" if run.label else "")),
            datetime.fromisoformat(run.started).astimezone().strftime("%Y-%m-%d %H:%M") if known else "",
            Text(run.status, style=STYLES.get(run.status, "yellow")),
            f"{run.loads_done}/{run.loads_asked}" if known else "",
            Text(_pages(run.pages)),
            run.networks,
            ", ".join([*run.clients, *run.engines]),
            Text("; ".join(run.varying)),
            shown_size(run.bytes),
        )
    return table


def _lines(run: RunSummary, width: int) -> Text:
    """The same in lines of their own, where the table does not fit."""
    facts = (_pages(run.pages), run.networks, ", ".join([*run.clients, *run.engines]), *run.varying)
    loads = f"{run.loads_done}/{run.loads_asked} loads" if run.started else ""
    size = shown_size(run.bytes)
    first = "  ".join(filter(None, (run.folder.name, run.label)))
    status = Text(run.status, style=STYLES.get(run.status, "yellow"))
    second = "; ".join(filter(None, (*facts, loads, size)))
    indented = textwrap.fill(second, width, initial_indent="  ", subsequent_indent="    ")
    return Text.assemble((first, "bold"), "  ", status, "\n", indented)


def _pages(names: Sequence[str]) -> str:
    more = len(names) - 2
    return ", ".join(names[:2]) + (f" and {more} more" if more > 0 else "")


def shown_size(size: int) -> str:
    """Return a size to two digits, and full kilobytes, since the exact size does not matter."""
    step = max(1000, int(10 ** (len(str(size)) - 2)))
    return units.format_bytes(-(-size // step) * step)
