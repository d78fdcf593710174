"""Define `--allow-command`: show the commands that a file names, and run them only if the user allows it."""

import sys
from typing import Annotated

import typer

from fastopen.cli.output import print_message
from fastopen.common.errors import InputError
from fastopen.experiments import Experiment
from fastopen.workflows.foreign_commands import foreign_commands

AllowCommandOption = Annotated[
    bool,
    typer.Option("--allow-command", help="Run the commands that the file names without a question."),
]


def check_commands(experiment: Experiment, place: str, *, allowed: bool) -> None:
    """Ask the user for permission to run the experiment's client and server commands, unless `allowed`.

    `place` is the file or run that names the commands. Raises InputError if the user refuses, or if standard
    input or standard error is not a terminal."""
    commands = [] if allowed else foreign_commands(experiment)
    if not commands:
        return
    shown = "; ".join(commands)
    remedy = "if you trust it, add --allow-command"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(f"would run the command {shown}", place, remedy)
    print_message(f"{place} runs this command:\n  {shown}")
    if not typer.confirm("Run it?", err=True):
        raise InputError(f"its command {shown} was not allowed", place, remedy)
