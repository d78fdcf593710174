"""Open a connection to a server in one of three ways, and read the kernel's report on the connection."""

import contextlib
import socket
import struct
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# include/uapi/linux/tcp.h
TCP_FASTOPEN_CONNECT: Final = 30
TCP_FASTOPEN_NO_COOKIE: Final = 34
OPTION_SYN_DATA: Final = 0x20
INFO_BYTES: Final = 104
ANSWER_BYTES: Final = 4096

Address = tuple[str, int] | tuple[str, int, int, int]


class Opening(StrEnum):
    """The way to open a connection."""

    PLAIN = "without Fast Open"
    FASTOPEN = "Fast Open"
    NO_COOKIE = "data in the SYN without a cookie"


class ClientFail(StrEnum):
    """`tcpi_fastopen_client_fail`: the reason why the SYN had no data, or its data was not acknowledged."""

    NONE = "none"
    COOKIE_UNAVAILABLE = "cookie unavailable"
    DATA_NOT_ACKED = "data not acknowledged"
    SYN_RETRANSMITTED = "SYN sent again"


@dataclass(frozen=True)
class Trial:
    """The outcome of a connection. `answered_ms` is the time from its start to the response."""

    opening: Opening
    error: str | None
    """The reason why the connection got no response; None if it got one."""
    timed_out: bool
    """True if no response came within the time limit."""
    syn_data_acked: bool
    client_fail: ClientFail
    retransmits: int
    rtt_ms: float | None
    answered_ms: float | None


def connect(family: int, address: Address, opening: Opening, greeting: bytes, timeout_s: float) -> Trial:
    """Open a connection, send the greeting, wait for the first bytes of the response, and close.

    Network errors are in the result. Raises OSError if this kernel does not support `opening`."""
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(timeout_s)
        if opening is not Opening.PLAIN:
            client.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
        if opening is Opening.NO_COOKIE:
            client.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 1)
        began = time.monotonic()
        error: str | None = None
        timed_out = False
        answered: float | None = None
        try:
            client.connect(address)
            client.sendall(greeting)
            if client.recv(ANSWER_BYTES):
                answered = (time.monotonic() - began) * 1000
            else:
                error = "closed without an answer"
        except TimeoutError:
            error, timed_out = f"nothing for {timeout_s:g} s", True
        except OSError as fault:
            error = fault.strerror or str(fault)
        trial = _trial(client, opening, error, answered, timed_out=timed_out)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        return trial


def _trial(
    client: socket.socket, opening: Opening, error: str | None, answered: float | None, *, timed_out: bool
) -> Trial:
    raw = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES).ljust(INFO_BYTES, b"\0")
    options, fail = raw[5], raw[7] >> 1 & 3
    rtt_us = struct.unpack_from("=I", raw, 68)[0]
    retransmits = struct.unpack_from("=I", raw, 100)[0]
    return Trial(
        opening=opening,
        error=error,
        timed_out=timed_out,
        syn_data_acked=bool(options & OPTION_SYN_DATA),
        client_fail=list(ClientFail)[fail],
        retransmits=retransmits,
        # Without a packet from the server, the socket has measured no RTT.
        rtt_ms=rtt_us / 1000 if rtt_us > 0 else None,
        answered_ms=answered,
    )
