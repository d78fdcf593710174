#!/usr/bin/env python3
"""Print the handshake's share of cold requests under several conditions, as Markdown.

The TFO paper's Figure 1 has 8 to 28 % in Google's logs (docs/measurements/published-tables.md).

.venv/bin/python tools/handshake_share.py
"""

from collections.abc import Iterator
from typing import Any

from fastopen import Experiment
from fastopen.analysis.attribution import analyse_run
from fastopen.analysis.attribution.cold import ColdRequests, cold_requests
from fastopen.experiments import make_plan
from fastopen.pages import Page, load_pages
from fastopen.workflows.run import run_in_memory

PAPER = ("amazon", "nytimes", "wsj", "wikipedia-tcp")
RECORDED = ("bbc-2015", "mytoys-2017", "wikipedia-2018", "thegreenwebfoundation-2020", "google-2026")
HOME = {"rtt": ["20ms", "100ms", "200ms"], "down": "4mbit", "up": "256kbit"}
WITHOUT = {"down": "none", "up": "none"}
OLD = {"initial_window": 3}


def pages(names: tuple[str, ...], think_ms: int | None = None) -> list[Page]:
    """Return packaged pages. If `think_ms` is given, every server thinks for so long before each answer."""
    found = [one.page for one in load_pages(list(names))]
    if think_ms is None:
        return found
    changed = {"server_think_us": 1000 * think_ms}
    return [
        page.model_copy(update={"resources": tuple(one.model_copy(update=changed) for one in page.resources)})
        for page in found
    ]


def conditions() -> Iterator[tuple[str, list[Page], dict[str, Any]]]:
    """Yield the name of each row, its pages, and the settings that differ from the paper's link."""
    yield "the paper's pages as packaged", pages(PAPER), {}
    yield "no rate limit", pages(PAPER), WITHOUT
    yield "1 Mbit/s down, 128 kbit/s up", pages(PAPER), {"down": "1mbit", "up": "128kbit"}
    yield "no processing in the browser", pages(PAPER), {"processing_scale": 0}
    yield "initial window 3", pages(PAPER), OLD
    for think_ms in (50, 100, 200, 400):
        yield f"initial window 3, servers think for {think_ms} ms", pages(PAPER, think_ms), OLD
    yield "five recorded pages, recorded think times", pages(RECORDED), {}


def row(name: str, found: list[ColdRequests]) -> str:
    """Return a row of the table: medians over cold requests for each RTT, then shares of all requests."""
    figures = [f"{one.share:.0f}" for one in found] + [f"{one.share_of_all:.0f}" for one in found]
    return f"| {name} | {' | '.join(figures)} |"


def main() -> None:
    """Load the pages under all conditions in virtual time, and print the table. Takes a minute or two."""
    rtts = [rtt.removesuffix("ms") for rtt in HOME["rtt"]]
    heads = [f"{kind}, {rtt} ms" for kind in ("cold", "all") for rtt in rtts]
    print(f"| condition | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for name, chosen, changes in conditions():
        settings = {**HOME, "tls": "none", "transports": ["off", "warm"], **changes}
        asked = Experiment(*chosen, seed=1, **settings).asked
        with run_in_memory(make_plan(asked, chosen, "virtual"), None, None, lambda _: None) as done:
            print(row(name, cold_requests(analyse_run(done.store))), flush=True)


if __name__ == "__main__":
    main()
