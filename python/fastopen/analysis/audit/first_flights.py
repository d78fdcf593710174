"""List the fewest round trips from opening a connection of each kind to the first byte of its response."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FirstFlight:
    """The beginning of a connection, and its fewest round trips to the first byte of the response."""

    name: str
    round_trips: int
    over_quic: bool = False


# Round trips: TCP handshake one, TLS 1.2 two, TLS 1.3 one, QUIC with TLS one, request one. TCP Fast Open (RFC
# 7413) saves the TCP handshake, early data (RFC 8446 section 2.3, RFC 9001 section 4.6) the TLS handshake.
FIRST_FLIGHTS: Final = {
    one.name: one
    for one in (
        FirstFlight("tcp", 2),
        FirstFlight("tfo", 1),
        FirstFlight("tls1.2", 4),
        FirstFlight("tls1.2+tfo", 3),
        FirstFlight("tls", 3),
        FirstFlight("tls+tfo", 2),
        FirstFlight("tls+early", 2),
        FirstFlight("tls+tfo+early", 1),
        FirstFlight("quic", 2, over_quic=True),
        FirstFlight("quic+early", 1, over_quic=True),
    )
}
