"""Parse the addresses of servers, connect to them, and record how they handle TCP Fast Open."""

import contextlib
import re
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, Final, Literal

from fastopen.common.errors import InputError

TLS_PORTS: Final = frozenset([443, 8443])
_ASKED: Final = re.compile(
    r"^(?:(?P<scheme>https?)://)?"
    r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[^\s/:\[\]@]+))(?::(?P<port>\d{1,5}))?/?$"
)
# include/uapi/linux/tcp.h
TCP_FASTOPEN_CONNECT: Final = 30
TCP_FASTOPEN_NO_COOKIE: Final = 34
OPTION_SYN_DATA: Final = 0x20
INFO_BYTES: Final = 104
ANSWER_BYTES: Final = 4096
Address = tuple[str, int] | tuple[str, int, int, int]
PAUSE_S: Final = 0.2
# The maximum number of connections with Fast Open. The kernel requests the cookie with the option's assigned
# number, then with the experimental one (RFC 7413, section 7). The next connection uses the cookie. If that
# fails, one more connection uses it, in case of packet loss.
FASTOPENS: Final = 4
CONNECTIONS_MAX: Final = 1 + FASTOPENS + 2
# The time after which a SYN or SYN-ACK is retransmitted (RFC 6298, section 2.1).
SYN_TIMEOUT_MS: Final = 1000


@dataclass(frozen=True)
class Target:
    """The address of a server to probe, and the protocol (`scheme`) of the first bytes to send."""

    host: str
    port: int
    scheme: Literal["http", "https"]

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(text: str) -> Target:
    """Parse HOST, HOST:PORT, [IPv6]:PORT or a URL without a path. The default port is 443, or 80 for http.
    Raises InputError for any other text."""
    found = _ASKED.match(text.strip())
    port = int(found["port"] or (80 if found["scheme"] == "http" else 443)) if found else 0
    if found is None or not 0 < port < 65_536:
        raise InputError("invalid server", text, "write HOST, HOST:PORT, [IPv6]:PORT or https://HOST")
    encrypted = (found["scheme"] == "https") if found["scheme"] else (port in TLS_PORTS)
    return Target((found["v6"] or found["name"]).lower(), port, "https" if encrypted else "http")


def greeting(target: Target) -> bytes:
    """Return the first bytes to send to the server: a TLS ClientHello, or a HEAD request for http."""
    # Neither message has side effects, so the server may get it twice (RFC 7413, section 2.1).
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


class Opening(StrEnum):
    """The use of Fast Open on a connection."""

    PLAIN = "without Fast Open"
    FASTOPEN = "Fast Open"
    NO_COOKIE = "data in the SYN without a cookie"


class ClientFail(StrEnum):
    """The reason why SYN data was not sent or not acknowledged (tcpi_fastopen_client_fail)."""

    NONE = "none"
    COOKIE_UNAVAILABLE = "cookie unavailable"
    DATA_NOT_ACKED = "data not acknowledged"
    SYN_RETRANSMITTED = "SYN retransmitted"


class Handling(StrEnum):
    """The treatment of SYN data by the server or the network path, in order from best to worst."""

    ACCEPTED = "accepted"
    """The SYN-ACK acknowledged the data."""
    NOT_ACCEPTED = "not accepted"
    """The SYN-ACK acknowledged only the SYN, and the data was retransmitted."""
    DROPPED = "dropped"
    """SYNs with data got no SYN-ACK, but the retransmitted SYN without data got one."""
    REFUSED = "refused"
    """The connection failed at once or was closed without a response, usually by a reset of the SYN."""
    UNANSWERED = "unanswered"
    """The data was accepted but no response came, or no SYN-ACK ever came."""
    UNKNOWN = "unknown"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Trial:
    """The outcome of one connection to a probed server. `error` is the reason why no response came, or None.
    `client_fail` is the kernel's reason why SYN data was not sent or not acknowledged. `rtt_ms` is None if
    unknown. `answered_ms` is the time from connect() to the response; None without a response."""

    opening: Opening
    error: str | None
    timed_out: bool
    syn_data_acked: bool
    client_fail: ClientFail
    retransmits: int
    rtt_ms: float | None
    answered_ms: float | None

    @property
    def handling(self) -> Handling:
        """Return the treatment of SYN data by server or path; UNKNOWN if nothing shows that data was sent."""
        if self.error is not None and self.client_fail is ClientFail.NONE:
            return Handling.UNANSWERED if self.timed_out else Handling.REFUSED
        if self.syn_data_acked:
            return Handling.ACCEPTED
        return {
            ClientFail.DATA_NOT_ACKED: Handling.NOT_ACCEPTED,
            ClientFail.SYN_RETRANSMITTED: Handling.DROPPED,
        }.get(self.client_fail, Handling.UNKNOWN)

    @property
    def carried(self) -> bool:
        """Return True if the outcome shows that the SYN carried data, whether or not it was accepted."""
        return self.handling is not Handling.UNKNOWN


def connect(family: int, address: Address, opening: Opening, greeting: bytes, timeout_s: float) -> Trial:
    """Open a connection to `address`, send `greeting`, wait for the first bytes of the response, and close
    the connection. `opening` selects the use of Fast Open. The returned Trial includes network errors. Raises
    OSError if this kernel does not support `opening`."""
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
        raw = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES).ljust(INFO_BYTES, b"\0")
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
    (rtt_us,), (retransmits,) = struct.unpack_from("=I", raw, 68), struct.unpack_from("=I", raw, 100)
    return Trial(
        opening=opening,
        error=error,
        timed_out=timed_out,
        syn_data_acked=bool(raw[5] & OPTION_SYN_DATA),
        client_fail=list(ClientFail)[raw[7] >> 1 & 3],
        retransmits=retransmits,
        # Without a packet from the server, the socket has measured no RTT.
        rtt_ms=rtt_us / 1000 if rtt_us > 0 else None,
        answered_ms=answered,
    )


