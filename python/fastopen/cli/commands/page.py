"""Define `fastopen page`: show the contents of pages, and list the packaged pages."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree
from typer import Argument, Option, Typer

from fastopen.cli.output import console, print_grid, print_json
from fastopen.cli.reading import CalibrationOptions, Reading
from fastopen.cli.shared_options import JsonOption, with_settings
from fastopen.common.grid import Column, Grid, figures, keys, listing
from fastopen.common.phrases import plural, size, time
from fastopen.common.terminal import filled, plain, tabled
from fastopen.pages import describe, load_pages, packaged_pages
from fastopen.pages import url as urls
from fastopen.pages.model import Page, Resource

PANEL: Final = "Inputs"
SHOWN_URL: Final = 76
SHOWN_NAME: Final = 32
# The width of the column of labels, in characters.
LABEL: Final = 14

command = Typer(no_args_is_help=True, help="Show pages, and index a corpus.")


@command.command("show")
@with_settings
def show(
    inputs: Annotated[
        list[str],
        Argument(
            metavar="INPUT...",
            help="A HAR, WARC or WACZ, a folder of them, page file, list of URLs, folder of a mirror or of a "
            "Mahimahi recording, or packaged page by name.",
        ),
    ],
    json: JsonOption = False,
    tree: Annotated[bool, Option("--tree", help="Print the tree of requests and their initiators.")] = False,
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
    columns = (*keys("page"), *figures("requests", "hosts", "bytes"), Column("source", "words", wraps=True))
    rows = (
        (
            *(page["name"], str(page["requests"]), str(page["hosts"])),
            *(size(page["bytes_up"] + page["bytes_down"]), page["source"]),
        )
        for page in pages
    )
    print_grid(listing(columns, rows))


def page_renderables(page: Page, width: int, *, tree: bool = False) -> Iterator[RenderableType]:
    """Yield the summary of a page, a table of its hosts and, with `tree`, the tree of its resources."""
    facts = describe.summary(page)
    yield Text(f"{facts['name']}  {facts['url']}", style="bold")
    for label, value in _facts(facts).items():
        yield from filled([f"{label:{LABEL}}{value}"], width, indent=" " * LABEL)
    yield Text()
    yield from tabled(_host_grid(facts), width)
    if tree:
        yield Text()
        yield _resource_tree(page)
    yield from (Text(f"note: {note}", style="dim") for note in page.notes)


def _facts(facts: Mapping[str, Any]) -> dict[str, str]:
    down, up, bodies = (size(facts[key]) for key in ("bytes_down", "bytes_up", "body_bytes"))
    longest, at_end = _ms(facts["processing_us_longest_chain"]), _ms(facts["load_event_processing_us"])
    largest = (f"{_name(large['url'])} ({size(large['body_bytes'])})" for large in facts["largest"])
    return {
        "source": facts["source"],
        "requests": f"{facts['requests']} to {plural(facts['hosts'], 'host')},"
        f" {plural(facts['redirects'], 'redirect')}",
        "connections": f"up to {facts['connections']} ({describe.CONNECTIONS_PER_HOST} per host)",
        "bytes": f"{down} down ({bodies} in bodies), {up} up",
        "types": _counts(facts["types"]),
        "phases": _counts(facts["phases"]),
        "initiators": f"{facts['initiators']}; longest chain {plural(facts['depth'], 'resource')}",
        "server think": f"{_ms(facts['server_think_us'])} over all requests",
        "processing": f"{longest} on the slowest chain, {at_end} before the load event",
        "largest": ", ".join(largest),
        "digest": facts["digest"][:16],
    }


def _host_grid(facts: Mapping[str, Any]) -> Grid:
    columns = (
        Column("host", "key", wraps=True),
        *figures("requests", "down", "up", "connections"),
        Column("types", "words", wraps=True),
    )
    rows = (
        (
            *(host["host"], str(host["requests"]), size(host["bytes_down"]), size(host["bytes_up"])),
            *(str(host["connections"]), _counts(host["types"])),
        )
        for host in facts["by_host"]
    )
    return listing(columns, rows)


def _resource_tree(page: Page) -> Tree:
    """Return the tree of resources, each below its initiator. Avoid recursion: the tree may be very deep."""
    branches: list[Tree] = []
    for index, resource in enumerate(page.resources):
        label = _label(index, resource)
        above = resource.initiator
        branches.append(Tree(label) if above is None else branches[above].add(label))
    return branches[0]


def _label(index: int, resource: Resource) -> Text:
    shown = resource.url if len(resource.url) <= SHOWN_URL else resource.url[: SHOWN_URL - 1] + "…"
    facts = [resource.type, size(resource.body_bytes)]
    if resource.status != 200:
        facts.append(str(resource.status))
    if resource.initiator_at_bytes is not None:
        facts.append(f"after {size(resource.initiator_at_bytes)}")
    if resource.processing_us:
        facts.append(f"+{_ms(resource.processing_us)}")
    if resource.server_think_us:
        facts.append(f"think {_ms(resource.server_think_us)}")
    if resource.phase != "load":
        facts.append(resource.phase)
    return Text.assemble((f"{index} ", "dim"), shown, (plain("  " + ", ".join(facts)), "dim"))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _name(url: str) -> str:
    """Return the last segment of a URL's path, or the host if the path ends with a slash."""
    name = urls.target_of(url).partition("?")[0].rpartition("/")[2] or urls.host_of(url)
    return name if len(name) <= SHOWN_NAME else name[: SHOWN_NAME - 1] + "…"


def _ms(us: int) -> str:
    return time(us / 1000)
