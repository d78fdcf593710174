"""Define `fastopen explain`: explain the kinds of invalid loads and the remedies."""

from typing import Annotated, Final

from typer import Argument

from fastopen.cli.output import console, print_grid, print_json
from fastopen.cli.shared_options import JsonOption
from fastopen.common.errors import InputError, did_you_mean
from fastopen.common.grid import Column, keys, listing
from fastopen.common.terminal import filled
from fastopen.contract import InvalidKind
from fastopen.report.explained_kinds import EXPLANATIONS

PANEL: Final = "Read a result"


def command(
    kind: Annotated[
        str | None, Argument(metavar="KIND", help="A kind, such as no_syn_data. (default: all)")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Explain the kinds of invalid loads: their meaning, causes and remedies."""
    chosen = {name: one for name, one in EXPLANATIONS.items() if kind in (None, name.value)}
    if not chosen:
        remedy = did_you_mean(str(kind), InvalidKind, "fastopen explain lists all kinds")
        raise InputError(f"unknown kind of invalid load {kind!r}", "explain", remedy)
    if json:
        print_json({"kinds": [{"kind": name, **one._asdict()} for name, one in chosen.items()]})
    elif kind is None:
        columns = (*keys("kind"), Column("meaning", "words", wraps=True))
        print_grid(listing(columns, ((name.value, one.meaning) for name, one in chosen.items())))
    else:
        (explanation,) = chosen.values()
        for heading, text in explanation._asdict().items():
            for line in filled([f"{heading.capitalize()}: {text}"], console().width, indent="  "):
                console().print(line)
