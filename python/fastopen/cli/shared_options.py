"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, max=1024, help="Worlds at once. (default: by cores)")
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Keep the run here; resume one that is here, unfinished. (default: among your runs)",
    ),
]
NoKeepOption = Annotated[bool, typer.Option("--no-keep", help="Do not keep the run.")]
KeepGoingOption = Annotated[
    bool,
    typer.Option(
        "--keep-going",
        help="Go on where the first loads of an arm are all invalid for the same reason.",
    ),
]
KernelOption = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        metavar="NAME[,NAME]",
        help="Of the virtual engine; kernel list names them. Several, with commas: what changes"
        " from the first to the others. (default: the newest)",
    ),
]
