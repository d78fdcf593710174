"""How large the ClientHellos of a cell are: data in the SYN saves a round trip only if all of it fits."""

from collections.abc import Iterable, Sequence
from typing import Final

from fastopen.experiments import Cell, Experiment
from fastopen.runs import LoadRow, RunStore

# IP and TCP headers without options, and the room that the kernel leaves for TCP's options in a SYN with
# data (tcp_send_syn_data, MAX_TCP_OPTION_SPACE).
HEADERS_AND_OPTIONS_BYTES: Final = 40 + 40


def syn_data_max(mtu_bytes: int) -> int:
    """Bytes of data that fit into a SYN."""
    return mtu_bytes - HEADERS_AND_OPTIONS_BYTES


def client_hello_bytes(
    store: RunStore, experiment: Experiment, cells: Sequence[Cell], loads: Iterable[LoadRow]
) -> dict[int, int]:
    """The smallest ClientHello of the first valid load, by the index of cells with TLS and TFO."""
    wanted = {
        cell.index for cell in cells if cell.arm.fast_open and experiment.setups[cell.setup].tls is not None
    }
    first: dict[int, LoadRow] = {}
    for row in loads:
        if row.cell in wanted and row.valid and not row.superseded:
            first.setdefault(row.cell, row)
    found: dict[int, int] = {}
    for row, record in store.load_records(first.values()):
        sizes = [one.tls.hello_bytes for one in record.connections if one.tls is not None]
        if sizes:
            found[row.cell] = min(sizes)
    return found
