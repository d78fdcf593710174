"""One connection to a server, opened in one of three ways, and what this machine's kernel says of it."""

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
    """`tcpi_fastopen_client_fail`: why data was not in the SYN, or was there in vain."""

    NONE = "none"
    COOKIE_UNAVAILABLE = "cookie unavailable"
    DATA_NOT_ACKED = "data not acknowledged"
    SYN_RETRANSMITTED = "SYN sent again"


@dataclass(frozen=True)
class Trial:
    """The outcome of one connection. Times are in ms since its start."""

    opening: Opening
    error: str | None
    """Why it was not established or not answered; None: it was."""
    timed_out: bool
    """Whether nothing came for as long as was waited."""
    syn_data_acked: bool
    client_fail: ClientFail
    retransmits: int
    rtt_ms: float | None
    answered_ms: float | None


def connect(family: int, address: Address, opening: Opening, greeting: bytes, timeout_s: float) -> Trial:
    """Opens a connection, sends the greeting, waits for the first bytes of the answer and closes.

    Never raises for what the network does. Raises OSError where this kernel does not know the option.
    """
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
        # A socket that was never answered has measured nothing.
        rtt_ms=rtt_us / 1000 if rtt_us > 0 else None,
        answered_ms=answered,
    )