@dataclass(frozen=True)
class Probed:
    """The results of testing a server's TCP Fast Open over several connections (`trials`). `error` is the
    reason why the server is unreachable, or None. `asking_dropped` is True if all cookie requests or their
    SYN-ACKs were lost. `data_with_cookie` and `data_without_cookie` show how SYN data was handled.
    `disabled_here` is True if this machine's kernel has paused TFO because it suspects a black hole.
    `answer_ms` is the time from connect() to the first byte of the response, without SYN data."""

    target: Target
    address: str | None
    reachable: bool
    error: str | None
    cookie: bool = False
    """True if the server sent a cookie, or if the kernel already had a cookie for its address."""
    cookie_before: bool = False
    """True if the kernel had a cookie before the test. Linux stores cookies by address, not by port."""
    asking_dropped: bool = False
    data_with_cookie: Handling = Handling.NOT_TRIED
    data_without_cookie: Handling = Handling.NOT_TRIED
    disabled_here: bool = False
    rtt_ms: float | None = None
    answer_ms: float | None = None
    answer_with_syn_data_ms: float | None = None
    """Like `answer_ms`, but with SYN data; None unless the server accepted the data and responded."""
    trials: tuple[Trial, ...] = ()

    @property
    def on_this_machine(self) -> bool:
        return self.address is not None and ip_address(self.address.partition("%")[0]).is_loopback

    def as_json(self) -> dict[str, Any]:
        document = asdict(self)
        return {**document.pop("target"), **document}


def probe(
    target: Target,
    *,
    family: int = socket.AF_UNSPEC,
    timeout_s: float = 5.0,
    pause: Callable[[float], None] = time.sleep,
) -> Probed:
    """Test a server's Fast Open: connect without Fast Open, with it, and with SYN data but no cookie.

    Make at most CONNECTIONS_MAX connections, each with a HEAD request or a ClientHello. `family` is AF_INET,
    AF_INET6, or AF_UNSPEC for both. `timeout_s` limits each connection. `pause` is called before each
    connection except the first, with the number of seconds to sleep."""
    try:
        found = socket.getaddrinfo(target.host, target.port, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as fault:
        message = getattr(fault, "strerror", None) or str(fault)
        return Probed(target, None, reachable=False, error=f"no address found: {message}")
    family_of, _, _, _, address = found[0]
    trials: list[Trial] = []

    def attempt(opening: Opening) -> Trial:
        if trials:
            pause(PAUSE_S)
        trial = connect(family_of, address, opening, greeting(target), timeout_s)  # type: ignore[arg-type]
        trials.append(trial)
        return trial

    plain = attempt(Opening.PLAIN)
    if plain.error is not None:
        return Probed(target, str(address[0]), reachable=False, error=plain.error, trials=(plain,))
    fastopens: list[Trial] = []
    # The result is clear if data was accepted, or if two connections sent data in the SYN.
    while len(fastopens) < FASTOPENS and sum(one.carried for one in fastopens) < 2:
        fastopens.append(attempt(Opening.FASTOPEN))
        if fastopens[-1].syn_data_acked:
            break
    blind = attempt(Opening.NO_COOKIE)
    if blind.handling is Handling.DROPPED:  # the packet may have been lost
        blind = attempt(Opening.NO_COOKIE)
    carried = [trial for trial in fastopens if trial.carried]
    not_carried = [trial for trial in fastopens if not trial.carried]
    return Probed(
        target=target,
        address=str(address[0]),
        reachable=True,
        error=None,
        cookie=bool(carried),
        cookie_before=fastopens[0].carried,
        asking_dropped=all_lost(not_carried, plain),
        # The best handling counts, since packet loss may have caused a worse one.
        data_with_cookie=min(
            (trial.handling for trial in carried), key=[*Handling].index, default=Handling.NOT_TRIED
        ),
        data_without_cookie=blind.handling,
        disabled_here=not carried
        and all(
            trial.client_fail is ClientFail.NONE and not trial.retransmits and trial.error is None
            for trial in fastopens
        ),
        rtt_ms=plain.rtt_ms,
        answer_ms=_least_ms([plain, *not_carried]),
        answer_with_syn_data_ms=_least_ms([trial for trial in carried if trial.syn_data_acked]),
        trials=tuple(trials),
    )


def _least_ms(trials: list[Trial]) -> float | None:
    """Return the shortest `answered_ms`, which has the least unrelated delay; None without any response."""
    return min((trial.answered_ms for trial in trials if trial.answered_ms is not None), default=None)


def all_lost(asked: list[Trial], plain: Trial) -> bool:
    """Return True if at least two connections requested a cookie (`asked`), and each lost its SYN or SYN-ACK.
    `plain` is a connection without Fast Open, whose RTT serves as the time of a handshake without loss."""
    # If the SYN-ACK was lost, the server may retransmit it just before the client retransmits its SYN. Then
    # the client's RTT includes the second until the server's retransmission (RFC 6298).
    usual_ms = plain.rtt_ms or 0
    return len(asked) > 1 and all(
        trial.retransmits > 0 or (trial.rtt_ms or 0) - usual_ms > SYN_TIMEOUT_MS / 2 for trial in asked
    )
