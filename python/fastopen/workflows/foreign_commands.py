"""List the commands that an experiment, which may come from a stranger, would execute on this machine."""

import shlex

from fastopen.contract import Client
from fastopen.experiments import Experiment, clients_of


def foreign_commands(experiment: Experiment) -> list[str]:
    """Return the command lines of clients and servers that an experiment would execute, so that the user can
    check them first. Leave out commands that fastopen itself generates for clients that it knows."""
    clients = (setup.client for setup in experiment.setups)
    lines = [client.command for client in clients if client.command and not _is_own(client)]
    lines += [setup.origins.server for setup in experiment.setups if setup.origins.server]
    return list(dict.fromkeys(map(shlex.join, lines)))


def _is_own(client: Client) -> bool:
    """Return True if fastopen itself generates this command for the client's name and settings."""
    settings = {"kind": client.name, **client.model_dump(include={"connections_per_host", "keep_alive"})}
    try:
        return clients_of(settings)[0].command == client.command
    except ValueError:
        return False
