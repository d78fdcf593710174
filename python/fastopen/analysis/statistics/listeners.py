"""Summarise the kernel's reports on external servers: listeners with TFO, and connections to the origins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fastopen.experiments import Cell, Experiment
from fastopen.runs import LoadRow, RunStore

OVERFLOW: Final = "TCPFastOpenListenOverflow"


@dataclass(frozen=True)
class ListenerUse:
    """A listening socket of an external server, and its use in all loads with TFO."""

    place: str
    """Address and port, such as `0.0.0.0:80`."""
    queues: tuple[int | None, ...]
    """The distinct limits on pending TFO connections (TCP_FASTOPEN) over all loads; None if unreadable."""
    connections: int
    """The number of connections that clients opened to the listener."""
    syn_data: int
    """The number of connections on which the listener accepted data in the SYN."""


@dataclass(frozen=True)
class ServerUse:
    """The kernel's counters of TFO use on external servers, such as nginx, and on the origins behind them."""

    listeners: tuple[ListenerUse, ...]
    overflows: int
    """The number of TFO connections that arrived when a listener had reached its limit on pending ones."""
    upstream_connections: int
    """The number of connections from servers to origins, in loads with TFO between them (`upstream_tfo`)."""
    upstream_syn_data: int
    """The number of `upstream_connections` with data in their SYN, according to the origins' kernel."""


def server_use(
    store: RunStore, experiment: Experiment, cells: Sequence[Cell], loads: Iterable[LoadRow]
) -> ServerUse | None:
    """Return the kernel's counters of TFO use on external servers, such as nginx. Return None if no load used
    TFO with such a server, neither from the client nor to the origins behind the server (`upstream_tfo`)."""
    origins = {cell.index: experiment.setups[cell.setup].origins for cell in cells}
    fast_open = {cell.index for cell in cells if cell.arm.fast_open}
    upstream = {index for index, one in origins.items() if one.upstream_tfo}
    wanted = {index for index in fast_open | upstream if origins[index].server is not None}
    rows = [row for row in loads if row.cell in wanted and not row.superseded]
    if not rows:
        return None
    listeners: dict[str, ListenerUse] = {}
    overflows = upstream_connections = upstream_syn_data = 0
    for row, record in store.load_records(rows):
        if record.server and row.cell in upstream:
            upstream_connections += record.server.upstream.connections
            upstream_syn_data += record.server.upstream.syn_data
        if row.cell not in fast_open:
            continue
        overflows += record.counters.origins.get(OVERFLOW, 0)
        for one in () if record.server is None else record.server.listeners:
            place = f"[{one.address}]:{one.port}" if ":" in one.address else f"{one.address}:{one.port}"
            before = listeners.get(place, ListenerUse(place, (), 0, 0))
            listeners[place] = ListenerUse(
                place,
                tuple(dict.fromkeys((*before.queues, one.fastopen_queue))),
                before.connections + one.connections,
                before.syn_data + one.syn_data,
            )
    return ServerUse(tuple(listeners.values()), overflows, upstream_connections, upstream_syn_data)
