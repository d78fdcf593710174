"""`fastopen export`: a kept run in the forms that other programs read."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from fastopen.cli.output import console, errors_console
from fastopen.runs import RunStore, find_run
from fastopen.runs.export import Format
from fastopen.runs.export import export as export_run


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, its name, or last.")] = "last",
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            help="Tables as parquet or csv; har: a file for each load, for browsers; png: its screenshot.",
        ),
    ] = "parquet",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="A new folder. (default: RUN/FORMAT)"),
    ] = None,
    job: Annotated[
        str | None, typer.Option(help="Only the loads of this job, as faults and tables name it.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an export that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Write loads, requests, connections and their evidence; also of a run that is not finished."""
    folder = find_run(run)
    place = output or folder / form
    progress = Progress(
        *Progress.get_default_columns(),
        console=errors_console(),
        transient=True,
        disable=quiet or not errors_console().is_terminal,
    )
    with RunStore.open(folder) as store, progress:
        task = progress.add_task("exporting", total=store.attempts_done())
        count = export_run(
            *(store, place, form),
            job=job,
            replace=force,
            watch=lambda done: progress.update(task, completed=done),
        )
    loads = "1 load" if count == 1 else f"{count:,} loads"
    console().print(f"{loads} in {place}", markup=False, soft_wrap=True)
