"""Describe first flights: ClientHello sizes, TLS sessions, early data, and round trips to the first byte."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fastopen.contract import Connection, LoadRecord, Network
from fastopen.contract.load_record import TlsSession
from fastopen.contract.network import IP_HEADER_BYTES
from fastopen.experiments import Cell, Experiment, loaded_with
from fastopen.pages.model import Resource
from fastopen.runs import LoadRow, RunStore

# The TCP header without options, and the room that the kernel leaves for TCP's options in a SYN with data
# (tcp_send_syn_data, MAX_TCP_OPTION_SPACE).
HEADER_AND_OPTIONS_BYTES: Final = 20 + 40

# Additional bytes between a ClientHello and the end of its early data: the ChangeCipherSpec record, and
# header, content type and tag of the early data's record (RFC 8446 sections 5.1, 5.2 and D.4).
BESIDE_EARLY_DATA_BYTES: Final = 6 + 5 + 1 + 16

# The reason why TFO saves nothing, as the end of a sentence.
HELLO_BEYOND_SYN: Final = ", because the ClientHello does not fit into a SYN"


def syn_data_max(network: Network) -> int:
    """Return the number of bytes of data that fit into a SYN on this network. If the network has IPv4 and
    IPv6, the SYN uses IPv6, whose header is 20 bytes longer."""
    return network.mtu_bytes - IP_HEADER_BYTES[network.ip] - HEADER_AND_OPTIONS_BYTES


@dataclass(frozen=True)
class FirstFlight:
    """Statistics of a page load's connections and their first packets. A value is None if it is unknown."""

    client_hello_bytes: int | None
    """The size of the ClientHello on the document's connection. If it is unknown or the connection has no TLS
    over TCP, this is the smallest ClientHello of the load's TCP connections."""
    secured_connections: int
    """The number of connections with TLS."""
    most_to_a_host: int
    """The largest number of TLS connections to any one host."""
    resumed_connections: int
    """The number of connections that resumed a TLS session."""
    early_connections: int
    """The number of connections whose early data the origin read before the handshake was complete."""
    first_byte_rtts: float | None
    """The time from opening the document's connection to the first byte of the response, in RTTs."""
    client_bytes: int | None = None
    """The bytes of the first flight on the document's TCP connection: ClientHello and early data, or, in
    cleartext, the request."""
    quic_connections: int = 0
    """The number of QUIC connections, which have no SYN."""
    early_beyond_syn_bytes: tuple[int, ...] = ()
    """The total size of ClientHello and early data, for each connection whose SYN held the ClientHello, but
    not all early data. The rest came with the client's Finished, so early data saved nothing."""


def first_flights(
    store: RunStore, experiment: Experiment, cells: Sequence[Cell], loads: Iterable[LoadRow]
) -> dict[int, FirstFlight]:
    """Return statistics of the first flights in one load per cell: the first repeat with a valid load."""
    of_index, pages = {cell.index: cell for cell in cells}, store.pages()
    first: dict[int, LoadRow] = {}
    # Loads are stored in the order in which they end, which differs between equal runs.
    for row in sorted(loads, key=lambda row: row.repeat):
        if row.valid and not row.superseded:
            first.setdefault(row.cell, row)
    return {
        row.cell: _first_flight(
            record,
            loaded_with(experiment, of_index[row.cell], row.repeat)[0],
            pages[of_index[row.cell].page].resources[0],
        )
        for row, record in store.load_records(first.values())
    }


def _first_flight(record: LoadRecord, network: Network, document: Resource) -> FirstFlight:
    handshakes = [one.tls for one in record.connections if one.tls is not None]
    to_host = Counter(one.host for one in record.connections if one.tls is not None)
    origins = [one.origin for one in handshakes if one.origin is not None]
    request = next((one for one in record.requests if one.resource == 0), None)
    carrier = next((one for one in record.connections if request and one.id == request.connection), None)
    own_tls = None if carrier is None else carrier.tls
    hellos = [one.hello_bytes for one in handshakes if one.hello_bytes]
    first_byte_rtts = None
    if record.seen_at != "origins" and carrier and request and request.first_byte_ns is not None:
        rtt_us = network.rtt_us + network.host_extra_rtt_us.get(carrier.host, 0)
        took_us = (request.first_byte_ns - carrier.opened_ns) / 1000
        first_byte_rtts = round(took_us / rtt_us, 3) if rtt_us else None
    return FirstFlight(
        client_hello_bytes=(own_tls.hello_bytes if own_tls else 0) or min(hellos, default=None),
        secured_connections=len(handshakes),
        most_to_a_host=max(to_host.values(), default=0),
        resumed_connections=sum(one.resumed for one in handshakes),
        early_connections=sum(one.early_bytes > 0 for one in origins),
        first_byte_rtts=first_byte_rtts,
        client_bytes=_client_bytes(document, carrier),
        quic_connections=sum(one.quic is not None for one in record.connections),
        early_beyond_syn_bytes=tuple(_early_beyond_syn(record.connections, network)),
    )


def _early_beyond_syn(connections: Iterable[Connection], network: Network) -> Iterator[int]:
    room = syn_data_max(network)
    for one in connections:
        tls, syn_data = one.tls, one.client is not None and one.client.syn_data_acked
        if not syn_data or tls is None or not tls.early_bytes or tls.origin is None:
            continue
        flight = _with_early_data(tls)
        if not tls.origin.early_bytes and tls.hello_bytes <= room < flight:
            yield flight


def _with_early_data(tls: TlsSession) -> int:
    """Return the size in bytes of a ClientHello and its early data, with the record headers between them."""
    return tls.hello_bytes + (BESIDE_EARLY_DATA_BYTES + tls.early_bytes if tls.early_bytes else 0)


def _client_bytes(document: Resource, connection: Connection | None) -> int | None:
    if connection is None or connection.quic is not None:
        return None
    if connection.tls is not None:
        return _with_early_data(connection.tls) if connection.tls.hello_bytes else None
    # HTTP/2 compresses header fields, so the size of the request is unknown.
    return None if connection.multiplexed else document.request_header_bytes + document.request_body_bytes
