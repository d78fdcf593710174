"""List the kinds of connections, each with its fewest round trips until the first byte of the response."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FlightKind:
    """A kind of connection, and its fewest round trips from opening it to the first byte of the response."""

    name: str
    round_trips: int
    over_quic: bool = False


# A handshake of TCP, TLS 1.3 or QUIC and a request take one round trip each, and TLS 1.2 takes two. TCP Fast
# Open (RFC 7413) saves the TCP handshake; early data (RFC 8446 2.3, RFC 9001 4.6) saves the handshake of TLS.
FIRST_FLIGHTS: Final = {
    one.name: one
    for one in (
        FlightKind("tcp", 2),
        FlightKind("tfo", 1),
        FlightKind("tls1.2", 4),
        FlightKind("tls1.2+tfo", 3),
        FlightKind("tls", 3),
        FlightKind("tls+tfo", 2),
        FlightKind("tls+early", 2),
        FlightKind("tls+tfo+early", 1),
        FlightKind("quic", 2, over_quic=True),
        FlightKind("quic+early", 1, over_quic=True),
    )
}
