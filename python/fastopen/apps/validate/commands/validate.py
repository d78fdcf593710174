"""Define `fastopen validate`: compare loads with recordings, and across engines, clients and networks."""

from typing import Final

import typer

from fastopen.apps.validate.bodies import bodies
from fastopen.apps.validate.clients import clients
from fastopen.apps.validate.engines import engines
from fastopen.apps.validate.replays import RECORDINGS, RecordingsByDefault, recordings
from fastopen.apps.validate.transfer import transfer

PANEL: Final = "Trust"

command = typer.Typer(
    cls=RecordingsByDefault,
    no_args_is_help=True,
    help="Compare fastopen with recorded page loads (validate FILE.har...) and with itself.",
)
command.command(RECORDINGS)(recordings)
command.command()(engines)
command.command()(clients)
command.command()(bodies)
command.command()(transfer)
