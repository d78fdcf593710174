"""`fastopen validate clients`: does a browser load pages as the loader does, and how far apart are they."""

from contextlib import ExitStack
from statistics import median
from typing import Annotated, Final

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from fastopen.cli.options import NetworkOptions
from fastopen.cli.output import EXIT_FAULTS, EXIT_INTERRUPTED, console, errors_console, print_json
from fastopen.cli.progress import page_watchers
from fastopen.cli.shared_options import JobsOption, JsonOption, KernelOption, QuietOption
from fastopen.errors import InputError
from fastopen.pages import load_pages
from fastopen.workflows.validate_clients import ClientComparison, compare_clients

MISSING: Final = "-"


def clients(
    pages: Annotated[list[str], typer.Argument(help="Packaged pages or files.", metavar="PAGE...")],
    rtt: Annotated[str, typer.Option(help="RTT.")] = "100ms",
    down: Annotated[str, typer.Option(help="Rate to the client.")] = "4mbit",
    up: Annotated[str, typer.Option(help="Rate from the client.")] = "256kbit",
    engine: Annotated[str, typer.Option(help="virtual or host.")] = "virtual",
    lenient: Annotated[bool, typer.Option("--lenient", help="Leave broken entries of HARs out.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of loads.")] = 1,
    kernel: KernelOption = None,
    jobs: JobsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Load each page in Chromium and by the loader, and say how far apart they are.

    Ends with status 1 where their requests differ or a load does not count.
    """
    if engine not in ("virtual", "host"):
        raise InputError(f"{engine} is no engine", "--engine", "virtual or host")
    networks = NetworkOptions(rtt, down, up, None, "0%", [], None, None).networks()
    if len(networks) != 1:
        raise InputError("one network at a time", "--rtt")
    imported = [one.page for one in load_pages(pages, lenient=lenient)]
    found: list[ClientComparison] = []
    with ExitStack() as bars:
        try:
            found += compare_clients(
                imported,
                networks[0],
                engine="host" if engine == "host" else "virtual",
                seed=seed,
                kernel=kernel,
                jobs=jobs,
                watch=page_watchers(bars, quiet=quiet),
            )
        except KeyboardInterrupt:
            errors_console().print("interrupted: nothing to compare yet")
            raise typer.Exit(EXIT_INTERRUPTED) from None
    if json:
        print_json(
            {
                "format": "fastopen-clients/1",
                "engine": engine,
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
    """How far the page load times are apart, in percent of the loader's."""
    known = [abs(one.difference_percent) for one in found if one.difference_percent is not None]
    return median(known) if known else None


def _print(found: list[ClientComparison]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.pad_edge = False
    table.add_column("page")
    table.add_column("")
    headers = ("requests", "missing", "extra", "unlike", "loader\nms", "chromium\nms", "apart\nms", "\n%")
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    for one in found:
        counts = (one.requests, len(one.missing), one.extra, one.unlike)
        table.add_row(
            one.page,
            one.arm,
            *(str(count) for count in counts),
            _shown(one.loader_ms),
            _shown(one.chromium_ms),
            _shown(one.difference_ms, sign=True),
            _shown(one.difference_percent, sign=True),
            style="red" if not one.same_requests else "yellow" if one.invalid else "",
        )
    screen = console()
    screen.print(table)
    for one in found:
        for url in one.missing[:5]:
            screen.print(Text(f"{one.page}, {one.arm}: not asked for: {url}"))
        for reason in one.invalid[:2]:
            screen.print(Text(f"{one.page}, {one.arm}: invalid: {reason}"))
    apart = _median(found)
    if apart is not None:
        counted = sum(one.difference_percent is not None for one in found)
        screen.print(Text(f"Page load times are {apart:.1f} % apart in the median of {counted} loads."))
    legend = (
        "missing: asked for by the loader alone; extra: by Chromium alone; unlike: not as the page has it,"
        " since the bodies have no room (docs/clients.md). apart: Chromium less loader."
    )
    screen.print(Text(legend, style="dim"))


def _shown(value: float | None, *, sign: bool = False) -> str:
    """Never `-0.0`."""
    return MISSING if value is None else f"{round(value, 1) or 0.0:{'+' if sign else ''}.1f}"
