"""Define `fastopen page`: show the contents of pages, and list the packaged pages."""

from typing import Annotated, Final

import typer

from fastopen.cli.output import console, print_json
from fastopen.cli.page_facts import page_list, page_renderables
from fastopen.cli.reading import CalibrationOptions, Reading
from fastopen.cli.shared_options import JsonOption, with_settings
from fastopen.cli.tables import print_grid
from fastopen.pages import describe, load_pages, packaged_pages

PANEL: Final = "Inputs"

command = typer.Typer(no_args_is_help=True, help="Show pages, and index a corpus.")


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
    tree: Annotated[
        bool, typer.Option("--tree", help="Print the tree of requests and their initiators.")
    ] = False,
    *,
    reading: Reading,
    calibration: CalibrationOptions,
) -> None:
    """Show the requests, hosts and sizes of pages."""
    pages = [one.page for one in calibration.calibrated(reading.pages(inputs))]
    if json:
        print_json({"pages": [describe.summary(page) for page in pages]})
        return
    for number, page in enumerate(pages):
        if number:
            console().print()
        for renderable in page_renderables(page, console().width, tree=tree):
            console().print(renderable)


@command.command("list")
def list_pages(json: JsonOption = False) -> None:
    """List the packaged pages."""
    pages = [describe.summary(load_pages([path])[0].page) for path in packaged_pages().values()]
    if json:
        print_json({"pages": pages})
        return
    print_grid(page_list(pages))
