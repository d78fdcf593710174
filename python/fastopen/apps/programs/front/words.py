"""Print the report on a command's use of TFO in a terminal."""

from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from fastopen.common.grid import figures, keys, listing
from fastopen.common.phrases import plural, some
from fastopen.common.terminal import fitting_table

IN_WORLD: Final = "fastopen-shell/1"
PEERS_SHOWN: Final = 10
CLIENT_BIT: Final = 1
SERVER_BIT: Final = 2
# A key of `not_helped` in the report, which maps each reason for calls without TFO to their number
# (crates/intercept/src/supervisor.rs).
MULTIPATH: Final = "its socket uses Multipath TCP"
COLUMNS: Final = {
    "connections": "connections",
    "cookie_requested": "cookie asked",
    "syn_data_sent": "SYN data",
    "syn_data_acked": "acknowledged",
    "failed": "failed",
}


def write_report(document: dict[str, Any], target: Console) -> None:
    """Print the JSON report of `fastopen exec` as text: a verdict, a table of servers, and notes."""
    target.print(Text(verdict(document), style="bold"), soft_wrap=True)
    if peers := document["peers"]:
        rows = [(peer["peer"], *(str(peer[key]) for key in COLUMNS)) for peer in peers[:PEERS_SHOWN]]
        if rest := peers[PEERS_SHOWN:]:
            rows.append((f"{len(rest)} more", *(str(sum(peer[key] for peer in rest)) for key in COLUMNS)))
        grid = listing((*keys("server"), *figures(*COLUMNS.values())), rows)
        target.print(fitting_table(grid, target.width)[0])
    for note in notes(document):
        target.print(Text(f"- {note}"), soft_wrap=True)


def verdict(document: dict[str, Any]) -> str:
    """Return a sentence that sums up a command's use of TFO, from the JSON report of `fastopen exec`."""
    total, not_helped = document["total"], document["not_helped"]
    connections = total["connections"]
    if not connections and MULTIPATH in not_helped:
        opened = plural(not_helped[MULTIPATH], "connection")
        return f"TCP Fast Open: not known, since the command opened {opened} of Multipath TCP."
    if not connections and _uncounted(document):
        return "TCP Fast Open: not known, since the command called connect for no TCP connection."
    if not connections:
        return "TCP Fast Open: the command opened no TCP connection."
    sent, acknowledged = total["syn_data_sent"], total["syn_data_acked"]
    message = f"TCP Fast Open: {sent} of {plural(connections, 'connection')} carried data in the SYN"
    if sent:
        each = "all" if acknowledged == sent else str(acknowledged)
        message += f", {each} acknowledged"
    if total["cookie_requested"]:
        message += f"; {total['cookie_requested']} requested a cookie"
    return message + "."


def notes(document: dict[str, Any]) -> Iterator[str]:
    """Yield notes from the JSON report of `fastopen exec`: failures, calls without TFO, and counters."""
    total, setting, counters = document["total"], document["tcp_fastopen"], document["counters"]
    without = [one["peer"] for one in document["peers"] if 1 < one["cookie_requested"] == one["established"]]
    if without:
        yield f"sent no cookie after several requests: {some(without, PEERS_SHOWN)}"
    lost = {
        "data_not_acked": "the server acknowledged the SYN without its data (cookie rejected)",
        "syn_retransmitted": "the SYN with data was lost or dropped, and retransmitted without data",
        "failed": "never established (refused, timed out, no route)",
        "unused": "closed before anything was sent",
        "elsewhere": "in another network namespace, which fastopen cannot see",
        "unknown": "without a report of the kernel (aborted, or the report was lost)",
    }
    for key, meaning in lost.items():
        if total[key]:
            yield f"{plural(total[key], 'connection')}: {meaning}"
    if document["begun_without_data"]:
        handshakes = plural(document["begun_without_data"], "handshake")
        yield f"{handshakes} started without data, since the client did not write within 20 ms"
    for reason, calls in document["not_helped"].items():
        yield f"{plural(calls, 'call')} went on without TFO: {reason}"
    if document["overrun"]:
        yield "more sockets ended at once than the kernel could report"
    if counters.get("TCPFastOpenBlackhole"):
        times = plural(counters["TCPFastOpenBlackhole"], "time")
        yield f"the kernel turned TCP Fast Open off {times}, since it suspected a path that drops it"
    in_world = document.get("format") == IN_WORLD
    if uncounted := _uncounted(document):
        message = f"{plural(uncounted, 'connection')} with data in the SYN not counted above: opened with"
        yield message + (" io_uring" if in_world else " io_uring, or by another program")
    yield from document.get("servers_failed", ())
    if in_world:
        yield from _about_world(setting, document.get("packets_dropped", 0))
    else:
        yield from _about_setting(setting, document["listeners"])
    if counters:
        grown = ", ".join(f"{name} +{growth}" for name, growth in counters.items())
        yield f"counters of the network namespace, for all programs: {grown}"
    if document["goes_on"] and not in_world:
        yield "processes of the command still run with TCP Fast Open; this report does not count them"


def _uncounted(document: dict[str, Any]) -> int:
    """Return the number of TFO connections that only the kernel counted, such as those made by io_uring."""
    counters: dict[str, int] = document["counters"]
    total: dict[str, int] = document["total"]
    opened = counters.get("TCPFastOpenActive", 0) + counters.get("TCPFastOpenActiveFail", 0)
    return max(0, opened - total["syn_data_sent"] - total["unknown"])


def _about_world(setting: int, dropped: int) -> Iterator[str]:
    if not setting & CLIENT_BIT:
        yield "TFO was off in this world; --tfo turns it on"
    if dropped:
        yield f"the file of packets lacks {plural(dropped, 'packet')}: there was no room for more"


def _about_setting(setting: int, listeners: int) -> Iterator[str]:
    remedy = f"as root: sysctl -w net.ipv4.tcp_fastopen={setting | CLIENT_BIT | SERVER_BIT}"
    if not setting & CLIENT_BIT:
        yield f"net.ipv4.tcp_fastopen is {setting}, off for clients; {remedy}"
    if listeners and not setting & SERVER_BIT:
        message = f"net.ipv4.tcp_fastopen is {setting}, off for servers: "
        yield message + f"{plural(listeners, 'listener')} sent no cookies; {remedy}"
