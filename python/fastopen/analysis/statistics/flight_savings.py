"""Compute savings by TFO, session resumption and early data, compared with new TLS sessions without TFO."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, get_args

from fastopen.analysis.statistics.bound import Bound, savings_bound
from fastopen.analysis.statistics.cells import CellResult
from fastopen.common.grouping import grouped
from fastopen.contract import Connection, Network
from fastopen.contract.origins import SessionStart
from fastopen.experiments import Arm, Cell, Experiment, Role, Setup, loaded_with
from fastopen.runs import LoadRow, RunStore
from fastopen.runs.chain import RESOLVERS, Span, handshakes_in_a_row_ns, tcp_handshake

if TYPE_CHECKING:
    from fastopen.analysis.statistics.results import Results

# The kinds of TLS sessions, the simplest first.
SESSIONS: Final = get_args(SessionStart)


@dataclass(frozen=True)
class HandshakeKinds:
    """The handshakes that the first request on a connection with TLS waits for."""

    session: str
    """The kind of TLS session, one of SESSIONS. It is `resumed` if the origin rejects early data."""
    without_tcp: bool
    """True if the request does not wait for a TCP handshake, because of TFO or QUIC."""

    @classmethod
    def of(cls, setup: Setup, arm: Arm) -> "HandshakeKinds | None":
        """Return the handshakes that connections need with `setup`, with or without TFO; None without TLS."""
        if setup.tls is None:
            return None
        rejected = setup.tls.session == "early" and setup.tls.early_data_rejected
        return cls("resumed" if rejected else setup.tls.session, setup.origins.all_quic or arm.fast_open)


@dataclass(frozen=True)
class FlightSaving:
    """The saving of page load time by shorter handshakes (resumed TLS, TFO or QUIC), and its upper bound."""

    baseline: int
    """The index of the cell with which this cell is compared. It has the same version of HTTP, except that
    HTTP/3 is compared with HTTP/2, if loaded, because both can send several requests at once."""
    percent: float
    """The saving as a percentage of the baseline's median page load time."""
    bound: Bound

    @property
    def beats_bound(self) -> bool:
        """Return True if the saving exceeds its upper bound by more than the tolerances of `Bound`."""
        return self.bound.beaten_by(self.percent)


def flight_savings(store: RunStore, results: "Results", loads: Iterable[LoadRow]) -> dict[int, FlightSaving]:
    """Return the page load time that shorter handshakes save in each cell with TLS, keyed by cell index. The
    saving is relative to a baseline without TFO and with the simplest kind of TLS session in the run. Leave
    out cells without a page load time. Return an empty mapping if the run varies neither the TLS session nor
    the transport (QUIC)."""
    setups = results.experiment.setups
    apart = [factor.name for factor in results.factors.varying if factor.first_flight]
    if not apart and len({setup.origins.all_quic for setup in setups}) == 1:
        return {}
    percents: dict[int, float] = {}
    compared: dict[int, tuple[Cell, HandshakeKinds]] = {}
    for group in results.groups_differing_in(results.cells, *apart, "http"):
        of_version = grouped((setups[result.cell.setup].origins.http, result) for result in group)
        for version, cells in of_version.items():
            over_tcp = of_version.get("2") if version == "3" else None
            plain = _plainest(setups, over_tcp or cells)
            for result in cells:
                handshakes = HandshakeKinds.of(setups[result.cell.setup], result.cell.arm)
                if handshakes is None or plain is None or plain is result:
                    continue
                if plain.plt_ms_median and result.plt_ms_median:
                    saved_ms = plain.plt_ms_median - result.plt_ms_median
                    percents[result.cell.index] = 100 * saved_ms / plain.plt_ms_median
                    compared[result.cell.index] = plain.cell, handshakes
    return {
        index: FlightSaving(compared[index][0].index, percents[index], bound)
        for index, bound in _bounds(store, results.experiment, compared, loads).items()
    }


def _plainest(setups: Sequence[Setup], cells: Iterable[CellResult]) -> CellResult | None:
    plain = {
        (SESSIONS.index(tls.session), result.cell.index): result
        for result in cells
        if result.cell.arm.role is Role.BASELINE and (tls := setups[result.cell.setup].tls) is not None
    }
    return plain[min(plain)] if plain else None


def _bounds(
    store: RunStore,
    experiment: Experiment,
    compared: Mapping[int, tuple[Cell, HandshakeKinds]],
    loads: Iterable[LoadRow],
) -> dict[int, Bound]:
    """Return the upper bound on the time that shorter handshakes can save in each cell, keyed by cell index.
    `compared` maps each cell's index to a pair: the cell's baseline, and the cell's kinds of handshakes."""
    pages = store.pages()
    plain = {cell.index: cell for cell, _ in compared.values()}
    wanted = grouped((cell.index, handshakes) for cell, handshakes in compared.values())
    waited: dict[tuple[int, HandshakeKinds], list[tuple[int, int | None]]] = defaultdict(list)
    rows = [row for row in loads if row.cell in plain and row.valid and not row.superseded]
    for row, record in store.load_records(rows):
        cell = plain[row.cell]
        network, _ = loaded_with(experiment, cell, row.repeat)
        base = HandshakeKinds.of(experiment.setups[cell.setup], cell.arm)
        assert base is not None
        for shorter in set(wanted[row.cell]):
            avoided = partial(_avoided, plain=base, shorter=shorter, network=network)
            in_a_row_ns = handshakes_in_a_row_ns(pages[cell.page], record, avoided)
            waited[row.cell, shorter].append((in_a_row_ns, row.plt_ns))
    bounds = {index: savings_bound(waited[cell.index, used]) for index, (cell, used) in compared.items()}
    return {index: bound for index, bound in bounds.items() if bound is not None}


def _avoided(
    connection: Connection, plain: HandshakeKinds, shorter: HandshakeKinds, network: Network
) -> Span | None:
    """Return the part of a connection's handshakes that `shorter` handshakes would avoid, as a time span.
    Return None if they would avoid nothing. `plain`: the kinds of handshakes that the connection had."""
    tcp = tcp_handshake(connection) or (connection.opened_ns, connection.opened_ns)
    tcp_ns = tcp[1] - tcp[0] if shorter.without_tcp else 0
    if connection.tls is None or shorter.session == plain.session:
        return tcp if tcp_ns else None
    secured_ns = connection.tls.secured_ns
    tls_ns = max(secured_ns - tcp[1], 0)
    # A resumed session needs one round trip, without certificates, even with TLS 1.2.
    if shorter.session == "resumed":
        rtt_us = network.rtt_us + network.host_extra_rtt_us.get(connection.host, 0)
        if connection.host in RESOLVERS and network.resolver_rtt_us is not None:
            rtt_us = network.resolver_rtt_us
        tls_ns = max(tls_ns - rtt_us * 1000, 0)
    length_ns = tls_ns + tcp_ns
    return (secured_ns - length_ns, secured_ns) if length_ns else None
