"""`fastopen run` and `fastopen reproduce`: run an experiment and print its results."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fastopen.cli.allow_command import AllowCommandOption, check_commands
from fastopen.cli.catalogue import list_experiments
from fastopen.cli.check_expected import check_expected
from fastopen.cli.explain import explain_rigs
from fastopen.cli.options import (
    NAMED_CLIENTS,
    Written,
    changed,
    engines_asked,
    other_clients,
    with_factors,
)
from fastopen.cli.reading import CalibrationOptions, Reading
from fastopen.cli.run_settings import RunSettings
from fastopen.cli.shared_options import with_settings
from fastopen.errors import InputError
from fastopen.experiments import (
    ASKED,
    COMMAND_LINE,
    NAMED_NETWORKS,
    Combine,
    load_experiment,
    read_asked,
    with_drawn_seed,
)
from fastopen.pages import Choice
from fastopen.pages.corpus import KINDS
from fastopen.pages.where import Where
from fastopen.workflows.engines import auto_engine


@with_factors(ASKED)
@with_settings
def run(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="HAR files or folders of them, an index of a corpus, page files, lists of URLs, or packaged"
            " pages by name.",
        ),
    ],
    combine: Annotated[
        Combine,
        typer.Option(
            help="Lists of values of the network: each with each (cross), or first with first (zip).",
            rich_help_panel="Network",
        ),
    ] = "cross",
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help=f"In place of RTT and rates: {', '.join(NAMED_NETWORKS)} (docs/factors.md has the sources).",
            rich_help_panel="Network",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of every random choice. (default: drawn and recorded, where there is any)"),
    ] = None,
    where: Annotated[
        str,
        typer.Option(
            metavar="CONDITION",
            help="Of the pages those alone whose facts meet it: 'connections > 20 and hosts < 50'"
            " (docs/corpora.md).",
        ),
    ] = "",
    sample: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of these pages N, drawn by the seed (without --seed: 0)."),
    ] = None,
    library: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Where URLs of lists are looked up; repeatable.")
    ] = None,
    *,
    reading: Reading,
    calibration: CalibrationOptions,
    settings: RunSettings,
    written: Written,
) -> None:
    """Load pages over networks with TCP Fast Open off and on, and say what it saved."""
    asked = read_asked(written, COMMAND_LINE, combine=combine, named=network)
    corpus = _choice(where, sample, seed)
    experiment = asked.experiment(name="run", pages=inputs, corpus=corpus, seed=seed or 0)
    if seed is None:
        experiment = with_drawn_seed(experiment, auto_engine(settings.kernel))
    pages = reading.pages(inputs, library or (), corpus, quiet=settings.quiet)
    pages = calibration.calibrated(pages, quiet=settings.quiet)
    given = {"inputs": inputs, "library": library or (), **vars(reading)}
    named = {*written, *(("rtt",) if network is not None else ())}
    settings.run(experiment, pages, named, seed_drawn=seed is None, **given)


def _choice(where: str, sample: int | None, seed: int | None) -> Choice | None:
    """What is chosen of the pages; None: all. Raises InputError."""
    if not where.strip() and sample is None:
        return None
    if where.strip():
        Where(where, KINDS)
    return Choice(where=where, sample=sample, seed=seed or 0)


@with_settings
def reproduce(
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
            " figures, in virtual time.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Load it once in virtual time and compare with the expected table, to the digit.",
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
