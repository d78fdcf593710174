"""Define `fastopen validate FILE.har...`: replay recordings over the networks that they imply."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final, Literal

import typer
from rich.text import Text
from typer.core import TyperGroup

from fastopen.apps.validate.replays_loads import ReplayValidation, Skipped, validate_replays
from fastopen.cli.options import engines_asked
from fastopen.cli.output import (
    EXIT_FAULTS,
    EXIT_INPUT,
    console,
    errors_console,
    nothing_to_compare_when_interrupted,
    print_json,
    print_line,
    print_message,
)
from fastopen.cli.progress import RunWatcher
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import JobsOption, JsonOption, OneKernelOption, QuietOption, with_settings
from fastopen.cli.tables import print_grid
from fastopen.common.errors import InputError
from fastopen.common.grid import Grid, figures, keys, listing
from fastopen.common.phrases import plural
from fastopen.contract import EngineName
from fastopen.pages import ImportedPage
from fastopen.workflows.replays import CACHED_MS, Rules, ValidatedReplay, median_error_percent

RECORDINGS: Final = "recordings"
# Pages with at least this error are explained below the table.
EXPLAINED_PERCENT: Final = 1.0


class RecordingsByDefault(TyperGroup):
    """A group of commands whose first argument is a recording if it is not a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the command `recordings` if the first argument is not a command."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [RECORDINGS, *args]
        return super().parse_args(ctx, args)


@with_settings
def recordings(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.har...", help="HARs, also gzipped.")],
    engine: Annotated[str, typer.Option(help="auto, host or virtual.")] = "auto",
    kernel: OneKernelOption = None,
    repeats: Annotated[
        int, typer.Option("--repeats", "-n", min=1, help="Loads of each page on the host.")
    ] = 3,
    names: Annotated[
        Literal["none", "do53", "tcp"],
        typer.Option(help="Look names up through the link, and compare with recorded lookups."),
    ] = "none",
    jobs: JobsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    *,
    reading: Reading,
) -> None:
    """Replay recorded page loads over the network that each file implies, and compare load times.

    Pages without a recorded load event are listed and left out. This is also what `fastopen validate
    FILE.har...` does. docs/measurements/replays.md lists the rules."""
    asked = engines_asked(engine)
    if len(asked) > 1:
        raise InputError("takes one engine, not a list", "--engine")
    chosen: EngineName | None = None if asked[0] == "auto" else asked[0]
    imported, unreadable = _read(files, reading, quiet=quiet)
    with nothing_to_compare_when_interrupted(), RunWatcher(errors_console(), quiet) as watcher:
        found = validate_replays(
            imported,
            engine=chosen,
            repeats=repeats,
            kernel=kernel,
            jobs=jobs,
            rules=Rules(names=names),
            watch=watcher,
        )
    for skipped in (*found.unreplayable, *found.failed):
        _complain(skipped)
    if json:
        pages = [one.as_json() for one in found.validated]
        print_json({"pages": pages, "median_error_percent": median_error_percent(found.validated)})
    elif found.validated:
        _print(found)
    if not found.validated and not found.failed:
        print_message("no page to compare", "bold red")
        raise typer.Exit(EXIT_INPUT)
    if unreadable or found.failed:
        raise typer.Exit(EXIT_FAULTS)


def _read(files: Sequence[Path], reading: Reading, *, quiet: bool) -> tuple[list[ImportedPage], int]:
    """Return the pages of readable files, and the number of the other files, which are reported."""
    imported: list[ImportedPage] = []
    unreadable = 0
    for file in files:
        try:
            imported += reading.pages([file], quiet=quiet)
        except InputError as error:
            unreadable += 1
            print_message(f"left out: {error}")
    return imported, unreadable


def _complain(skipped: Skipped) -> None:
    print_message(f"left out: {skipped.page}: {skipped.reason}")


def _print(found: ReplayValidation) -> None:
    screen = console()
    print_grid(_grid(found.validated))
    pages = plural(len(found.validated), "page")
    screen.print(
        f"median error {median_error_percent(found.validated):.1f} % over {pages}"
        f" (absolute); engine {found.engine}" + (f", kernel {found.kernel}" if found.kernel else "")
    )
    lookups = [pair for one in found.validated for pair in one.lookups_ms]
    if asked := [pair for pair in lookups if pair[0] >= CACHED_MS]:
        recorded, replayed = (median(times) for times in zip(*asked, strict=True))
        cached = len(lookups) - len(asked)
        screen.print(
            f"{plural(len(asked), 'lookup')}: median {replayed:.1f} ms through the link,"
            f" {recorded:.1f} ms recorded"
            + (f"; {cached} more, which a cache answered when recorded" if cached else "")
        )
    explained = sorted(found.validated, key=lambda one: -abs(one.error_percent))
    lines = [
        Text.assemble((one.page, "bold"), f" {one.error_percent:+.1f} %: {one.cause.sentence()}")
        for one in explained
        if one.cause is not None and abs(one.error_percent) >= EXPLAINED_PERCENT
    ]
    if lines:
        screen.print()
        screen.print("Largest differences between replay and recording before the load event:")
        for line in lines:
            print_line(line)


def _grid(replays: Sequence[ValidatedReplay]) -> Grid:
    headers = ("requests", "hosts", "RTT\nms", "furthest\nms", "down\nMbit/s", "recorded\nms")
    rows = []
    for one in replays:
        network, page = one.replay.network, one.replay.page
        extra = max(network.host_extra_rtt_us.values(), default=0)
        rate = network.down.rate_bit_per_s
        rows.append(
            (
                *(one.page, str(len(page.resources)), str(len(page.hosts()))),
                *(f"{network.rtt_us / 1000:.1f}", f"{(network.rtt_us + extra) / 1000:.0f}"),
                "-" if rate is None else f"{rate / 1e6:.1f}",
                *(f"{one.recorded_ms:.0f}", f"{one.replayed_ms:.0f}", f"{one.error_percent:+.1f}"),
            )
        )
    return listing((*keys("page"), *figures(*headers, "replayed\nms", "error\n%")), rows)
