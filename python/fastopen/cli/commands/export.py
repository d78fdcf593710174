"""Define `fastopen export`: convert a stored run to the formats of other programs."""

from functools import partial
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from fastopen.cli.allow_command import AllowCommandOption, check_commands
from fastopen.cli.output import errors_console, print_line, print_message
from fastopen.cli.progress import LiveBar
from fastopen.cli.shared_options import JobsOption, QuietOption, RunArgument
from fastopen.runs import RunStore, find_run
from fastopen.runs.export import export as export_run
from fastopen.runs.export.folder import ExportFormat
from fastopen.runs.rows import kept_packets
from fastopen.workflows.export_packets import export_packets

PANEL: Final = "Read a result"


def command(
    run: RunArgument = "last",
    form: Annotated[
        ExportFormat,
        Option(
            "--format",
            "-f",
            help="Tables as parquet or csv; for each load a har, a png (screenshot) or a pcap (packets);"
            " or filmstrip: pictures of the median loads over time, without TFO and with.",
        ),
    ] = "parquet",
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="DIR", help="A new folder. (default: RUN/FORMAT)")
    ] = None,
    job: Annotated[
        str | None, Option(help="Export only the loads of this job, by its name in loads.csv.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace an existing export.")] = False,
    allow_command: AllowCommandOption = False,
    jobs: JobsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Export a run, finished or not, as tables, HARs, pictures or packets."""
    folder = find_run(run)
    place = output or folder / form
    screen = errors_console()
    with RunStore.open(folder) as store, LiveBar(screen, quiet or not screen.is_terminal) as bar:
        watch = partial(bar.update, "exporting", total=store.attempts_done())
        if form == "pcap":
            if any(kept_packets(folder, one.number, one.job, one.load) is None for one in store.loads()):
                check_commands(store.experiment(), str(folder), allowed=allow_command)
            exported = export_packets(folder, place, job=job, replace_export=force, jobs=jobs, watch=watch)
            count, missing = exported.written, exported.missing
        elif form == "filmstrip":
            from fastopen.analysis.attribution import analyse_run
            from fastopen.report.figures.filmstrip import export_filmstrips

            count = export_filmstrips(analyse_run(store), folder, place, replace=force, watch=watch)
            missing = {}
        else:
            count, missing = export_run(store, place, form, job=job, replace=force, watch=watch), {}
    for why, without in missing.items():
        print_message(f"{without:,} loads have no packets: {why}")
    what = "comparison" if form == "filmstrip" else "load"
    print_line(f"{count:,} {what}{'' if count == 1 else 's'} in {place}")
