"""What the kernel says of the listeners of servers of others, over the loads of a run that use TFO."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fastopen.experiments import Cell, Experiment
from fastopen.runs import LoadRow, RunStore

OVERFLOW: Final = "TCPFastOpenListenOverflow"


@dataclass(frozen=True)
class ListenerUse:
    """The listeners on one address and port."""

    place: str
    """`0.0.0.0:80`."""
    queues: tuple[int | None, ...]
    """The lengths of their TFO queues in these loads, each once; None: it could not be read."""
    connections: int
    syn_data: int
    """Of how many of these it took data in the SYN."""


@dataclass(frozen=True)
class ServerUse:
    """All loads that use TFO and met a server, valid or not."""

    listeners: tuple[ListenerUse, ...]
    overflows: int
    """Connections that found the queue of any of them full."""


def server_use(
    store: RunStore, experiment: Experiment, cells: Sequence[Cell], loads: Iterable[LoadRow]
) -> ServerUse | None:
    """None where no setup has a server."""
    met = {
        cell.index
        for cell in cells
        if experiment.setups[cell.setup].origins.server is not None and cell.arm.fast_open
    }
    rows = [row for row in loads if row.cell in met and not row.superseded]
    if not rows:
        return None
    queues: dict[str, dict[int | None, None]] = defaultdict(dict)
    counts: dict[str, tuple[int, int]] = {}
    overflows = 0
    for _, record in store.load_records(rows):
        overflows += record.counters.origins.get(OVERFLOW, 0)
        for one in () if record.server is None else record.server.listeners:
            place = f"[{one.address}]:{one.port}" if ":" in one.address else f"{one.address}:{one.port}"
            connections, syn_data = counts.get(place, (0, 0))
            counts[place] = (connections + one.connections, syn_data + one.syn_data)
            queues[place][one.fastopen_queue] = None
    used = (ListenerUse(place, tuple(queues[place]), *counts[place]) for place in counts)
    return ServerUse(tuple(used), overflows)
