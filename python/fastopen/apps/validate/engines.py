"""Define `fastopen validate engines`: load pages in real time and in virtual time, and compare the times."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, product
from typing import Annotated, Any, Final

from rich.text import Text
from typer import Option

from fastopen.analysis.statistics import CellResult
from fastopen.apps.validate.page_load_options import ARMS
from fastopen.cli.output import console, exit_if, print_grid, print_json, shown
from fastopen.cli.progress import page_watchers
from fastopen.cli.shared_options import JobsOption, JsonOption, KernelOption, QuietOption
from fastopen.common.errors import InputError
from fastopen.common.grid import Grid, entries, figures, keys
from fastopen.contract import Network
from fastopen.engines.kernels import find
from fastopen.experiments import (
    ArmName,
    EngineName,
    Experiment,
    Plan,
    Setup,
    make_plan,
    networks_asked,
    setups_asked,
)
from fastopen.pages import Page, load_pages
from fastopen.runs import RunStore
from fastopen.workflows.differences import TwoTimes
from fastopen.workflows.run import ExecutedRun, run_in_memory

# Delayed acknowledgements wait for a tick of the kernel's clock, which has 250 ticks per second.
TICK_MS: Final = 4.0
# The longest computing time for a request on the host. In virtual time, computing takes no time.
REQUEST_MS: Final = 0.5
# The longest computing time for a TLS handshake: keys, a signature and its verification at both ends.
HANDSHAKE_MS: Final = 2.5
# A timer of 256 ms to 2 s can fire up to 8 ticks late: the granularity of its level of the timer wheel.
WHEEL_MS: Final = 8 * TICK_MS
# A segment without data, with time stamps. An end that closes a connection at once acknowledges the other
# end's FIN separately; an end that needs longer acknowledges it with its own FIN. Each connection may thus
# have one more segment on the uplink, depending on the processing time.
BARE_SEGMENT_BITS: Final = 8 * 52
RULE: Final = (
    f"Engines may differ by {TICK_MS:g} ms (one tick of the kernel's clock), plus {REQUEST_MS:g} ms for each"
    f" request, {HANDSHAKE_MS:g} ms for each TLS handshake and an empty segment for each connection, plus"
    f" {WHEEL_MS:g} ms if segments were retransmitted (the granularity of the kernel's timers)."
    f" The two implementations of the link may differ by {TICK_MS:g} ms. The numbers of used connections with"
    " data in their SYN may differ by less than one for each load."
)
Run = Callable[[Plan], ExecutedRun]
# A small page, a page with a connection for each resource, and a page with many resources on few connections.
PAGES: Final = "example,cs244-2015,wikipedia-tcp"
# The client profile for which a page was written, if it is not the browser's.
PROFILES: Final = {"cs244-2015": "mget"}
WIDTH: Final = 80


@dataclass(frozen=True)
class EngineComparison(TwoTimes):
    """The results of loading one page, with or without TFO (`arm`), in real time (`host`) and in virtual time
    (`virtual`). `program_link` has the results in virtual time over fastopen's link model instead of the
    kernel's netem. `requests` is the number of the page's resources."""

    page: str
    network: Network
    arm: str
    requests: int
    setup: Setup
    host: CellResult
    virtual: CellResult
    program_link: CellResult

    @property
    def allowed_ms(self) -> float:
        """Return the largest allowed difference between page load times in real and virtual time, in ms."""
        connections = self.virtual.connections / max(len(self.virtual.plts_ms), 1)
        rate = self.network.up.rate_bit_per_s
        bare_ms = 0.0 if rate is None else connections * BARE_SEGMENT_BITS / rate * 1000
        again = any(cell.retransmitted for cell in (self.host, self.virtual))
        encrypted_ms = 0.0 if self.setup.tls is None else connections * HANDSHAKE_MS
        working_ms = REQUEST_MS * self.requests + encrypted_ms
        return TICK_MS + working_ms + bare_ms + (WHEEL_MS if again else 0.0)

    @property
    def session(self) -> str | None:
        """Return the kind of TLS session (none, resumed, early); None for cleartext."""
        return None if self.setup.tls is None else self.setup.tls.session

    @property
    def flight(self) -> str:
        """Return the HTTP version and the TLS session as text, such as `HTTP/3, session early`."""
        version = f"HTTP/{self.setup.origins.http}"
        return version if self.session is None else f"{version}, session {self.session}"

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        """Return the median page load times in virtual and real time; each is None without a valid load."""
        return self.virtual.plt_ms_median, self.host.plt_ms_median

    @property
    def link_difference_ms(self) -> float | None:
        """Return the load time in ms with fastopen's link model minus that with netem; None if unknown."""
        program, kernel = self.program_link.plt_ms_median, self.virtual.plt_ms_median
        return None if program is None or kernel is None else program - kernel

    @property
    def host_range_ms(self) -> tuple[float, float] | None:
        plts = self.host.plts_ms.values()
        return (min(plts), max(plts)) if plts else None

    def disagreement(self) -> str:
        """Return a description of how results in real and virtual time disagree; empty if they agree."""
        if self.host_range_ms is None or self.difference_ms is None or self.link_difference_ms is None:
            return "no valid load"
        low, high = self.host_range_ms
        virtual = self.virtual.plt_ms_median or 0.0
        if max(low - virtual, virtual - high) > self.allowed_ms:
            return f"engines differ by more than {self.allowed_ms:g} ms"
        if abs(self.link_difference_ms) > TICK_MS:
            return f"links differ by more than {TICK_MS:g} ms"
        shares = [
            one.syn_data_connections / max(one.connections, 1)
            for one in (self.host, self.virtual, self.program_link)
        ]
        # In real time, chance decides if late connections carry requests: less than one a load may differ.
        if (max(shares) - min(shares)) * self.virtual.connections / len(self.virtual.plts_ms) >= 1:
            return "evidence differs"
        return ""

    @property
    def noisy(self) -> bool:
        """Return True if page load times in real time differ from each other by more than `allowed_ms`."""
        spread = self.host_range_ms
        return spread is not None and spread[1] - spread[0] > self.allowed_ms

    def as_json(self) -> dict[str, Any]:
        cells = {"host": self.host, "virtual": self.virtual, "program_link": self.program_link}
        return {
            "page": self.page,
            "rtt_ms": self.network.rtt_us / 1000,
            "down_bit_per_s": self.network.down.rate_bit_per_s,
            "up_bit_per_s": self.network.up.rate_bit_per_s,
            "http": self.setup.origins.http,
            "session": self.session,
            "transport": self.arm,
            "host_ms": self.host.plt_ms_median,
            "host_range_ms": self.host_range_ms,
            "virtual_ms": self.virtual.plt_ms_median,
            "difference_ms": self.difference_ms,
            "difference_percent": self.difference_percent,
            "allowed_ms": self.allowed_ms,
            "link_difference_ms": self.link_difference_ms,
            "syn_data": {name: [one.syn_data_connections, one.connections] for name, one in cells.items()},
            "noisy": self.noisy,
            "complaint": self.disagreement(),
        }


