"""Define `fastopen show`: print the results of an earlier run, as tables, as JSON or as a picture."""

import io
import re
from pathlib import Path
from typing import Annotated, Final

from rich.console import Console
from typer import Option

from fastopen.analysis.attribution import with_reasons
from fastopen.analysis.statistics import Results, collect
from fastopen.cli.output import PLAIN_WIDTH, console, print_json, print_message
from fastopen.cli.shared_options import JsonOption, PlotOption, RunArgument, check_plot
from fastopen.common.files import write_file
from fastopen.report import results_document, results_renderables
from fastopen.report.terminal_bars import bars
from fastopen.runs import LAST, RunStore, find_run

PANEL: Final = "Read a result"

# Matches rules by which Rich's SVG loads fonts from the network. Without them, viewers use their own fonts.
FONTS: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def command(
    run: RunArgument = "last",
    json: JsonOption = False,
    svg: Annotated[Path | None, Option(help="Write the table into this file as a picture.")] = None,
    plot: PlotOption = False,
) -> None:
    """Print a kept run again."""
    check_plot(plot=plot, json=json)
    folder = find_run(run)
    if run == LAST:
        print_message(f"last run: {folder}")
    with RunStore.open(folder) as store:
        if store.shard is not None:
            print_message(f"only shard {store.shard}; loads of other shards are missing (fastopen merge)")
        results = collect(store) if json else with_reasons(store, collect(store))
    if svg is not None:
        write_svg(results, svg, plot=plot)
    if json:
        run_facts = {"folder": str(store.folder), "environment": results.environment}
        print_json({**results_document(results), "run": run_facts})
    elif svg is None:
        print_results(results, console(), plot=plot)


def print_results(results: Results, target: Console, *, plot: bool = False) -> None:
    """Print the tables and sentences of a run's results and, with `plot`, bars of page load times."""
    for renderable in results_renderables(results, target.width):
        target.print(renderable)
    if plot:
        for line in bars(results, target.width, target.encoding):
            target.print(line, no_wrap=True, overflow="ignore", crop=False)


def write_svg(results: Results, path: Path, *, plot: bool = False) -> None:
    """Write the results as an SVG picture of a terminal. Raises InputError or MachineError on failure."""
    recorder = Console(
        record=True, width=PLAIN_WIDTH, file=io.StringIO(), force_terminal=True, highlight=False, emoji=False
    )
    print_results(results, recorder, plot=plot)
    svg = recorder.export_svg(title=f"fastopen {results.experiment.name}")
    write_file(path, FONTS.sub("", svg))
