"""Define `fastopen ls`: list the runs that are kept on disk."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from rich.text import Text
from typer import Argument

from fastopen.cli.output import console, print_grid, print_json, print_line
from fastopen.cli.shared_options import JsonOption
from fastopen.common import units
from fastopen.common.errors import InputError
from fastopen.common.grid import Entry, Grid, Tone, figures, keys, listing
from fastopen.common.terminal import STYLES, fits
from fastopen.runs import RunSummary, list_runs, runs_folder

PANEL: Final = "Runs"

TONES: Final[dict[str, Tone]] = {"finished": "good", "running": "quiet"}


def command(
    folder: Annotated[
        Path | None, Argument(metavar="DIR", help="A folder with runs in it. (default: your runs)")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List kept runs, oldest first."""
    place = folder or runs_folder()
    if folder is not None and not folder.is_dir():
        raise InputError("no such folder", str(folder), "give a folder of runs, or leave it out")
    runs = list_runs(place)
    if json:
        documents = [{**asdict(run), "folder": str(run.folder), "name": run.folder.name} for run in runs]
        print_json({"folder": str(place), "runs": documents})
        return
    if not runs:
        print_line(f"no runs in {place}")
        return
    target, grid = console(), _grid(runs)
    if fits(grid, target.width):
        print_grid(grid)
    else:
        for run in runs:
            target.print(_lines(run, target.width))
    print_line(f"{shown_size(sum(run.bytes for run in runs))} in {place}", "dim")


def _grid(runs: Sequence[RunSummary]) -> Grid:
    columns = (
        *keys("run", "started", "status"),
        *figures("loads"),
        *keys("pages", "RTT", "client", "varying"),
        *figures("size"),
    )
    rows = []
    for run in runs:
        started = datetime.fromisoformat(run.started).astimezone() if run.started else None
        rows.append(
            (
                run.folder.name + (f"\n{run.label}" if run.label else ""),
                f"{started:%Y-%m-%d %H:%M}" if started else "",
                Entry(run.status, TONES.get(run.status, "notable")),
                f"{run.loads_done}/{run.loads_asked}" if started else "",
                *(*_conditions(run), "; ".join(run.varying), shown_size(run.bytes)),
            )
        )
    return listing(columns, rows)


def _lines(run: RunSummary, width: int) -> Text:
    """Return a run's entry in the list as several lines, for a narrow terminal."""
    loads = f"{run.loads_done}/{run.loads_asked} loads" if run.started else ""
    first = "  ".join(filter(None, (run.folder.name, run.label)))
    status = Text(run.status, style=STYLES[TONES.get(run.status, "notable")])
    facts = (*_conditions(run), *run.varying, loads, shown_size(run.bytes))
    second = "; ".join(filter(None, facts))
    indented = textwrap.fill(second, width, initial_indent="  ", subsequent_indent="    ")
    return Text.assemble((first, "bold"), "  ", status, "\n", indented)


def _conditions(run: RunSummary) -> tuple[str, str, str]:
    more = len(run.pages) - 2
    pages = ", ".join(run.pages[:2]) + (f" and {more} more" if more > 0 else "")
    return pages, run.networks, ", ".join([*run.clients, *run.engines])


def shown_size(size: int) -> str:
    """Format a size in bytes, rounded up to two significant digits or, below 10 kB, to a whole kilobyte."""
    step = max(1000, int(10 ** (len(str(size)) - 2)))
    return units.format_bytes(-(-size // step) * step)