def compare_engines(
    page: Page, setups: list[Setup], networks: list[Network], repeats: int, seed: int, run: Run
) -> Iterator[EngineComparison]:
    """Load a page in real time and in virtual time, and compare the results. Yield a comparison for each
    setup and network, without and with TFO. `repeats` is the number of loads in real time. `seed` determines
    the order of loads. `run` is a function that executes a plan."""
    asked = Experiment(
        name="agreement",
        pages=[page.name],
        networks=networks,
        setups=setups,
        arms=ARMS,
        engines=["host", "virtual"],
        repeats=repeats,
        seed=seed,
    )
    by_program = [network.model_copy(update={"link": "program"}) for network in networks]
    again = asked.model_copy(update={"networks": by_program, "engines": ["virtual"]})
    cells, linked = (_cells(make_plan(one, [page]), run) for one in (asked, again))
    for (at, setup), (number, network), arm in product(enumerate(setups), enumerate(networks), ARMS):
        key = (at, number, arm)
        if key in cells["host"]:
            yield EngineComparison(
                *(page.name, network, arm, len(page.resources), setup),
                host=cells["host"][key],
                virtual=cells["virtual"][key],
                program_link=linked["virtual"][key],
            )


def _cells(plan: Plan, run: Run) -> dict[EngineName, dict[tuple[int, int, ArmName], CellResult]]:
    """Run a plan. Return the results of each engine, keyed by index of the setup, index of the network, and
    arm. The results ignore connections that carried no request."""
    with run(plan) as done:
        used = used_connections(done.store)
    found: dict[EngineName, dict[tuple[int, int, ArmName], CellResult]] = defaultdict(dict)
    for result in done.results.cells:
        cell, carried = result.cell, used[result.cell.index]
        counted = replace(result, connections=len(carried), syn_data_connections=sum(carried))
        found[cell.engine][cell.setup, cell.network, cell.arm.name] = counted
    return found


