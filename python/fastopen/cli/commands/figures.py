"""Define `fastopen figures`: write all figures of a stored run to files."""

from pathlib import Path
from typing import Annotated, Final

from typer import Option

from fastopen.cli.output import print_line
from fastopen.cli.shared_options import RunArgument
from fastopen.common.errors import InputError, any_of
from fastopen.runs import RunStore, find_run, run_argument

PANEL: Final = "Read a result"


def command(
    run: RunArgument = "last",
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Folder of the files.")] = Path(
        "figures"
    ),
    formats: Annotated[str, Option("--format", "-f", help="Formats: svg, png, pdf.")] = "svg,png,pdf",
    loads: Annotated[bool, Option("--loads/--no-loads", help="Write figures of single loads, too.")] = True,
) -> None:
    """Write the figures of a kept run, for papers, slides and the web."""
    # Altair takes half a second to import. No other command should wait for it.
    from fastopen.analysis.attribution import analyse_run
    from fastopen.report.figures import FORMATS, load_figures, overview_figures, write_figures

    asked = [part.strip().lower() for part in formats.split(",")]
    if unknown := [name for name in asked if name not in FORMATS]:
        raise InputError(f"unknown format {unknown[0]!r}", "--format", f"use {any_of(FORMATS)}")
    folder = find_run(run)
    with RunStore.open(folder) as store:
        analysis = analyse_run(store)
    made = [*overview_figures(analysis), *(load_figures(analysis) if loads else ())]
    if not made:
        remedy = f"run fastopen show {run_argument(folder)} for the reasons"
        raise InputError("has no valid load to draw", str(folder), remedy)
    written = write_figures(made, output, [form for form in FORMATS if form in asked])
    print_line(f"{len(written)} files in {output}")
