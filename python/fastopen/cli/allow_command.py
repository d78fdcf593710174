"""Define `--allow-command`: show the commands that a file names, and run them only if the user allows it."""

import shlex
import sys
from typing import Annotated

from typer import Option, confirm

from fastopen.cli.output import print_message
from fastopen.common.errors import InputError
from fastopen.contract import Client
from fastopen.experiments import Experiment, clients_of

AllowCommandOption = Annotated[
    bool, Option("--allow-command", help="Run the commands that the file names without a question.")
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
    if not confirm("Run it?", err=True):
        raise InputError(f"its command {shown} was not allowed", place, remedy)


def foreign_commands(experiment: Experiment) -> list[str]:
    """Return the command lines of clients and servers that an experiment would execute, so that the user can
    check them first. Leave out commands that fastopen itself generates for clients that it knows."""
    clients = (setup.client for setup in experiment.setups)
    lines = [client.command for client in clients if client.command and not _is_own(client)]
    lines += [setup.origins.server for setup in experiment.setups if setup.origins.server]
    return list(dict.fromkeys(map(shlex.join, lines)))


def _is_own(client: Client) -> bool:
    """Return True if fastopen itself generates the client's command from the client's name and settings."""
    settings = {"kind": client.name, **client.model_dump(include={"connections_per_host", "keep_alive"})}
    try:
        return clients_of(settings)[0].command == client.command
    except ValueError:
        return False
