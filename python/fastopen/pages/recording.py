"""Facts of a recording on its network: per resource, per host, and as a whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Carrier = Literal["one at a time", "streams", "quic"]
"""What a connection carries: one request at a time (HTTP/1.x), or many over TCP (HTTP/2) or QUIC (HTTP/3)."""


@dataclass(frozen=True)
class RecordedExchange:
    """The exchange of a resource on the recorder's network, in ms since the root was requested."""

    asked: float
    """When the page asked for it: waiting for a connection, name and handshake come after."""
    sent: float
    first_byte: float
    end: float
    lookup: float
    """For the host's name."""
    tcp: float
    """The handshake of a connection that was opened for this request, without TLS."""
    tls: float
    """The rest of that handshake."""
    carrier: Carrier
    received_bytes: int
    pushed: bool = False
    """Whether the server sent it without being asked; `asked` is then when it announced it."""

    @property
    def multiplexed(self) -> bool:
        """Return True if its connection carried several requests at once (HTTP/2, HTTP/3)."""
        return self.carrier != "one at a time"

    @property
    def stalled(self) -> float:
        """Between being asked for and sent, without its own name lookup and handshake."""
        return max(0.0, self.sent - self.asked - self.lookup - self.tcp - self.tls)


@dataclass(frozen=True)
class Recording:
    """The recorder's network, as far as its file shows it."""

    exchanges: tuple[RecordedExchange, ...]
    """By resource of the page."""
    round_trip_ms: Mapping[str, float]
    """By host of the page."""
    load_event_ms: float | None
    """Since the root was asked for."""
    down_bit_per_s: int | None = None
    """As the recorder says that it limited the rate; None: it does not say."""
    up_bit_per_s: int | None = None
    network: Mapping[str, Any] | None = None
    """The network as a job has it, where fastopen recorded the load in a world of its own."""
