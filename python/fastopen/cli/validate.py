"""`fastopen validate`: fastopen against recorded page loads, and against itself."""

import typer

from fastopen.cli.validate_bodies import bodies
from fastopen.cli.validate_clients import clients
from fastopen.cli.validate_engines import engines
from fastopen.cli.validate_replays import RECORDINGS, RecordingsByDefault, recordings
from fastopen.cli.validate_transfer import transfer

app = typer.Typer(
    cls=RecordingsByDefault,
    no_args_is_help=True,
    help="Hold fastopen against recorded page loads (validate FILE.har...) and against itself.",
)
app.command(RECORDINGS)(recordings)
app.command()(engines)
app.command()(clients)
app.command()(bodies)
app.command()(transfer)
