"""Define `fastopen validate bodies`: replay recorded bodies, and compare the requests with the recording."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from rich.text import Text
from typer import Argument, Option

from fastopen.apps.validate.page_load_options import PageLoadOptions, one_network
from fastopen.cli.output import console, exit_if, print_grid, print_json, shown
from fastopen.cli.progress import page_watchers
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import JsonOption, QuietOption, with_settings
from fastopen.common.files import make_folder, write_file
from fastopen.common.grid import entries, figures, keys, listing
from fastopen.contract import LoadRecord, Origins
from fastopen.contract.client_kinds import CHROMIUM
from fastopen.experiments import BASELINE
from fastopen.pages import ImportedPage
from fastopen.workflows.differences import TwoTimes

# The maximum number of requests to list for a page, and of characters of each listed request.
SHOWN: Final = 5
WIDTH: Final = 150


@dataclass(frozen=True)
class BodiesValidation(TwoTimes):
    """A comparison of a page's recording with a replay of its responses in Chromium. The recording has
    `recorded` requests. Chromium made `asked` of them, and `missing` lists the others. `matched` is the
    number of Chromium's requests with a recorded response. For `matched_nearest` of them, the query or port
    differs from the recording. `unmatched` lists the requests without a recorded response, as method and URL.
    `plt_ms` is the page load time of the replay; None if the load did not finish."""

    page: str
    recorded: int
    asked: int
    missing: tuple[str, ...]
    matched: int
    matched_nearest: int
    unmatched: tuple[str, ...]
    recorded_bytes: int
    """The size of the recorded bodies."""
    received_bytes: int
    recorded_plt_ms: float | None
    """The page load time in the recording, over the recorded network."""
    plt_ms: float | None
    invalid: tuple[str, ...]
    """The reasons why the load is invalid."""
    screenshots: dict[str, bytes | None]
    """Maps `recorded` and `replayed` to PNG screenshots, None if missing. File names contain these keys."""

    @property
    def asked_percent(self) -> float:
        return 100 * self.asked / self.recorded

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        return self.recorded_plt_ms, self.plt_ms

    def as_json(self) -> dict[str, Any]:
        names = (
            *("page", "recorded", "asked", "asked_percent", "missing", "matched", "matched_nearest"),
            *("unmatched", "recorded_bytes", "received_bytes", "recorded_plt_ms", "plt_ms"),
            *("difference_percent", "invalid"),
        )
        return {name: getattr(self, name) for name in names}


@with_settings
def bodies(
    pages: Annotated[list[str], Argument(help="Archives: WARC, WACZ, Mahimahi.", metavar="PAGE...")],
    rtt: Annotated[str, Option(help="RTT.")] = "20ms",
    down: Annotated[str, Option(help="Rate to the client.")] = "none",
    up: Annotated[str, Option(help="Rate from the client.")] = "none",
    screenshots: Annotated[
        Path | None, Option(help="Folder for screenshots of the browser.", metavar="FOLDER")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    *,
    reading: Reading,
    loads: PageLoadOptions,
) -> None:
    """Load each page in Chromium with its recorded responses, and compare its requests with the recording.

    Exit codes: 0 done; 1 a load is invalid."""
    networks = [one_network(rtt, down, up)]
    client = {"kind": CHROMIUM.label, "screenshot": screenshots is not None}
    found: list[BodiesValidation] = []
    imported = reading.pages(pages, quiet=quiet)
    with page_watchers(quiet=quiet) as watch:
        for one in imported:
            watcher, recorded = watch(one.page.name), Origins(bodies="recorded")
            with loads.run(one, networks, client, [BASELINE.name], watcher, origins=recorded) as run:
                documents = [document for row, document in run.store.documents() if not row.superseded]
            found += (_validated(one, document) for document in documents)
    if screenshots is not None:
        make_folder(screenshots)
        for load in found:
            for name, picture in load.screenshots.items():
                if picture is not None:
                    write_file(screenshots / f"{load.page.replace('/', '_')}.{name}.png", picture)
    if json:
        print_json(
            {"format": "fastopen-bodies/1", "engine": loads.engine, "loads": [one.as_json() for one in found]}
        )
    else:
        _print(found)
    exit_if(any(one.invalid for one in found))


def _validated(imported: ImportedPage, document: dict[str, Any]) -> BodiesValidation:
    record = LoadRecord.model_validate(document)
    picture = (document.get("browser") or {}).get("screenshot_png")
    resources = imported.page.resources
    answered = [request for request in record.requests if request.status is not None]
    missing = set(range(len(resources))) - {request.resource for request in answered}
    recorded_us = imported.recorded_plt_us
    return BodiesValidation(
        page=imported.page.name,
        recorded=len(resources),
        asked=len(resources) - len(missing),
        missing=tuple(f"{resources[one].method} {resources[one].url}" for one in sorted(missing)),
        matched=len(answered),
        matched_nearest=sum(request.url is not None for request in answered),
        unmatched=tuple(record.unmatched),
        recorded_bytes=imported.page.body_bytes(),
        received_bytes=sum(request.body_bytes for request in answered),
        recorded_plt_ms=None if recorded_us is None else recorded_us / 1000,
        plt_ms=record.plt_ms,
        invalid=tuple(record.reasons),
        screenshots={
            "recorded": imported.screenshot,
            "replayed": None if picture is None else base64.b64decode(picture),
        },
    )


def _print(found: list[BodiesValidation]) -> None:
    columns = (
        *keys("page"),
        *figures("re-\ncorded", "\nasked", "\n%", "mat-\nched", "near-\nest", "unmat-\nched"),
        *figures("recorded\nkB", "received\nkB", "recorded\nPLT ms", "\nPLT ms", "apart\n%"),
    )
    rows = (
        entries(
            *(one.page, str(one.recorded), str(one.asked), shown(one.asked_percent)),
            *(str(count) for count in (one.matched, one.matched_nearest, len(one.unmatched))),
            *(shown(size / 1000) for size in (one.recorded_bytes, one.received_bytes)),
            *(shown(ms) for ms in one.times_ms),
            shown(one.difference_percent, sign=True),
            tone="notable" if one.invalid else "",
        )
        for one in found
    )
    print_grid(listing(columns, rows))
    screen = console()
    for one in found:
        for line in _notes(one):
            screen.print(Text(f"{one.page}: {line}"))
    legend = (
        "recorded: requests of the recording; asked: those that Chromium made; matched: requests that the"
        " recording answers, nearest: by another query or port; unmatched: answered with 404, or of unknown"
        " hosts."
    )
    screen.print(Text(legend, style="dim"))


def _notes(one: BodiesValidation) -> Iterator[str]:
    for what, listed in (("not requested", one.missing), ("not in the recording", one.unmatched)):
        yield from (f"{what}: {request[:WIDTH]}" for request in listed[:SHOWN])
        if len(listed) > SHOWN:
            yield f"{what}: {len(listed) - SHOWN} more (--json lists them)"
    yield from (f"invalid: {reason}" for reason in one.invalid[:2])