def used_connections(store: RunStore) -> dict[int, list[bool]]:
    """Map the index of each cell to a list with a value for each connection that carried a request in a valid
    load: True if the connection's SYN carried data."""
    used: dict[int, list[bool]] = defaultdict(list)
    for load, record in store.load_records(row for row in store.loads() if row.valid and not row.superseded):
        used[load.cell] += [one.carried_syn_data for one in record.connections if one.requests]
    return used


def verdict(found: Sequence[EngineComparison]) -> str:
    """Return a sentence that sums up the comparisons: the first disagreement of the engines, or the largest
    differences if they agree everywhere."""
    disagreements = [one for one in found if one.disagreement()]
    if disagreements:
        first = disagreements[0]
        flight = f"{first.flight}, " if len({one.flight for one in found}) > 1 else ""
        where = f"{first.page}, {flight}RTT {first.network.rtt_us / 1000:g} ms, {first.arm}"
        of_all = f"{len(disagreements)} of {len(found)} cells do not agree"
        return f"{of_all}; the first: {where}: {first.disagreement()}."
    widest = max(found, key=lambda one: abs(one.difference_ms or 0.0))
    links = max(abs(one.link_difference_ms or 0.0) for one in found)
    return (
        f"The engines agree: PLT differs by {abs(widest.difference_ms or 0.0):.1f} ms"
        f" ({abs(widest.difference_percent or 0.0):.1f} %) at most, with the two implementations of the link"
        f" by {links:.2f} ms. On the host, programs and kernel need time to compute, but not in virtual time."
    )


def engines(
    pages: Annotated[str, Option(help="Packaged pages or files, with commas.")] = PAGES,
    rtt: Annotated[str, Option(help="RTTs, with commas.")] = "20ms,100ms",
    down: Annotated[str, Option(help="Rate to the client.")] = "4mbit",
    up: Annotated[str, Option(help="Rate from the client.")] = "256kbit",
    unlimited: Annotated[
        bool, Option("--unlimited/--limited", help="Also load the longest RTT without rate limits.")
    ] = True,
    http: Annotated[str, Option(help="Versions of HTTP, with commas; with 3 over TLS.")] = "1.1",
    session: Annotated[
        str | None, Option(help="TLS sessions: none, resumed, early. (default: cleartext)")
    ] = None,
    repeats: Annotated[int, Option("--repeats", "-n", min=1, help="Loads of each cell on the host.")] = 5,
    seed: Annotated[int, Option(min=0, help="Seed of the order of loads.")] = 1,
    kernel: KernelOption = None,
    jobs: JobsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Load pages in real time and in virtual time, and print how much the page load times differ."""
    booted = find(kernel)
    imported = [one.page for one in load_pages([name.strip() for name in pages.split(",")])]
    if not imported:
        raise InputError("no page given", "--pages")
    networks = _networks(rtt, down, up, unlimited=unlimited)
    # More jobs than cores would disturb each other, and differences of milliseconds matter.
    most = jobs or len(os.sched_getaffinity(0))
    found: list[EngineComparison] = []
    with page_watchers(quiet=quiet) as watch:
        for page in imported:
            run = partial(run_in_memory, kernel=kernel, jobs=most, watch=watch(page.name))
            setups = _setups(http, session, PROFILES.get(page.name, "browser"))
            found += compare_engines(page, setups, networks, repeats, seed, run)
    agree = not any(one.disagreement() for one in found)
    if json:
        print_json(
            {
                "format": "fastopen-agreement/1",
                "kernel": booted.name,
                "agree": agree,
                "verdict": verdict(found),
                "rule": RULE,
                "cells": [one.as_json() for one in found],
            }
        )
    else:
        _print(found, booted.name)
    exit_if(not agree)


def _setups(http: str, session: str | None, profile: str) -> list[Setup]:
    if session is None and "3" not in http.split(","):
        return setups_asked(http=http, profile=profile, tls="none")
    # With this key share, the ClientHello fits into a SYN.
    return setups_asked(http=http, profile=profile, session=session or "none", key_share="x25519")


def _networks(rtt: str, down: str, up: str, *, unlimited: bool) -> list[Network]:
    limited = networks_asked(rtt=rtt, down=down, up=up)
    free = networks_asked(rtt=rtt, down="none", up="none")
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
