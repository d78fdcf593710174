"""The least round trips that a connection of each kind takes to the first byte of its first answer."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FirstFlight:
    """The first flight of connections."""

    name: str
    round_trips: int
    over_quic: bool = False


# TCP's handshake takes one, that of TLS 1.2 two and of TLS 1.3 one, QUIC's with TLS one, the request one. TCP
# Fast Open (RFC 7413) saves TCP's, early data (RFC 8446 section 2.3, RFC 9001 section 4.6) that of TLS.
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
