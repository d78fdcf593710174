"""`fastopen page`: what a page is made of, and which pages come with fastopen."""

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fastopen import units
from fastopen.cli.output import console, print_json
from fastopen.pages import Page, load_pages, packaged_pages

app = typer.Typer(no_args_is_help=True, help="Look at pages.")
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("show")
def show(
    file: Annotated[str, typer.Argument(help="A HAR, page file, list of URLs, or packaged page by name.")],
    json: JsonOption = False,
) -> None:
    """Say what the pages in a file are made of."""
    pages = [imported.page for imported in load_pages([file])]
    if json:
        print_json({"pages": [_facts(page) for page in pages]})
        return
    for page in pages:
        console().print(str(_facts(page)), soft_wrap=True)


@app.command("list")
def list_pages(json: JsonOption = False) -> None:
    """List the pages that come with fastopen."""
    pages = {name: load_pages([str(path)])[0].page for name, path in packaged_pages().items()}
    if json:
        print_json({"pages": [{"page": name, **_facts(page)} for name, page in pages.items()]})
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("page", "requests", "hosts", "bytes"):
        table.add_column(heading, justify="left" if heading == "page" else "right", no_wrap=True)
    table.add_column("source", overflow="fold")
    for name, page in pages.items():
        size = units.format_bytes(page.wire_bytes() // 1000 * 1000)
        table.add_row(name, str(len(page.resources)), str(len(page.hosts())), size, Text(page.source))
    console().print(table)


def _facts(page: Page) -> dict[str, object]:
    return {
        "url": page.url,
        "source": page.source,
        "requests": len(page.resources),
        "hosts": len(page.hosts()),
        "wire_bytes": page.wire_bytes(),
        "digest": page.digest(),
    }
