"""List behaviours that break TCP Fast Open. docs/measurements/paths.md lists their effects on counters."""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class Behaviour:
    """A behaviour of a network path, a server or a kernel setting that breaks TCP Fast Open. `does` is a
    sentence such as `the path drops SYNs with data`. `costs` is the effect on a connection. `fails` states
    when the client's kernel increments TCPFastOpenActiveFail; empty if it does not."""

    name: str
    """The value of `--path` that emulates the behaviour, or another name if `--path` cannot emulate it."""
    does: str
    costs: str
    remedy: str = (
        "probe the server from another network (fastopen probe HOST), and keep TFO off on such paths"
    )
    fails: Literal["", "at once", "after a lost SYN"] = ""


_NOTHING: Final = "no saving, and data sent twice"
_NO_COOKIE: Final = "no saving, since clients never get a cookie"
BEHAVIOURS: Final = {
    row.name: row
    for row in (
        Behaviour("none", "nothing breaks it", "none", ""),
        Behaviour("drop-syn-data", "the path drops SYNs with data", "1 s delay", fails="after a lost SYN"),
        Behaviour(
            "drop-option", "the path drops SYNs with the option", "1 s delay", fails="after a lost SYN"
        ),
        Behaviour(
            "drop-synack-option",
            "the path drops SYN-ACKs with the option",
            "1 s delay of each connection, since clients never get a cookie",
        ),
        Behaviour("strip-option", "the path removes the option from SYNs", _NOTHING, fails="at once"),
        Behaviour("strip-data", "the path removes the data from SYNs", _NOTHING, fails="at once"),
        Behaviour("strip-both", "the path removes option and data from SYNs", _NOTHING, fails="at once"),
        Behaviour("strip-synack-option", "the path removes the option from SYN-ACKs", _NO_COOKIE),
        Behaviour(
            "break-cookie",
            "the server rejects cookies: servers of one address have different keys, or the address changed",
            _NOTHING,
            "give all servers of an address the same net.ipv4.tcp_fastopen_key",
            "at once",
        ),
        Behaviour("rst-syn-data", "the path answers SYNs with data with a reset", "the connection fails"),
        Behaviour("drop-synack", "the path drops SYN-ACKs", "the connection fails", fails="after a lost SYN"),
        Behaviour(
            "drop-answers",
            "the path drops answers after accepted SYN data",
            "the connection fails",
            "as root: sysctl -w net.ipv4.tcp_fastopen_blackhole_timeout_sec=3600",
        ),
        Behaviour(
            "cookie-less",
            "this client sends data without a cookie (0x4) to an ordinary server",
            _NOTHING,
            "as root: remove 0x4 from net.ipv4.tcp_fastopen",
            "at once",
        ),
        Behaviour(
            "short-queue",
            "the server's TFO queue is full",
            _NOTHING,
            "give the server a longer queue: setsockopt(TCP_FASTOPEN, 256), nginx fastopen=256",
            "at once",
        ),
        Behaviour(
            "no-queue",
            "the server's listener has no TFO queue: the program did not request one, or it uses MPTCP",
            _NO_COOKIE,
            "let the server request one: setsockopt(TCP_FASTOPEN, 256), nginx fastopen=256, HAProxy tfo",
        ),
    )
}


def named(*names: str) -> tuple[Behaviour, ...]:
    """Return the BEHAVIOURS with the given names, in the same order. Raises KeyError for unknown names."""
    return tuple(BEHAVIOURS[name] for name in names)
