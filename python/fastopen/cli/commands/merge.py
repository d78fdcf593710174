"""Define `fastopen merge`: merge the shards of an experiment into one run."""

from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Option

from fastopen.analysis.statistics import collect
from fastopen.cli.output import exit_if, print_message
from fastopen.cli.running import Printing, print_run
from fastopen.cli.shared_options import JsonOption, QuietOption
from fastopen.common.errors import InputError
from fastopen.runs import RunStore, find_run, merge, new_run_folder, run_argument, run_folders

PANEL: Final = "Runs"


def command(
    folders: Annotated[
        list[str], Argument(metavar="DIR...", help="Folders of shards, or folders with shards in them.")
    ],
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="RUN", help="A new folder for the run. (default: among your runs)"),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Merge the shards of an experiment into one run, and print its results.

    Missing loads are listed; `fastopen resume` completes them. The shards stay unchanged."""
    found: dict[Path, Path] = {}  # the shards without duplicates, keyed by resolved path
    for text in folders:
        place = find_run(text)
        runs = run_folders(place)
        if not runs:
            remedy = "pass the folders that fastopen run --shard wrote"
            raise InputError("contains no run", str(place), remedy)
        found.update({run.resolve(): run for run in runs})
    parts = [*found.values()]
    with RunStore.open(parts[0]) as first:
        folder = output or new_run_folder(first.experiment().name)
    merged = merge(parts, folder)
    with RunStore.open(folder) as run:
        results = collect(run)
        print_run(run, results, Printing(json=json, quiet=quiet))
    for line in merged.duplicates:
        print_message(f"in several runs, taken from one: {line}")
    for line in merged.missing:
        print_message(f"missing: {line}")
    remedy = f"; the rest: fastopen resume {run_argument(folder)}" if merged.missing else ""
    if not quiet or remedy:
        print_message(f"{merged.done:,} of {merged.loads:,} loads are in {folder}{remedy}")
    exit_if(merged.missing or any(cell.without_valid for cell in results.cells))
