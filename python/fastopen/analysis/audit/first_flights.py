"""List the kinds of connections, each with its fewest round trips until the first byte of the response."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FlightKind:
    """A kind of connection, and its fewest round trips from opening it to the first byte of the response."""

    name: str
    round_trips: int
    over_quic: bool = False


# A TCP handshake, TLS 1.3, QUIC with TLS and a request take one round trip each, and TLS 1.2 takes two. TCP
# Fast Open (RFC 7413) saves TCP's, early data (RFC 8446 section 2.3, RFC 9001 section 4.6) saves TLS's.
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
