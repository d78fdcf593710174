"""Define `fastopen rm`: remove runs that are kept on disk."""

from typing import Annotated, Final

from typer import Argument

from fastopen.cli.commands.ls import shown_size
from fastopen.cli.output import print_line
from fastopen.common.errors import InputError, collected, raise_all
from fastopen.runs import LAST, find_run, remove_run, run_argument

PANEL: Final = "Runs"


def command(runs: Annotated[list[str], Argument(metavar="RUN...", help="Folders or names of runs.")]) -> None:
    """Remove kept runs, with their exports and reports."""
    problems: list[InputError] = []
    for run in runs:
        with collected(problems):
            folder = find_run(run)
            if run == LAST != folder.name:  # repeating the command would remove another run
                raise InputError("rm needs the run's name", run, f"fastopen rm {run_argument(folder)}")
            print_line(f"removed {folder}, {shown_size(remove_run(folder))}")
    raise_all(problems)
