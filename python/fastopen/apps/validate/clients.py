"""Define `fastopen validate clients`: compare Chromium's requests and load times with the loader's."""

from statistics import median
from typing import Annotated

import typer
from rich.text import Text

from fastopen.apps.validate.clients_loads import ClientComparison, compare_clients
from fastopen.apps.validate.page_load_options import PageLoadOptions, one_network
from fastopen.cli.output import EXIT_FAULTS, console, nothing_to_compare_when_interrupted, print_json, shown
from fastopen.cli.progress import page_watchers
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import JsonOption, QuietOption, with_settings
from fastopen.cli.tables import print_grid
from fastopen.common.grid import entries, figures, keys, listing


@with_settings
def clients(
    pages: Annotated[list[str], typer.Argument(help="Packaged pages or files.", metavar="PAGE...")],
    rtt: Annotated[str, typer.Option(help="RTT.")] = "100ms",
    down: Annotated[str, typer.Option(help="Rate to the client.")] = "4mbit",
    up: Annotated[str, typer.Option(help="Rate from the client.")] = "256kbit",
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats",
            "-n",
            min=1,
            help="Samples of each load, of which the median counts; 1 loads without variation.",
        ),
    ] = 1,
    json: JsonOption = False,
    quiet: QuietOption = False,
    *,
    reading: Reading,
    loading: PageLoadOptions,
) -> None:
    """Load each page with Chromium and with the loader, and print how much the loads differ.

    With --repeats each load samples RTT, rates, think times and more around the given values, and medians are
    compared. Exit codes: 0 done; 1 their requests differ, or a load is invalid."""
    network, loads = one_network(rtt, down, up), loading.page_loads()
    imported = [one.page for one in reading.pages(pages, quiet=quiet)]
    with nothing_to_compare_when_interrupted(), page_watchers(quiet=quiet) as watch:
        found = list(compare_clients(imported, network, loads, watch, draws=repeats))
    if json:
        print_json(
            {
                "format": "fastopen-clients/1",
                "engine": loads.engine,
                "repeats": repeats,
                "same_requests": all(one.same_requests for one in found),
                "median_difference_percent": _median(found),
                "loads": [one.as_json() for one in found],
            }
        )
    else:
        _print(found)
    if not all(one.same_requests and not one.invalid for one in found):
        raise typer.Exit(EXIT_FAULTS)


def _median(found: list[ClientComparison]) -> float | None:
    """Return the median absolute difference in percent of the loader's PLT; None if none is known."""
    known = [abs(one.difference_percent) for one in found if one.difference_percent is not None]
    return median(known) if known else None


def _print(found: list[ClientComparison]) -> None:
    columns = (
        *keys("page", "arm"),
        *figures("requests", "missing", "extra", "unlike", "loader\nms", "chromium\nms", "apart\nms", "\n%"),
    )
    rows = (
        entries(
            *(one.page, one.arm),
            *(str(count) for count in (one.requests, len(one.missing), one.extra, one.unlike)),
            *(shown(one.loader_ms), shown(one.chromium_ms)),
            *(shown(one.difference_ms, sign=True), shown(one.difference_percent, sign=True)),
            tone="bad" if not one.same_requests else "notable" if one.invalid else "",
        )
        for one in found
    )
    print_grid(listing(columns, rows))
    screen = console()
    for one in found:
        for url in one.missing[:5]:
            screen.print(Text(f"{one.page}, {one.arm}: not requested: {url}"))
        for reason in one.invalid[:2]:
            screen.print(Text(f"{one.page}, {one.arm}: invalid: {reason}"))
    median_percent = _median(found)
    if median_percent is not None:
        counted = sum(one.difference_percent is not None for one in found)
        screen.print(
            Text(f"Page load times are {median_percent:.1f} % apart in the median of {counted} loads.")
        )
    legend = (
        "missing: requested only by the loader; extra: only by Chromium; unlike: not as the page has it,"
        " since the bodies have no room (docs/bodies.md). apart: Chromium less loader."
    )
    screen.print(Text(legend, style="dim"))
