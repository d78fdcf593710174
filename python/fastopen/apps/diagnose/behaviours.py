"""List behaviours that break TCP Fast Open, with the counters that show them: see docs/paths.md."""

from dataclasses import dataclass
from typing import Final

ACTIVE: Final = "TCPFastOpenActive"
ACTIVE_FAIL: Final = "TCPFastOpenActiveFail"
PASSIVE: Final = "TCPFastOpenPassive"
PASSIVE_FAIL: Final = "TCPFastOpenPassiveFail"
COOKIE_REQD: Final = "TCPFastOpenCookieReqd"
OVERFLOW: Final = "TCPFastOpenListenOverflow"
BLACKHOLE: Final = "TCPFastOpenBlackhole"
SYN_RETRANS: Final = "TCPSynRetrans"
RETRANS: Final = "RetransSegs"
TIMEOUTS: Final = "TCPTimeouts"
ATTEMPT_FAILS: Final = "AttemptFails"


@dataclass(frozen=True)
class Behaviour:
    """A behaviour of a path, server or setting, and the counters of both ends that grow because of it."""

    name: str
    """The value of `--path`, or a name that only this module has."""
    does: str
    """The action in words, such as `the path drops SYNs with data`."""
    client: frozenset[str]
    server: frozenset[str]
    costs: str
    """The effect on a connection."""
    remedy: str


def _row(name: str, does: str, client: str, server: str, costs: str, remedy: str) -> Behaviour:
    short = {"A": ACTIVE, "AF": ACTIVE_FAIL, "P": PASSIVE, "PF": PASSIVE_FAIL, "CR": COOKIE_REQD}
    short |= {"LO": OVERFLOW, "SR": SYN_RETRANS, "RS": RETRANS, "TO": TIMEOUTS, "FAIL": ATTEMPT_FAILS}

    def counters(text: str) -> frozenset[str]:
        return frozenset(short[word] for word in text.split())

    return Behaviour(name, does, counters(client), counters(server), costs, remedy)


_PATH: Final = "probe the server from another network (fastopen probe HOST), and keep TFO off on such paths"
_NOTHING: Final = "no saving, and data sent twice"
BEHAVIOURS: Final = {
    row.name: row
    for row in (
        _row("none", "nothing breaks it", "A", "P", "none", ""),
        _row("drop-syn-data", "the path drops SYNs with data", "AF SR RS TO", "", "1 s delay", _PATH),
        _row("drop-option", "the path drops SYNs with the option", "AF SR RS TO", "", "1 s delay", _PATH),
        _row(
            "drop-synack-option",
            "the path drops SYN-ACKs with the option",
            *(
                "SR RS TO",
                "CR SR TO",
                "1 s delay of each connection, since clients never get a cookie",
                _PATH,
            ),
        ),
        _row("strip-option", "the path removes the option from SYNs", "AF RS", "", _NOTHING, _PATH),
        _row("strip-data", "the path removes the data from SYNs", "AF RS", "P", _NOTHING, _PATH),
        _row("strip-both", "the path removes option and data from SYNs", "AF RS", "", _NOTHING, _PATH),
        _row(
            "strip-synack-option",
            "the path removes the option from SYN-ACKs",
            *("", "CR", "no saving, since clients never get a cookie", _PATH),
        ),
        _row(
            "break-cookie",
            "the server rejects cookies: servers of one address have different keys, or the address changed",
            *("AF RS", "PF", _NOTHING),
            "give all servers of an address the same net.ipv4.tcp_fastopen_key",
        ),
        _row(
            "rst-syn-data",
            "the path answers SYNs with data with a reset",
            *("FAIL", "", "the connection fails", _PATH),
        ),
        _row("drop-synack", "the path drops SYN-ACKs", "AF SR RS TO", "P", "the connection fails", _PATH),
        _row(
            "drop-answers",
            "the path drops answers after accepted SYN data",
            *("A", "P AF", "the connection fails"),
            "as root: sysctl -w net.ipv4.tcp_fastopen_blackhole_timeout_sec=3600",
        ),
        _row(
            "cookie-less",
            "this client sends data without a cookie (0x4) to an ordinary server",
            *("AF RS", "", _NOTHING, "as root: remove 0x4 from net.ipv4.tcp_fastopen"),
        ),
        _row(
            "short-queue",
            "the server's TFO queue is full",
            *("AF RS", "LO", _NOTHING),
            "give the server a longer queue: setsockopt(TCP_FASTOPEN, 256), nginx fastopen=256",
        ),
        _row(
            "no-queue",
            "the server's listener has no TFO queue: the program did not request one, or it uses MPTCP",
            *("", "", "no saving, since clients never get a cookie"),
            "let the server request one: setsockopt(TCP_FASTOPEN, 256), nginx fastopen=256, HAProxy tfo",
        ),
    )
}


def named(*names: str) -> tuple[Behaviour, ...]:
    """Return the behaviours with these names."""
    return tuple(BEHAVIOURS[name] for name in names)
