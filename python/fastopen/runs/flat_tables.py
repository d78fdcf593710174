"""Convert a run into flat tables: loads, requests, connections, evidence and samples of TCP's state.

docs/json.md lists the columns, whose names include the units. Times of requests and connections are in
milliseconds since the start of the load. Join the tables on `load`, the number of a load in the run."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from fastopen.contract.load_record import Evidence, LinkUse, TcpSample
from fastopen.experiments import Cell, draw_of, point_of
from fastopen.experiments.factors import COLUMNS, flat_columns
from fastopen.experiments.quantities import Kind
from fastopen.runs.reader import RunReader
from fastopen.runs.rows import LoadRow

Row = tuple[Any, ...]

# The values of uncertain inputs that were drawn at random for a repeat, in an experiment with `--vary`.
DRAWN: Final[dict[str, Kind]] = {
    "drawn_rtt_ms": "float", "drawn_down_bit_per_s": "int", "drawn_up_bit_per_s": "int",
    "drawn_think_scale": "float", "drawn_processing_scale": "float", "drawn_start_phase_ms": "float",
}  # fmt: skip
LOADS: Final[dict[str, Kind]] = {
    "load": "int", "job": "text", "id": "text", "attempt": "int", "superseded": "flag", "page": "text",
    **COLUMNS, "repeat": "int", **DRAWN, "valid": "flag", "invalid": "text", "plt_ms": "float",
    "requests": "int", "connections": "int",
    "syn_data_connections": "int", "handshakes_in_a_row_ms": "float", "retransmitted_segments": "int",
    "started_unix_ms": "int",
}  # fmt: skip
REQUESTS: Final[dict[str, Kind]] = {
    "load": "int", "resource": "int", "url": "text", "host": "text", "type": "text", "connection": "int",
    "queued_ms": "float", "connect_start_ms": "float", "connected_ms": "float", "sent_ms": "float",
    "first_byte_ms": "float", "end_ms": "float", "status": "int", "header_bytes": "int",
    "body_bytes": "int", "cache": "text", "error": "text",
}  # fmt: skip
ENDS: Final = ("client", "origin")
END: Final[dict[str, Kind]] = {**dict.fromkeys(Evidence.model_fields, "int"), "syn_data_acked": "flag"}
CONNECTIONS: Final[dict[str, Kind]] = {
    "load": "int", "connection": "int", "host": "text", "port": "int", "client_port": "int",
    "opened_ms": "float", "connected_ms": "float", "handshake_ms": "float", "requests": "int",
    "secured_ms": "float", "tls_version": "text", "tls_resumed": "flag", "alpn": "text",
    "early_bytes": "int", "address": "text",
    **{f"{end}_{name}": kind for end in ENDS for name, kind in END.items()},
}  # fmt: skip
DIRECTIONS: Final = ("down", "up")
DIRECTION: Final = tuple(LinkUse.model_fields)
EVIDENCE: Final[dict[str, Kind]] = {
    "load": "int", "client_address": "text", "cookies_before": "int", "given_up_connections": "int",
    "given_up_syn_data": "int",
    **{f"{way}_{name}": "int" for way in DIRECTIONS for name in DIRECTION},
    "client_counters": "text", "origins_counters": "text",
    "cross_down_bytes": "int", "cross_up_bytes": "int",
}  # fmt: skip
SAMPLED: Final = tuple(name for name in TcpSample.model_fields if name != "at_ns")
SAMPLES: Final[dict[str, Kind]] = {
    "load": "int", "connection": "int", "at_ms": "float", **dict.fromkeys(SAMPLED, "int"),
}  # fmt: skip
TABLES: Final[dict[str, dict[str, Kind]]] = {
    "loads": LOADS,
    "requests": REQUESTS,
    "connections": CONNECTIONS,
    "evidence": EVIDENCE,
    "tcp_samples": SAMPLES,
}


class Flattener:
    """A converter of one run's loads into rows of flat tables (TABLES), for export as CSV or Parquet."""

    def __init__(self, run: RunReader) -> None:
        self.experiment, self.cells, self.pages = run.experiment(), run.cells(), run.pages()
        # Computed once: the values of all factors in each cell, and (URL, host, type) of all resources.
        self._factors = cache(lambda cell: flat_columns(point_of(self.experiment, self.cells[cell])))
        self._known = cache(lambda page: [(r.url, r.host, r.type) for r in self.pages[page].resources])

    def rows(self, table: str, row: LoadRow, record: dict[str, Any]) -> Iterable[Row]:
        """Return a load's rows in the table of this name. `record` is the load's decoded record."""
        if table == "loads":
            return (self.load(row),)
        several = {"requests": self._requests, "connections": self._connections}
        several |= {"evidence": self._evidence, "tcp_samples": self._samples}
        return several[table](row, record)

    def load(self, row: LoadRow) -> Row:
        """Return the row of a load in the table `loads`."""
        cell = self.cells[row.cell]
        return (
            *(row.number, row.job, row.load, row.attempt, row.superseded, cell.page),
            *(*self._factors(row.cell), row.repeat, *self._drawn(cell, row.repeat), row.valid),
            "; ".join(f"{kind}: {detail}" for kind, detail in row.invalid) or None,
            *(_ms(row.plt_ns), row.requests, row.connections, row.syn_data_connections),
            *(row.handshakes_ns / 1e6, row.retransmitted, row.started_unix_ms),
        )

    def _drawn(self, cell: Cell, repeat: int) -> Row:
        drawn = draw_of(self.experiment, cell.comparison, repeat)
        if drawn is None:
            return (None,) * len(DRAWN)
        point = point_of(self.experiment, cell)
        network = drawn.network(point.network)
        return (
            *(network.rtt_us / 1000, network.down.rate_bit_per_s, network.up.rate_bit_per_s),
            drawn.origins(point.setup.origins).think_scale,
            *(drawn.client(point.setup.client).processing_scale, drawn.start_phase / 1000),
        )

    def _requests(self, row: LoadRow, record: dict[str, Any]) -> Iterator[Row]:
        known = self._known(self.cells[row.cell].page)
        for one in record["requests"]:
            yield (
                *(row.number, one["resource"], *known[one["resource"]], one["connection"]),
                *(_ms(one["queued_ns"]), _ms(one["connect_start_ns"]), _ms(one["connected_ns"])),
                *(_ms(one["sent_ns"]), _ms(one["first_byte_ns"]), _ms(one["end_ns"])),
                *(one["status"], one["header_bytes"], one["body_bytes"], one.get("cache"), one["error"]),
            )

    def _connections(self, row: LoadRow, record: dict[str, Any]) -> Iterator[Row]:
        for one in record["connections"]:
            handshake_us = one["handshake_us"]
            ends = [one[end] or {} for end in ENDS]
            # Runs of fastopen versions without TLS lack the key.
            tls = one.get("tls") or {}
            yield (
                *(row.number, one["id"], one["host"], one["port"], one["client_port"]),
                *(_ms(one["opened_ns"]), _ms(one["connected_ns"])),
                *(None if handshake_us is None else handshake_us / 1000, one["requests"]),
                *(_ms(tls.get("secured_ns")), tls.get("version"), tls.get("resumed"), tls.get("alpn")),
                *((tls.get("origin") or {}).get("early_bytes"), one.get("address")),
                *(end.get(name) for end in ends for name in END),
            )

    def _samples(self, row: LoadRow, record: dict[str, Any]) -> Iterator[Row]:
        for connection in record["connections"]:
            for one in connection.get("origin_samples", ()):
                yield (row.number, connection["id"], _ms(one["at_ns"]), *(one[name] for name in SAMPLED))

    def _evidence(self, row: LoadRow, record: dict[str, Any]) -> Iterator[Row]:
        link, counters = record["link"] or {}, record["counters"]
        # Records from before version 2 of the contract lack these keys.
        given_up, cross = record.get("given_up") or {}, record.get("cross") or {}
        yield (
            *(row.number, record["client_address"], record["cookies_before"]),
            *(given_up.get("connections"), given_up.get("syn_data")),
            *(link.get(way, {}).get(name) for way in DIRECTIONS for name in DIRECTION),
            *(json.dumps(counters[end], sort_keys=True) for end in ("client", "origins")),
            *(cross.get("down_bytes"), cross.get("up_bytes")),
        )


def _ms(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6
