"""`fastopen reproduce`: run a named experiment and print it next to the published figures."""

from typing import Annotated, Any, Final

import typer

from fastopen.cli.allow_command import AllowCommandOption, check_commands
from fastopen.cli.catalogue import list_experiments
from fastopen.cli.check_expected import check_expected
from fastopen.cli.explain import explain_rigs
from fastopen.cli.options import NAMED_CLIENTS, changed, engines_asked, other_clients
from fastopen.cli.reading import Reading
from fastopen.cli.run_settings import RunSettings
from fastopen.cli.shared_options import with_settings
from fastopen.common.errors import InputError
from fastopen.experiments import load_experiment

PANEL: Final = "Measure"


@with_settings
def command(
    name: Annotated[str | None, typer.Argument(help="A packaged experiment, or a TOML file.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the packaged experiments.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Instead of the experiment's.")] = None,
    client: Annotated[
        str | None,
        typer.Option(help=f"Instead of the experiment's: of {', '.join(NAMED_CLIENTS)}, with commas."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Instead of the experiment's: auto, or of host and virtual.")
    ] = None,
    allow_command: AllowCommandOption = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Search the rigs that the experiment's file declares for the one that gives the published"
            " figures, in virtual time; --report writes NAME-explained.html into the folder of -o, or here.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Load it once in virtual time and compare with the expected table, to the digit."
        ),
    ] = False,
    *,
    settings: RunSettings,
) -> None:
    """Run a named experiment and print it next to the published figures."""
    if list_all:
        list_experiments(as_json=settings.json)
        return
    if name is None:
        raise InputError("no experiment named", "reproduce", "fastopen reproduce --list names them")
    if explain:
        explain_rigs(name, settings)
        return
    experiment = load_experiment(name)
    if check:
        check_expected(experiment, settings)
        return
    asked: dict[str, Any] = {"seed": seed}
    asked["engines"] = None if engine is None else engines_asked(engine)
    asked["setups"] = None if client is None else other_clients(experiment, client)
    experiment = changed(experiment, {key: value for key, value in asked.items() if value is not None})
    check_commands(experiment, name, allowed=allow_command)
    pages = Reading().pages(experiment.pages, choice=experiment.corpus, quiet=settings.quiet)
    settings.run(experiment, pages, inputs=experiment.pages, place_of=lambda factor: f"{name}: {factor.toml}")
