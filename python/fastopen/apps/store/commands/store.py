"""Define `fastopen store`: inspect, verify and clean a store of results."""

from contextlib import suppress
from fractions import Fraction
from time import time
from typing import Annotated, Final

from typer import Argument, Option, Typer

from fastopen.apps.store.results import facts, open_store, prune, verify
from fastopen.cli.output import exit_if, print_json, print_line
from fastopen.cli.shared_options import STORE_VARIABLE, JobsOption, JsonOption, OneKernelOption
from fastopen.common import units
from fastopen.common.errors import InputError, MachineError
from fastopen.engines import VirtualEngine, find_program, kernels
from fastopen.workflows.engines import maker_of

PANEL: Final = "Runs"

DAY_S: Final = 86_400
Folder = Annotated[
    str | None,
    Argument(
        metavar="DIR", envvar=STORE_VARIABLE, help=f"The store, or its URL. (default: {STORE_VARIABLE})"
    ),
]

command = Typer(no_args_is_help=True, help="Inspect, prune and verify a store of results.")


@command.command("info")
def info(folder: Folder = None, kernel: OneKernelOption = None, json: JsonOption = False) -> None:
    """Count the results of a store, by the program and kernel that made them."""
    store = open_store(_named(folder))
    found = facts(store)
    own: str | None = None
    with suppress(MachineError):  # the program or the kernel may be missing here
        own = maker_of(find_program(), kernels.find(kernel)).digest
    if json:
        makers = [{"maker": maker, "results": n, "own": maker == own} for maker, n in found.makers.items()]
        listed = {key: value for key, value in vars(found).items() if key != "makers"}
        print_json({"folder": store.place, **listed, "makers": makers})
        return
    print_line(f"{found.results:,} results in {units.format_bytes(found.bytes)}")
    for maker, count in found.makers.most_common():
        words = "this program and kernel" if maker == own else "another program or kernel"
        print_line(f"{count:,} made by {words} ({maker})")
    for number, words in (
        (found.damaged, "are damaged: they are not used, and made again when needed"),
        (found.unfinished, "files are being written, or remain from interrupted processes"),
        (found.disputed, "jobs gave two different results: both are in the folder disputed"),
    ):
        if number:
            print_line(f"{number:,} {words}", "yellow")


@command.command("prune")
def prune_store(
    folder: Folder = None,
    days: Annotated[
        float | None, Option(min=0, help="Remove results older than this number of days.")
    ] = None,
    size: Annotated[
        str | None,
        Option(
            metavar="BYTES", help="Remove the oldest results until the store has this size, such as 10GB."
        ),
    ] = None,
    others: Annotated[bool, Option("--others", help="Remove results of other programs and kernels.")] = False,
    kernel: OneKernelOption = None,
) -> None:
    """Remove damaged results, and the results that the options select."""
    store = open_store(_named(folder))
    try:
        most = None if size is None else units.parse_size_bytes(size)
    except units.UnitError as error:
        raise InputError(str(error), "--size") from None
    own = maker_of(find_program(), kernels.find(kernel)).digest if others else None
    oldest_s = None if days is None else days * DAY_S
    removed, freed = prune(store, time(), older_than_s=oldest_s, most_bytes=most, keep_maker=own)
    print_line(f"removed {removed:,} files, {units.format_bytes(freed)}")


@command.command("verify")
def verify_store(
    folder: Folder = None,
    sample: Annotated[
        str, Option(metavar="SHARE", help="Share of the results: 1/1000, 5%, 1 (all).")
    ] = "1/1000",
    kernel: OneKernelOption = None,
    jobs: JobsOption = None,
) -> None:
    """Repeat a random sample of the results, and compare the new bytes with the stored ones.

    Exit codes: 0 done; 1 results differ: both versions are in the folder disputed, and no longer used."""
    share = _share(sample)
    store = open_store(_named(folder))
    program, booted = find_program(), kernels.find(kernel)
    found = verify(store, VirtualEngine(program, booted, jobs), maker_of(program, booted), share)
    print_line(f"{found.same:,} results ({found.loads:,} loads) repeated to the byte")
    for number, words in (
        (found.of_others, "were made by another program or kernel, and were not repeated"),
        (found.not_again, "could not be repeated: they need recorded bodies, or the machine was too busy"),
        (found.damaged, "are damaged"),
    ):
        if number:
            print_line(f"{number:,} {words}")
    for _, kept, again in found.disputed:
        print_line(f"differed when repeated: {kept} and {again}; neither is used any more", "red")
    exit_if(found.disputed)


def _named(folder: str | None) -> str:
    if folder is None:
        raise InputError("needs a store", "store", f"give its folder, or set {STORE_VARIABLE}")
    return folder


def _share(text: str) -> float:
    try:
        share = units.parse_fraction(text) if "%" in text else float(Fraction(text))
    except (units.UnitError, ValueError, ZeroDivisionError):
        share = 0.0
    if not 0 < share <= 1:
        raise InputError(f"invalid share {text!r}", "--sample", "use 1/1000 or 5%, or 1 for all results")
    return share
