"""Define `fastopen validate engines`: run the same cells in real and in virtual time, and compare them."""

import os
from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Final

import typer
from rich.text import Text

from fastopen.apps.validate.engines_loads import RULE, EngineComparison, compare_engines, verdict
from fastopen.cli.output import EXIT_FAULTS, console, nothing_to_compare_when_interrupted, print_json, shown
from fastopen.cli.progress import page_watchers
from fastopen.cli.shared_options import JobsOption, JsonOption, KernelOption, QuietOption
from fastopen.cli.tables import print_grid
from fastopen.common.errors import InputError
from fastopen.common.grid import Grid, entries, figures, keys
from fastopen.contract import Network
from fastopen.engines.kernels import find
from fastopen.experiments import networks_asked
from fastopen.pages import load_pages

# A small page, a page with a connection for each resource, and a page with many resources on few connections.
PAGES: Final = "example,cs244-2015,wikipedia-tcp"
# The client profile for which a page was written, if it is not the browser's.
PROFILES: Final = {"cs244-2015": "mget"}
WIDTH: Final = 80


def engines(
    pages: Annotated[str, typer.Option(help="Packaged pages or files, with commas.")] = PAGES,
    rtt: Annotated[str, typer.Option(help="RTTs, with commas.")] = "20ms,100ms",
    down: Annotated[str, typer.Option(help="Rate to the client.")] = "4mbit",
    up: Annotated[str, typer.Option(help="Rate from the client.")] = "256kbit",
    unlimited: Annotated[
        bool, typer.Option("--unlimited/--limited", help="Also load the longest RTT without rate limits.")
    ] = True,
    http: Annotated[str, typer.Option(help="Versions of HTTP, with commas; with 3 over TLS.")] = "1.1",
    session: Annotated[
        str | None, typer.Option(help="TLS sessions: none, resumed, early. (default: cleartext)")
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", "-n", min=1, help="Loads of each cell on the host.")
    ] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of loads.")] = 1,
    kernel: KernelOption = None,
    jobs: JobsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Load the same cells on both engines and print how much they differ."""
    booted = find(kernel)
    imported = [one.page for one in load_pages([name.strip() for name in pages.split(",")])]
    if not imported:
        raise InputError("no page given", "--pages")
    with nothing_to_compare_when_interrupted(), page_watchers(quiet=quiet) as watch:
        found = compare_engines(
            [(page, PROFILES.get(page.name, "browser")) for page in imported],
            _networks(rtt, down, up, unlimited=unlimited),
            repeats,
            http,
            session,
            seed=seed,
            kernel=kernel,
            # More jobs in parallel would disturb each other, and differences of milliseconds matter.
            jobs=jobs or len(os.sched_getaffinity(0)),
            watch=watch,
        )
    agree = not any(one.disagreement() for one in found)
    if json:
        cells = [one.as_json() for one in found]
        print_json(
            {
                "format": "fastopen-agreement/1",
                "kernel": booted.name,
                "agree": agree,
                "verdict": verdict(found),
                "rule": RULE,
                "cells": cells,
            }
        )
    else:
        _print(found, booted.name)
    if not agree:
        raise typer.Exit(EXIT_FAULTS)


def _networks(rtt: str, down: str, up: str, *, unlimited: bool) -> list[Network]:
    def asked(down: str, up: str) -> list[Network]:
        return networks_asked(rtt=rtt, down=down, up=up)

    limited, free = asked(down, up), asked("none", "none")
    longest = max(free, key=lambda network: network.rtt_us)
    return [*limited, *([longest] if unlimited and longest not in limited else [])]


def _print(found: Sequence[EngineComparison], kernel: str) -> None:
    screen = console()
    several = len({one.flight for one in found}) > 1 or found[0].flight != "HTTP/1.1"
    for (page, flight), cells in groupby(found, key=lambda one: (one.page, one.flight)):
        print_grid(_grid(f"{page}, {flight}" if several else page, list(cells)))
    screen.width = min(screen.width, WIDTH)
    style = "green" if not any(one.disagreement() for one in found) else "red"
    screen.print(Text(verdict(found), style=style))
    noisy = sum(one.noisy for one in found)
    if noisy:
        message = (
            f"{noisy} of {len(found)} cells: the host's own loads differ by more than engines may;"
            " use a quieter machine."
        )
        screen.print(Text(message, style="yellow"))
    screen.print()
    legend = (
        "host: median PLT, and slowest less fastest load; apart: host less virtual; link: PLT with the link"
        f" made by fastopen's model, less that with the kernel's. {RULE} Kernel {kernel}."
    )
    screen.print(Text(legend, style="dim"))


def _grid(title: str, cells: Sequence[EngineComparison]) -> Grid:
    columns = (
        *keys("RTT ms, down/up\nMbit/s", "arm"),
        *figures("host\nms", "spread\nms", "virtual\nms", "apart\nms", "\n%"),
        *figures("link\nms", "SYN data\nhost virtual"),
    )
    rows = []
    for one in cells:
        network, ends = one.network, one.host_range_ms
        rates = f"{_rate(network.down.rate_bit_per_s)}/{_rate(network.up.rate_bit_per_s)}"
        carried = (f"{cell.syn_data_connections}/{cell.connections}" for cell in (one.host, one.virtual))
        rows.append(
            entries(
                *(f"{network.rtt_us / 1000:g}, {rates}", one.arm, shown(one.host.plt_ms_median)),
                *(shown(None if ends is None else ends[1] - ends[0]), shown(one.virtual.plt_ms_median)),
                *(shown(one.difference_ms, sign=True), shown(one.difference_percent, sign=True)),
                *(shown(one.link_difference_ms, sign=True, digits=2), " ".join(carried)),
                tone="bad" if one.disagreement() else "",
            )
        )
    return Grid(title, columns, tuple(rows), grouped=True)


def _rate(bit_per_s: int | None) -> str:
    return "-" if bit_per_s is None else f"{bit_per_s / 1e6:.3g}"
