"""Define `fastopen validate clients`: compare page loads by Chromium and by the built-in loader."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Annotated, Any, Final

from rich.text import Text
from typer import Argument, Option

from fastopen.apps.validate.page_load_options import ARMS, PageLoadOptions, SamplesOption, one_network
from fastopen.cli.output import console, exit_if, print_grid, print_json, shown
from fastopen.cli.progress import page_watchers
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import JsonOption, QuietOption, with_settings
from fastopen.common.grid import entries, figures, keys, listing
from fastopen.contract import LoadRecord
from fastopen.contract.client_kinds import CHROMIUM, LOADER
from fastopen.pages import ImportedPage, Page
from fastopen.runs import RunStore
from fastopen.workflows.differences import TwoTimes
from fastopen.workflows.page_loads import last_records

COMPARED: Final = (LOADER.label, CHROMIUM.label)
# A load, and its number of `unlike` resources (see ClientComparison); None if there is no load.
Found = tuple[LoadRecord, int] | None


@dataclass(frozen=True)
class ClientComparison(TwoTimes):
    """A page load by the built-in loader and one by Chromium, with the same arm. The times are page load
    times, or medians of several samples; None if a load did not finish. The loader made `requests` requests.
    `missing` lists the URLs of those that Chromium did not make, and `extra` is the number that only Chromium
    made. `unlike` is the number of resources that Chromium requests earlier or later than the page
    defines, or not at all, because the synthetic bodies are too small."""

    page: str
    arm: str
    requests: int
    loader_ms: float | None
    chromium_ms: float | None
    missing: tuple[str, ...]
    extra: int
    invalid: tuple[str, ...]
    """The reasons why a load is invalid, each with the name of the client."""
    unlike: int

    @property
    def same_requests(self) -> bool:
        return not self.missing and not self.extra

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        """Return the times of the loader and of Chromium in ms; both are None unless both loads are valid."""
        return (None, None) if self.invalid else (self.loader_ms, self.chromium_ms)

    def as_json(self) -> dict[str, Any]:
        names = (
            *("requests", "same_requests", "missing", "extra", "unlike", "loader_ms", "chromium_ms"),
            *("difference_ms", "difference_percent", "invalid"),
        )
        return {"page": self.page, "transport": self.arm, **{name: getattr(self, name) for name in names}}


@with_settings
def clients(
    pages: Annotated[list[str], Argument(help="Packaged pages or files.", metavar="PAGE...")],
    rtt: Annotated[str, Option(help="RTT.")] = "100ms",
    down: Annotated[str, Option(help="Rate to the client.")] = "4mbit",
    up: Annotated[str, Option(help="Rate from the client.")] = "256kbit",
    repeats: SamplesOption = 1,
    json: JsonOption = False,
    quiet: QuietOption = False,
    *,
    reading: Reading,
    loads: PageLoadOptions,
) -> None:
    """Load each page with Chromium and with the loader, and print how much the loads differ.

    With --repeats, each load samples RTT, rates, think times and more around the given values, and the
    medians are compared. Exit codes: 0 done; 1 requests differ, or a load is invalid."""
    networks = [one_network(rtt, down, up)]
    imported = [one.page for one in reading.pages(pages, quiet=quiet)]
    both = {"kind": list(COMPARED)}
    found: list[ClientComparison] = []
    with page_watchers(quiet=quiet) as watch:
        for page in imported:
            watcher = watch(page.name)
            with loads.run(ImportedPage(page), networks, both, ARMS, watcher, draws=repeats) as run:
                found += _comparisons(page, run.store, repeats)
    if json:
        print_json(
            {
                "format": "fastopen-clients/1",
                "engine": loads.engine,
                "repeats": repeats,
                "same_requests": all(one.same_requests for one in found),
                "median_difference_percent": _median_percent(found),
                "loads": [one.as_json() for one in found],
            }
        )
    else:
        _print(found)
    exit_if(not all(one.same_requests and not one.invalid for one in found))


def _comparisons(page: Page, store: RunStore, draws: int) -> Iterator[ClientComparison]:
    """Yield two comparisons of the loader with Chromium from the page loads in a run: one without TFO, and
    one with TFO. Times are medians of `draws` samples."""
    cells, setups = store.cells(), store.experiment().setups
    found: dict[tuple[str, str, int], Found] = defaultdict(lambda: None)
    for row, record in last_records(store):
        cell = cells[row.cell]
        unlike = 0
        for world in store.world_records(row.job):
            if (gaps := world.fidelity_gaps) is not None:
                unlike = len({*gaps.left_out, *gaps.relocated, *gaps.early})
        found[setups[cell.setup].client.label, cell.arm.name, row.repeat] = (record, unlike)
    for arm in ARMS:
        loads = [[found[client, arm, draw] for client in COMPARED] for draw in range(draws)]
        yield _median([_compared(page, arm, loader, chromium) for loader, chromium in loads])


def _compared(page: Page, arm: str, loader: Found, chromium: Found) -> ClientComparison:
    wanted, asked = _asked(loader), _asked(chromium)
    unknown = 0 if chromium is None else chromium[0].unknown_requests
    return ClientComparison(
        page=page.name,
        arm=arm,
        requests=len(wanted),
        loader_ms=None if loader is None else loader[0].plt_ms,
        chromium_ms=None if chromium is None else chromium[0].plt_ms,
        missing=tuple(page.resources[one].url for one in sorted(wanted - asked)),
        extra=len(asked - wanted) + unknown,
        invalid=tuple(
            f"{client}: {reason}"
            for client, found in zip(COMPARED, (loader, chromium), strict=True)
            for reason in (["no load"] if found is None else found[0].reasons)
        ),
        unlike=0 if chromium is None else chromium[1],
    )


def _asked(found: Found) -> set[int]:
    return set() if found is None else {one.resource for one in found[0].requests if one.status is not None}


def _median(draws: Sequence[ClientComparison]) -> ClientComparison:
    def median_ms(times: Iterable[float | None]) -> float | None:
        known = [one for one in times if one is not None]
        return median(known) if len(known) == len(draws) else None

    return replace(
        draws[0],
        requests=max(one.requests for one in draws),
        loader_ms=median_ms(one.loader_ms for one in draws),
        chromium_ms=median_ms(one.chromium_ms for one in draws),
        missing=tuple(dict.fromkeys(url for one in draws for url in one.missing)),
        extra=max(one.extra for one in draws),
        invalid=tuple(dict.fromkeys(reason for one in draws for reason in one.invalid)),
        unlike=max(one.unlike for one in draws),
    )


def _median_percent(found: list[ClientComparison]) -> float | None:
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
    median_percent = _median_percent(found)
    if median_percent is not None:
        counted = sum(one.difference_percent is not None for one in found)
        line = f"Page load times are {median_percent:.1f} % apart in the median of {counted} loads."
        screen.print(Text(line))
    legend = (
        "missing: requested only by the loader; extra: only by Chromium; unlike: not as the page has it,"
        " since the bodies have no room. apart: Chromium minus loader."
    )
    screen.print(Text(legend, style="dim"))
