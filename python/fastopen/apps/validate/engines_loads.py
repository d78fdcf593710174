"""Compare the engines: run the same cells in real and in virtual time, and check the difference."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fastopen.analysis.statistics import CellResult
from fastopen.contract import Network
from fastopen.experiments import (
    BASELINE,
    HEADLINE,
    ArmName,
    EngineName,
    Experiment,
    Plan,
    Setup,
    make_plan,
    setups_asked,
)
from fastopen.pages import Page
from fastopen.runs import RunStore
from fastopen.workflows.differences import TwoTimes
from fastopen.workflows.run import Watch, run_in_memory

# Delayed acknowledgements wait for a tick of the kernel's clock, of which there are 250 per second.
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
    f"Engines may differ by {TICK_MS:g} ms (one tick of the kernel's clock), {REQUEST_MS:g} ms of"
    f" processing a request, {HANDSHAKE_MS:g} ms a TLS handshake and one segment without data a connection,"
    " where segments were retransmitted by"
    f" {WHEEL_MS:g} ms more (how exact the kernel's timers are); ways of making the link by"
    f" {TICK_MS:g} ms; the numbers of used connections with data in their SYN by less than one a load."
)
ARMS: Final[list[ArmName]] = [BASELINE.name, HEADLINE.name]


@dataclass(frozen=True)
class EngineComparison(TwoTimes):
    """One cell on both engines. Times are in milliseconds, None if no load was valid."""

    page: str
    network: Network
    arm: str
    requests: int
    setup: Setup
    host: CellResult
    virtual: CellResult
    program_link: CellResult
    """The cell on the virtual engine, with a link by fastopen's model instead of the kernel's netem."""

    @property
    def allowed_ms(self) -> float:
        """Return the largest allowed difference between the engines' page load times, in ms: see RULE."""
        connections = self.virtual.connections / max(len(self.virtual.plts_ms), 1)
        rate = self.network.up.rate_bit_per_s
        bare_ms = 0.0 if rate is None else connections * BARE_SEGMENT_BITS / rate * 1000
        again = any(cell.retransmitted for cell in (self.host, self.virtual))
        encrypted_ms = 0.0 if self.setup.tls is None else connections * HANDSHAKE_MS
        working_ms = REQUEST_MS * self.requests + encrypted_ms
        return TICK_MS + working_ms + bare_ms + (WHEEL_MS if again else 0.0)

    @property
    def session(self) -> str | None:
        """Return the TLS session; None for cleartext."""
        return None if self.setup.tls is None else self.setup.tls.session

    @property
    def flight(self) -> str:
        """Return the HTTP version and the session in words."""
        version = f"HTTP/{self.setup.origins.http}"
        return version if self.session is None else f"{version}, session {self.session}"

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        return self.virtual.plt_ms_median, self.host.plt_ms_median

    @property
    def link_difference_ms(self) -> float | None:
        """Return how much longer the PLT is with the program's link than with the kernel's, in ms."""
        program, kernel = self.program_link.plt_ms_median, self.virtual.plt_ms_median
        return None if program is None or kernel is None else program - kernel

    @property
    def host_range_ms(self) -> tuple[float, float] | None:
        plts = self.host.plts_ms.values()
        return (min(plts), max(plts)) if plts else None

    def disagreement(self) -> str:
        """Return a description of the disagreement; empty if the engines agree."""
        if self.host_range_ms is None or self.difference_ms is None or self.link_difference_ms is None:
            return "no valid load"
        low, high = self.host_range_ms
        virtual = self.virtual.plt_ms_median or 0.0
        if max(low - virtual, virtual - high) > self.allowed_ms:
            return f"engines differ by more than {self.allowed_ms:g} ms"
        if abs(self.link_difference_ms) > TICK_MS:
            return f"links differ by more than {TICK_MS:g} ms"
        shares = [_share(cell) for cell in (self.host, self.virtual, self.program_link)]
        # On the host, milliseconds decide if a late connection is still used, so one per load may differ.
        if (max(shares) - min(shares)) * self.virtual.connections / len(self.virtual.plts_ms) >= 1:
            return "evidence differs"
        return ""

    @property
    def noisy(self) -> bool:
        spread = self.host_range_ms
        return spread is not None and spread[1] - spread[0] > self.allowed_ms

    def as_json(self) -> dict[str, Any]:
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
            "syn_data": {
                name: [cell.syn_data_connections, cell.connections]
                for name, cell in (
                    ("host", self.host),
                    ("virtual", self.virtual),
                    ("program_link", self.program_link),
                )
            },
            "noisy": self.noisy,
            "complaint": self.disagreement(),
        }


