"""Handshakes that no request waited for: a browser opens a page's first connection ahead of the request."""

import socket
import time
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from fastopen.apps.record.events import NetworkExchange

TIMEOUT_S: Final = 3.0


def missing_handshakes_ms(exchanges: Iterable[NetworkExchange]) -> dict[str, float]:
    """Return how long a handshake takes now, in ms, with each host without a recorded one."""
    seen: set[str] = set()
    addresses: dict[str, tuple[str, int]] = {}
    for exchange in exchanges:
        response = exchange.response or {}
        host = urlsplit(exchange.asked["request"]["url"]).hostname or ""
        timing = response.get("timing") or {}
        if timing.get("connectEnd", -1) > timing.get("connectStart", -1):
            seen.add(host)
        if response.get("remoteIPAddress") and response.get("remotePort"):
            addresses[host] = (response["remoteIPAddress"].strip("[]"), int(response["remotePort"]))
    found = {host: _handshake_ms(address) for host, address in addresses.items() if host not in seen}
    return {host: took for host, took in found.items() if took is not None}


def _handshake_ms(address: tuple[str, int]) -> float | None:
    started = time.perf_counter()
    try:
        with socket.create_connection(address, TIMEOUT_S):
            return round((time.perf_counter() - started) * 1000, 3)
    except OSError:
        return None
