"""Parse the server to probe, and make the bytes to send: a HEAD request or the start of a TLS handshake."""

import contextlib
import re
import ssl
from dataclasses import dataclass
from typing import Final, Literal

from fastopen.common.errors import InputError

TLS_PORTS: Final = frozenset([443, 8443])
_ASKED: Final = re.compile(
    r"^(?:(?P<scheme>https?)://)?"
    r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[^\s/:\[\]@]+))(?::(?P<port>\d{1,5}))?/?$"
)


@dataclass(frozen=True)
class Target:
    """A server to probe, as requested."""

    host: str
    port: int
    scheme: Literal["http", "https"]

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(text: str) -> Target:
    """Parse HOST, HOST:PORT, [IPv6]:PORT or a URL without path (port 443, http: 80). Raises InputError."""
    found = _ASKED.match(text.strip())
    port = int(found["port"] or (80 if found["scheme"] == "http" else 443)) if found else 0
    if found is None or not 0 < port < 65_536:
        remedy = "write HOST, HOST:PORT, [IPv6]:PORT or https://HOST"
        raise InputError("invalid server", text, remedy)
    scheme: Literal["http", "https"] = "https" if port in TLS_PORTS else "http"
    if found["scheme"]:
        scheme = "https" if found["scheme"] == "https" else "http"
    return Target((found["v6"] or found["name"]).lower(), port, scheme)


def greeting(target: Target) -> bytes:
    """Return the client's first bytes, which the server may safely get twice (RFC 7413, section 2.1)."""
    if target.scheme == "https":
        return _client_hello(target.host)
    name = f"[{target.host}]" if ":" in target.host else target.host
    lines = (
        "HEAD / HTTP/1.1",
        f"Host: {name}" + (f":{target.port}" if target.port != 80 else ""),
        "User-Agent: fastopen-probe",
        "Accept: */*",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("idna" if not name.isascii() else "ascii")


def _client_hello(host: str) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is read or sent after the first bytes
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    named = None if ":" in host or host.replace(".", "").isdigit() else host
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=named).do_handshake()
    return outgoing.read()
