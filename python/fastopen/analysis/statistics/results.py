"""Compute the results of a run, on which tables, JSON documents and verdicts are based."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Any

from fastopen.analysis.statistics.bound import BEYOND_BOUND_NOTE, LOSS_NOTE
from fastopen.analysis.statistics.browser_metrics import BrowserMetrics, browser_metrics
from fastopen.analysis.statistics.cells import CellResult, summarise
from fastopen.analysis.statistics.corpus import Distribution, distributions
from fastopen.analysis.statistics.first_flight import FirstFlight, first_flights, syn_data_max
from fastopen.analysis.statistics.flight_savings import FlightSaving, flight_savings
from fastopen.analysis.statistics.listeners import ServerUse, server_use
from fastopen.common.grouping import grouped
from fastopen.experiments import (
    ArmName,
    Comparison,
    Experiment,
    PublishedCell,
    VaryingFactors,
    published_cells,
    varying_factors,
    without_chance,
)
from fastopen.pages import Page
from fastopen.runs import LoadRow, RunStore


@dataclass(frozen=True)
class Results:
    """The results of a run. `cells`: the result of each cell."""

    experiment: Experiment
    status: str
    environment: dict[str, Any]
    pages: dict[str, Page]
    """Pages keyed by name, in the order of the tables."""
    cells: list[CellResult]
    measured_rtt_ms: dict[tuple[str, int], float]
    """The median RTT measured in the emulated networks, for each page and network."""
    published: dict[tuple[str, int], PublishedCell]
    """The published figures to compare with the measured results, for each page and network."""
    browser_metrics: dict[int, BrowserMetrics] = field(default_factory=dict)
    """Figures that browsers reported, keyed by cell index. Cells without such figures are left out."""
    first_flights: dict[int, FirstFlight] = field(default_factory=dict)
    """Statistics of connections' first packets in each cell's first valid repeat, keyed by cell index."""
    flight_savings: dict[int, FlightSaving] = field(default_factory=dict)
    """Savings from shorter handshakes (resumed TLS, early data, TFO, QUIC), keyed by cell index."""
    server_use: ServerUse | None = None
    """The kernel's reports on external servers; None if none of them was used with TFO."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """The reasons why cells are slower with TFO, or slower than over a longer RTT, keyed by cell index.
    Like `setup_reasons`, this is empty unless set by `attribution.with_reasons`."""
    setup_reasons: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """The reasons why a cell is slower than another cell with an older version of HTTP or a simpler kind of
    TLS session, keyed by the indices of the slower and the faster cell."""

    def comparisons(self, page: str) -> dict[Comparison, dict[ArmName, CellResult]]:
        """Map each comparison (row of the page's table), in the table's order, to results keyed by arm."""
        rows = grouped((one.cell.comparison, one) for one in self.cells if one.cell.page == page)
        return {row: {one.cell.arm.name: one for one in ones} for row, ones in rows.items()}

    def groups_differing_in(self, cells: Iterable[CellResult], *names: str) -> Iterable[list[CellResult]]:
        """Group results of the same page that differ only in the arm and in the factors called `names`."""
        others = self.factors.besides(*names)
        keyed = (((one.cell.page, self.factors.phrases(one.cell, others)), one) for one in cells)
        return grouped(keyed).values()

    def metrics_of(self, page: str) -> list[BrowserMetrics]:
        """Return the figures that browsers reported for the cells of this page."""
        found = (self.browser_metrics.get(one.cell.index) for one in self.cells if one.cell.page == page)
        return [one for one in found if one is not None]

    def has_random_loss(self, cell: CellResult) -> bool:
        """Return True if the network of this result loses packets at random."""
        network = self.experiment.networks[cell.cell.network]
        return bool(network.down.loss or network.up.loss)

    def hello_beyond_syn(self, cell: CellResult) -> bool:
        """Return True if the ClientHello of this result does not fit into a SYN, so that TFO saves no round
        trip of a TLS connection, although every TCP connection had data in its SYN."""
        flight = self.first_flights.get(cell.cell.index)
        tls = self.experiment.setups[cell.cell.setup].tls
        if tls is None or flight is None or flight.client_hello_bytes is None:
            return False
        with_syn = cell.connections - (cell.loads - cell.invalid) * flight.quic_connections
        room = syn_data_max(self.experiment.networks[cell.cell.network])
        return 0 < with_syn == cell.syn_data_connections and flight.client_hello_bytes > room

    def bound_note(self, beaten: Iterable[CellResult]) -> str:
        """Return a note on savings that exceed their upper bound, to print below a table. `beaten`: the
        results with such savings. If there are none, the note is empty."""
        cells = list(beaten)
        if not cells:
            return ""
        at_random = any(map(self.has_random_loss, cells))
        return f"{BEYOND_BOUND_NOTE} {LOSS_NOTE}" if at_random else BEYOND_BOUND_NOTE

    @cached_property
    def factors(self) -> VaryingFactors:
        """Return the factors (settings such as the RTT) that have more than one value in this run."""
        engines = dict.fromkeys(result.cell.engine for result in self.cells)
        return varying_factors(self.experiment, tuple(engines))

    @cached_property
    def distributions(self) -> list[Distribution]:
        """Return the distribution of the savings over all pages for each combination of network, setup,
        engine and use of TFO. Return an empty list for fewer than PAGES_MIN pages."""
        return list(distributions(self))


def collect(store: RunStore, loads: Sequence[LoadRow] | None = None) -> Results:
    """Read a run and compute its results. `loads`: the run's loads, if they have been read already."""
    experiment = store.experiment()
    cells = store.cells()
    unchanging = {cell.comparison for cell in cells if without_chance(experiment, cell.comparison)}
    found = store.loads() if loads is None else loads
    summaries = summarise(cells, found, unchanging, store.planned_repeats(), vary=experiment.vary is not None)
    rtts = grouped(
        ((page, network), experiment.networks[network].rtt_us + off_us)
        for page, network, off_us in store.rtt_deviations()
    )
    results = Results(
        experiment=experiment,
        status=store.status,
        environment=store.environment,
        pages=store.pages(),
        # TFO cannot save time over QUIC, which has no SYN, so these cells have no bound.
        cells=[
            replace(one, bound=None) if experiment.setups[one.cell.setup].origins.all_quic else one
            for one in summaries
        ],
        measured_rtt_ms={key: median(values) / 1000 for key, values in rtts.items()},
        published=published_cells(experiment),
        browser_metrics=browser_metrics(store, experiment, cells, found),
        first_flights=first_flights(store, experiment, cells, found),
        server_use=server_use(store, experiment, cells, found),
    )
    return replace(results, flight_savings=flight_savings(store, results, found))
