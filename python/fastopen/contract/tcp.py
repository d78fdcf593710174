"""Define the settings of TCP at both ends, including sysctls."""

from typing import Annotated, Final, Literal

from pydantic import Field

from fastopen.contract.part import Part

# Congestion controls that both the kernel and the QUIC implementation have.
QUIC_CONGESTION_CONTROLS: Final = ("cubic", "reno")


class Tcp(Part):
    """The TCP settings of both ends."""

    congestion_control: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,15}$")] = "cubic"
    """The kernel's name of the congestion control algorithm: 1 to 15 lower-case letters, digits, `-`, `_`."""
    initial_window_segments: Annotated[int, Field(ge=1, le=1000)] = 10
    """The initial congestion window, set on the routes of both ends."""
    slow_start_after_idle: bool = True
    """`net.ipv4.tcp_slow_start_after_idle` of both ends: true if the congestion window shrinks, but not below
    its initial size, when a connection sends nothing for longer than its retransmission timeout."""
    blackhole_timeout_s: Annotated[int, Field(ge=0, le=86_400)] = 0
    """`net.ipv4.tcp_fastopen_blackhole_timeout_sec` of both ends: the time for which an end stops TFO after
    data in a SYN was accepted and no segment followed. 0: no detection. Each load begins without a suspected
    black hole."""
    client_fastopen: Literal["0x1", "0x5"] = "0x1"
    """`net.ipv4.tcp_fastopen` of the client in loads with TFO. `0x1`: data in SYNs requires a cookie. `0x5`:
    the first SYN of each connection has data, but neither a cookie nor a cookie request."""
    listener_fastopen: Literal["0x1", "0x2", "0x202", "0x402", "0x602"] = "0x2"
    """`net.ipv4.tcp_fastopen` of the hosts. `0x1`: Linux's default, without TFO for servers. `0x2`: data is
    accepted with a valid cookie. `0x202`: data is accepted with any cookie or none, and no cookies are given.
    `0x402` and `0x602` are like `0x2` and `0x202`, but the kernel gives every listener a Fast Open queue.
    Warm cookies come from an earlier visit, when the setting was `0x2`."""
