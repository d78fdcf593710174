"""Define options that several commands share."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, Final

from typer import Argument, Option

from fastopen.common.errors import InputError

# The maximum number of characters of a run's label.
LABEL_MAX: Final = 200
STORE_VARIABLE: Final = "FASTOPEN_STORE"
JsonOption = Annotated[bool, Option("--json", help="Print one JSON document instead of tables.")]
PlotOption = Annotated[bool, Option("--plot", help="Draw page load times as bars, below the tables.")]
QuietOption = Annotated[bool, Option("--quiet", "-q", help="No progress.")]
JobsOption = Annotated[
    int | None, Option("--jobs", "-j", min=1, max=1024, help="Number of parallel worlds. (default: by cores)")
]
KeepGoingOption = Annotated[
    bool, Option("--keep-going", help="Continue if an arm's first loads are all invalid for one reason.")
]
RunArgument = Annotated[str, Argument(metavar="RUN", help="A run's folder, its name, or last.")]
StoreOption = Annotated[
    str | None,
    Option(
        "--store",
        metavar="DIR",
        envvar=STORE_VARIABLE,
        help="Store that virtual time takes finished loads from and adds new ones to: a folder, or"
        f" a URL of object storage. (default: {STORE_VARIABLE}, else none)",
    ),
]
WorkersOption = Annotated[
    str | None,
    Option(
        "--workers", metavar="tcp://HOST:8786", help="Load in virtual time on a Dask scheduler's workers."
    ),
]
OneKernelOption = Annotated[
    str | None, Option("--kernel", metavar="NAME", help="Kernel of the virtual engine. (default: the newest)")
]
KernelOption = Annotated[
    str | None,
    Option(
        "--kernel",
        metavar="NAME[,NAME]",
        help="Kernel of the virtual engine, see fastopen kernel list. Several, with commas, are"
        " compared with the first. (default: the newest)",
    ),
]


def check_plot(*, plot: bool, json: bool) -> None:
    """Raise InputError if bars are requested in a JSON document."""
    if plot and json:
        raise InputError("cannot be combined with --json", "--plot", "drop one of them")


def check_label(text: str, place: str) -> None:
    """Raise InputError if a run's label is not one short line. `place` names the label in the message."""
    if len(text) > LABEL_MAX or not text.isprintable():
        message = f"the label is not one line of at most {LABEL_MAX} characters"
        raise InputError(message, place, "shorten it, and write no line breaks")


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: replace each parameter whose type is a dataclass with options for its fields."""
    kept: list[inspect.Parameter] = []
    kinds: dict[str, Any] = {}
    for one in inspect.signature(command).parameters.values():
        if not is_dataclass(one.annotation):
            kept.append(one)
            continue
        kinds[one.name] = one.annotation
        kept += (
            one.replace(name=f.name, default=f.default, annotation=f.type) for f in fields(one.annotation)
        )

    @wraps(command)
    def decorated(**options: object) -> None:
        for name, kind in kinds.items():
            options[name] = kind(**{field.name: options.pop(field.name) for field in fields(kind)})
        command(**options)

    decorated.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
    return decorated
