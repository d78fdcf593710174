"""Define `fastopen report`: write a report of a run in HTML or Markdown, or its tables in LaTeX or CSV."""

from pathlib import Path
from typing import Annotated, Final, Literal

from typer import Option

from fastopen.cli.output import print_message, print_text
from fastopen.cli.shared_options import RunArgument
from fastopen.common.files import write_file
from fastopen.runs import RunStore, find_run
from fastopen.runs.folders import REPORT

PANEL: Final = "Read a result"

Form = Literal["html", "markdown", "latex", "csv"]
ReportOption = Annotated[bool, Option("--report", help="Write report.html into the run's folder.")]


def command(
    run: RunArgument = "last",
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="HTML file to write. (default: report.html in the run's folder)",
        ),
    ] = None,
    form: Annotated[
        Form, Option("--format", "-f", help="Format; all but html go to standard output.")
    ] = "html",
) -> None:
    """Write a report of a kept run: verdict, tables, figures, answers, evidence and method."""
    folder = find_run(run)
    with RunStore.open(folder) as store:
        text = report_text(store, form)
    if output is None and form != "html":
        print_text(text)
        return
    _write(text, output or folder / REPORT)


def announce_report(store: RunStore) -> None:
    """Write a run's HTML report into its folder and print the path, or print that the run is not kept."""
    if store.folder is None:
        print_message("no report, since the run is not kept")
        return
    _write(report_text(store, "html"), store.folder / REPORT)


def _write(text: str, path: Path) -> None:
    write_file(path, text)
    print_message(f"report: {path}")


def report_text(store: RunStore, form: Form) -> str:
    # Altair and Vega take a second to import. No other command should wait for them.
    from fastopen.analysis.attribution import analyse_run
    from fastopen.report.csv_sheet import csv_text
    from fastopen.report.latex import latex
    from fastopen.report.markdown import markdown
    from fastopen.report.page import html
    from fastopen.report.result_tables import all_grids, cells_grid

    analysis = analyse_run(store)
    if form == "html":
        return html(analysis)
    if form == "markdown":
        return markdown(analysis)
    if form == "csv":
        return csv_text(cells_grid(analysis))
    experiment = analysis.results.experiment
    return latex(all_grids(analysis, for_paper=True), filter(None, [experiment.title]), experiment.name)
