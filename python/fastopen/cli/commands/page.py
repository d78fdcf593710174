"""`fastopen page`: what a page is made of, and which pages come with fastopen."""

from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from fastopen.cli.output import console, print_json
from fastopen.cli.reading import CalibrationOptions, Reading
from fastopen.cli.shared_options import JsonOption, with_settings
from fastopen.common import units
from fastopen.pages import describe, load_pages, packaged_pages

PANEL: Final = "Inputs"

command = typer.Typer(no_args_is_help=True, help="Look at pages.")


@command.command("show")
@with_settings
def show(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="A HAR, WARC or WACZ, a folder of them, page file, list of URLs, folder of a mirror or of a "
            "Mahimahi recording, or packaged page by name.",
        ),
    ],
    json: JsonOption = False,
    tree: Annotated[bool, typer.Option("--tree", help="Print what asked for what.")] = False,
    *,
    reading: Reading,
    calibration: CalibrationOptions,
) -> None:
    """Say what pages are made of."""
    pages = [one.page for one in calibration.calibrated(reading.pages(inputs))]
    if json:
        print_json({"pages": [describe.summary(page) for page in pages]})
        return
    for number, page in enumerate(pages):
        if number:
            console().print()
        console().print(describe.render(page, tree=tree))


@command.command("list")
def list_pages(json: JsonOption = False) -> None:
    """List the pages that come with fastopen."""
    pages = [describe.summary(load_pages([path])[0].page) for path in packaged_pages().values()]
    if json:
        print_json({"pages": pages})
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("page", "requests", "hosts", "bytes"):
        table.add_column(heading, justify="left" if heading == "page" else "right", no_wrap=True)
    table.add_column("source", overflow="fold")
    for page in pages:
        size = units.format_bytes((page["bytes_up"] + page["bytes_down"]) // 1000 * 1000)
        counts = (str(page["requests"]), str(page["hosts"]))
        table.add_row(page["name"], *counts, size, Text(page["source"]))
    console().print(table)
