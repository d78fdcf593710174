"""The commands of `fastopen` put together, and how errors leave the program."""

from importlib import metadata
from typing import Annotated

import typer

app = typer.Typer(name="fastopen", no_args_is_help=True)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fastopen {metadata.version('fastopen')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Measures what TCP Fast Open does to page load time, on the real Linux TCP stack."""


def main() -> None:
    """Run the command line; the entry point of the installed program."""
    app()
