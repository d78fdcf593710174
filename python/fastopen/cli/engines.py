"""The option that says which kernel the virtual engine runs."""

from typing import Annotated

import typer

KernelOption = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        metavar="NAME[,NAME]",
        help="Of the virtual engine; kernel list names them. Several, with commas: what changes"
        " from the first to the others. (default: the newest)",
    ),
]
