"""Define `fastopen resume`: finish a run that was interrupted or killed."""

from typing import Annotated, Final

from typer import Argument, Option

from fastopen.cli.allow_command import AllowCommandOption, check_commands
from fastopen.cli.running import Printing, on_workers, resume_and_print
from fastopen.cli.shared_options import (
    JobsOption,
    JsonOption,
    KeepGoingOption,
    QuietOption,
    RunArgument,
    StoreOption,
    WorkersOption,
)
from fastopen.runs import RunStore, find_run
from fastopen.workflows.run import RunOptions

PANEL: Final = "Runs"


def command(
    run: RunArgument = "last",
    inputs: Annotated[
        list[str] | None,
        Argument(metavar="INPUT...", help="New place of the run's recorded bodies, if they moved."),
    ] = None,
    kernel: Annotated[
        str | None, Option(metavar="NAME", help="Kernel of the virtual engine instead of the run's own.")
    ] = None,
    allow_command: AllowCommandOption = False,
    keep_going: KeepGoingOption = False,
    jobs: JobsOption = None,
    store: StoreOption = None,
    workers: WorkersOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Finish an interrupted run with its own options, or print a finished one."""
    folder = find_run(run)
    with RunStore.open(folder) as kept:
        finished = kept.status == "finished" and not kept.pending()
        check_commands(kept.experiment(), str(folder), allowed=allow_command or finished)
    options = RunOptions(
        output=folder, kernel=kernel, jobs=jobs, inputs=inputs or (), keep_going=keep_going, store=store
    )
    with on_workers(options, workers) as placed:
        resume_and_print(folder, placed, Printing(json=json, quiet=quiet))
