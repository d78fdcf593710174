"""Define `fastopen label`: give a label to a stored run."""

from typing import Annotated, Final

from typer import Argument

from fastopen.cli.shared_options import RunArgument, check_label
from fastopen.runs import RunStore, find_run

PANEL: Final = "Runs"


def command(
    run: RunArgument, text: Annotated[str, Argument(help="Label in ls; empty to remove it.")]
) -> None:
    """Label a kept run; fastopen ls shows the label."""
    check_label(text, "TEXT")
    with RunStore.resume(find_run(run)) as store:
        store.set_label(text)
