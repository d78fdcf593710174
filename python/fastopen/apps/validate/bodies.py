"""Define `fastopen validate bodies`: compare a page's requests with its recording, using recorded bodies."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fastopen.apps.validate.bodies_loads import BodiesValidation, validate_bodies
from fastopen.apps.validate.page_load_options import PageLoadOptions, one_network
from fastopen.cli.output import EXIT_FAULTS, console, nothing_to_compare_when_interrupted, print_json, shown
from fastopen.cli.progress import page_watchers
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import JsonOption, QuietOption, with_settings
from fastopen.cli.tables import print_grid
from fastopen.common.errors import unwritable
from fastopen.common.grid import entries, figures, keys, listing
from fastopen.common.user_files import write_file


@with_settings
def bodies(
    pages: Annotated[list[str], typer.Argument(help="Archives: WARC, WACZ, Mahimahi.", metavar="PAGE...")],
    rtt: Annotated[str, typer.Option(help="RTT.")] = "20ms",
    down: Annotated[str, typer.Option(help="Rate to the client.")] = "none",
    up: Annotated[str, typer.Option(help="Rate from the client.")] = "none",
    screenshots: Annotated[
        Path | None, typer.Option(help="Folder for screenshots of the browser.", metavar="FOLDER")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    *,
    reading: Reading,
    loading: PageLoadOptions,
) -> None:
    """Load each page in Chromium with its recorded responses, and print which recorded requests it made.

    Exit codes: 0 done; 1 a load is invalid."""
    network, loads = one_network(rtt, down, up), loading.page_loads()
    imported = reading.pages(pages, quiet=quiet)
    with nothing_to_compare_when_interrupted(), page_watchers(quiet=quiet) as watch:
        found = list(
            validate_bodies(imported, network, loads, screenshots=screenshots is not None, watch=watch)
        )
    if screenshots is not None:
        _write(screenshots, found)
    if json:
        print_json(
            {"format": "fastopen-bodies/1", "engine": loads.engine, "loads": [one.as_json() for one in found]}
        )
    else:
        _print(found)
    if any(one.invalid for one in found):
        raise typer.Exit(EXIT_FAULTS)


def _write(folder: Path, found: list[BodiesValidation]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    for one in found:
        for name, picture in (("recorded", one.recorded_screenshot), ("replayed", one.screenshot)):
            if picture is not None:
                write_file(folder / f"{one.page.replace('/', '_')}.{name}.png", picture)


def _print(found: list[BodiesValidation]) -> None:
    columns = (
        *keys("page"),
        *figures("re-\ncorded", "\nasked", "\n%", "mat-\nched", "near-\nest", "unmat-\nched"),
        *figures("recorded\nkB", "received\nkB", "recorded\nPLT ms", "\nPLT ms", "apart\n%"),
    )
    rows = (
        entries(
            *(one.page, str(one.recorded), str(one.asked), shown(one.asked_percent)),
            *(str(count) for count in (one.matched, one.nearest, len(one.unmatched))),
            *(shown(size / 1000) for size in (one.recorded_bytes, one.received_bytes)),
            *(shown(ms) for ms in (one.recorded_ms, one.replayed_ms)),
            shown(one.difference_percent, sign=True),
            tone="notable" if one.invalid else "",
        )
        for one in found
    )
    print_grid(listing(columns, rows))
    screen = console()
    for one in found:
        for what, listed in (("not asked for", one.missing), ("not in the recording", one.unmatched)):
            for request in listed[:SHOWN]:
                screen.print(Text(f"{one.page}: {what}: {request[:WIDTH]}"))
            if len(listed) > SHOWN:
                screen.print(Text(f"{one.page}: {what}: {len(listed) - SHOWN} more (--json lists them)"))
        for reason in one.invalid[:2]:
            screen.print(Text(f"{one.page}: invalid: {reason}"))
    legend = (
        "recorded: requests of the recording; asked: those that Chromium made; matched: requests that the"
        " recording answers, nearest: by another query or port; unmatched: answered with 404, or of unknown"
        " hosts."
    )
    screen.print(Text(legend, style="dim"))


SHOWN = 5
WIDTH = 150
