"""`fastopen label`: name a kept run."""

from typing import Annotated, Final

import typer

from fastopen.runs import RunStore, find_run

PANEL: Final = "Runs"


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, its name, or last.")],
    text: Annotated[str, typer.Argument(help="Label in ls; empty to remove it.")],
) -> None:
    """Label a kept run; fastopen ls shows the label."""
    with RunStore.resume(find_run(run)) as store:
        store.set_label(text)