def compare_engines(
    pages: Iterable[tuple[Page, str]],
    networks: Sequence[Network],
    repeats: int,
    http: str,
    session: str | None,
    *,
    seed: int,
    kernel: str | None,
    jobs: int | None,
    watch: Callable[[str], Watch],
) -> list[EngineComparison]:
    """Load each page over networks, versions of HTTP and sessions on both engines. Raises MachineError."""
    found: list[EngineComparison] = []
    for page, profile in pages:
        watcher = watch(page.name)
        # This key share gives a ClientHello that fits into a SYN.
        encrypted = {"session": session or "none", "key_share": "x25519"}
        setups = setups_asked(
            http=http, profile=profile, **encrypted if session or "3" in http.split(",") else {"tls": "none"}
        )
        asked = Experiment(
            name="agreement",
            pages=[page.name],
            networks=list(networks),
            setups=setups,
            arms=ARMS,
            engines=["host", "virtual"],
            repeats=repeats,
            seed=seed,
        )
        by_program = [network.model_copy(update={"link": "program"}) for network in networks]
        again = asked.model_copy(update={"networks": by_program, "engines": ["virtual"]})
        plan = make_plan(asked, [page])
        cells = _by_cell(_results(plan, kernel, jobs, watcher))
        linked = _by_cell(_results(make_plan(again, [page]), kernel, jobs, watcher))
        found += (
            EngineComparison(
                page=page.name,
                network=network,
                arm=arm,
                requests=len(page.resources),
                setup=setup,
                host=cells["host", at, number, arm],
                virtual=cells["virtual", at, number, arm],
                program_link=linked["virtual", at, number, arm],
            )
            for at, setup in enumerate(setups)
            for number, network in enumerate(networks)
            for arm in ARMS
            if ("host", at, number, arm) in cells
        )
    return found


def _results(plan: Plan, kernel: str | None, jobs: int | None, watch: Watch) -> list[CellResult]:
    """Run the plan in memory. Return the results, which count only connections that carried a request."""
    with run_in_memory(plan, kernel, jobs, watch) as run:
        used = used_connections(run.store)
    return [
        replace(
            result,
            connections=len(used[result.cell.index]),
            syn_data_connections=sum(used[result.cell.index]),
        )
        for result in run.results.cells
    ]


def used_connections(store: RunStore) -> dict[int, list[bool]]:
    """Map each cell to a flag per connection that carried a request: True if its SYN carried data."""
    used: dict[int, list[bool]] = defaultdict(list)
    for load, record in store.load_records(row for row in store.loads() if row.valid and not row.superseded):
        used[load.cell] += [one.carried_syn_data for one in record.connections if one.requests]
    return used


def _by_cell(cells: Iterable[CellResult]) -> dict[tuple[EngineName, int, int, str], CellResult]:
    return {(one.cell.engine, one.cell.setup, one.cell.network, one.cell.arm.name): one for one in cells}


def _share(cell: CellResult) -> float:
    """Return the share of used connections with data in the SYN."""
    return cell.syn_data_connections / cell.connections if cell.connections else 0.0


def verdict(found: Sequence[EngineComparison]) -> str:
    """Return the verdict: the first cell that disagrees, or the largest differences if all cells agree."""
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
        f" ({abs(widest.difference_percent or 0.0):.1f} %) at most, the two ways of making the link by"
        f" {links:.2f} ms. The host adds the time that programs and kernel take to work, which is"
        " free in virtual time."
    )
