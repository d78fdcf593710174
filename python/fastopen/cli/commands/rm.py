"""Define `fastopen rm`: remove runs that are kept on disk."""

from typing import Annotated, Final

from typer import Argument

from fastopen.cli.commands.ls import shown_size
from fastopen.cli.output import print_line
from fastopen.common.errors import InputError, collected, raise_all
from fastopen.runs import find_run, remove_run

PANEL: Final = "Runs"


def command(runs: Annotated[list[str], Argument(metavar="RUN...", help="Folders or names of runs.")]) -> None:
    """Remove kept runs, with their exports and reports."""
    problems: list[InputError] = []
    for run in runs:
        with collected(problems):
            folder = find_run(run)
            print_line(f"removed {folder}, {shown_size(remove_run(folder))}")
    raise_all(problems)
