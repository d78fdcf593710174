"""Describe the findings on a server: a verdict, its evidence and its possible causes."""

from collections.abc import Iterator
from typing import Final

from fastopen.apps.diagnose.behaviours import Behaviour, named
from fastopen.apps.diagnose.probe.trials import Handling, Probed
from fastopen.apps.diagnose.why.diagnosis import SERVER


def verdict(found: Probed) -> str:
    if not found.reachable:
        return f"cannot be determined: {found.error}"
    if found.disabled_here:
        return "cannot be determined: this machine's kernel has turned Fast Open off for now"
    if found.asking_dropped:
        return "the path drops SYNs that request a cookie"
    if not found.cookie:
        return "no Fast Open: the server sent no cookie"
    if found.cookie_before and found.data_with_cookie is Handling.NOT_ACCEPTED:
        return "rejects data that comes with the cookie of its address"
    return {
        Handling.ACCEPTED: "Fast Open works",
        Handling.NOT_ACCEPTED: "sends cookies, but rejects the data that comes with them",
        Handling.DROPPED: "sends cookies, but SYNs with data are dropped",
        Handling.REFUSED: "sends cookies, but SYNs with data are answered with a reset",
        Handling.UNANSWERED: "sends cookies, but does not answer after data in the SYN",
    }.get(found.data_with_cookie, "sends cookies; the fate of data in the SYN is unknown")


# The behaviours with which each outcome is consistent; see docs/paths.md.
_ROWS: Final = {
    Handling.ACCEPTED: ("none",),
    Handling.NOT_ACCEPTED: ("break-cookie", "strip-data", "strip-both", "short-queue"),
    Handling.DROPPED: ("drop-syn-data",),
    Handling.REFUSED: ("rst-syn-data",),
    Handling.UNANSWERED: ("drop-synack", "drop-answers"),
}


def consistent(found: Probed, setting: int = SERVER) -> tuple[Behaviour, ...]:
    """Return the possible causes of the results, which the client cannot distinguish; empty if unknown.
    `setting` is the value of net.ipv4.tcp_fastopen on this machine."""
    if not found.reachable or found.disabled_here:
        return ()
    if found.asking_dropped:
        return named("drop-option", "drop-synack-option")
    if not found.cookie and found.on_this_machine:
        return named("no-queue") if setting & SERVER else ()
    if not found.cookie:
        return named("no-queue", "strip-option", "strip-both", "strip-synack-option")
    rows = _ROWS.get(found.data_with_cookie, ())
    if found.cookie_before and found.data_with_cookie is Handling.NOT_ACCEPTED:
        here = ("break-cookie", "short-queue")
        return named("no-queue", *(here if found.on_this_machine else rows))
    return named(*rows)


def meaning(found: Probed, setting: int = SERVER) -> Iterator[str]:
    """Yield sentences about the evidence for the verdict and about possible causes. `setting` is the value of
    net.ipv4.tcp_fastopen on this machine."""
    if not found.reachable:
        return
    if found.disabled_here:
        yield (
            "After SYNs with data were lost somewhere, Linux stops using Fast Open everywhere for"
            " net.ipv4.tcp_fastopen_blackhole_timeout_sec."
        )
        return
    if found.asking_dropped:
        yield "Each was retransmitted without the option; the one without Fast Open came through at once."
    elif not found.cookie and found.on_this_machine and setting & SERVER:
        yield "The server is on this machine, so there is no path: the listener did not request a queue."
    elif not found.cookie and found.on_this_machine:
        yield (
            f"The server is on this machine, where net.ipv4.tcp_fastopen is {setting}, off for servers;"
            f" as root: sysctl -w net.ipv4.tcp_fastopen={setting | SERVER}"
        )
    elif not found.cookie:
        yield (
            "Either the server has no Fast Open, or something on the path removes the option from SYN or"
            " SYN-ACK."
        )
    yield from _with_cookie(found)
    yield from _without_cookie(found)


def _with_cookie(found: Probed) -> Iterator[str]:
    if found.data_with_cookie is Handling.ACCEPTED:
        yield "Data in the SYN was acknowledged with the SYN-ACK."
        if found.answer_ms is not None and found.answer_with_syn_data_ms is not None:
            sooner = found.answer_ms - found.answer_with_syn_data_ms
            yield (
                f"The first byte of the answer came {found.answer_with_syn_data_ms:.1f} ms after the start"
                f" instead of {found.answer_ms:.1f} ({sooner:+.1f} ms saved; the RTT is"
                f" {found.rtt_ms or 0:.1f} ms)."
            )
        else:
            yield "But it got no answer."
    elif found.data_with_cookie is Handling.NOT_ACCEPTED and found.cookie_before:
        yield (
            "The cookie was known before: Linux stores cookies by address, not by port, so it may be of"
            " another port. Then this listener has no TFO queue."
        )
    elif found.data_with_cookie is Handling.NOT_ACCEPTED:
        yield (
            "The server forgot its key (servers behind one address that do not share it), its queue for such"
            " connections was full, or something on the path removes data or cookie from the SYN."
        )
    elif found.data_with_cookie is Handling.DROPPED:
        yield "They got no answer until the kernel retransmitted them without data, a second later."


def _without_cookie(found: Probed) -> Iterator[str]:
    if found.data_without_cookie is Handling.ACCEPTED:
        yield (
            "It also accepts data without a cookie: an attacker with forged addresses can make it work"
            " (net.ipv4.tcp_fastopen has 0x200 there, or a proxy answers)."
        )
    elif found.data_without_cookie is Handling.NOT_ACCEPTED:
        yield "Data without a cookie is rejected, but its SYN is answered at once, so nothing drops it."
    elif found.data_without_cookie is Handling.DROPPED:
        yield "SYNs with data but without a cookie are dropped on the way."
