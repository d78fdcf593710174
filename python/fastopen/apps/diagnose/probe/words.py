"""The findings on a server in words: a verdict, and its possible meaning."""

from collections.abc import Iterator
from typing import Final

from fastopen.apps.diagnose.behaviours import Behaviour, named
from fastopen.apps.diagnose.probe.trials import Handling, Probed


def verdict(found: Probed) -> str:
    """One line."""
    if not found.reachable:
        return f"cannot be determined: {found.error}"
    if found.disabled_here:
        return "cannot be determined: this machine's kernel has turned Fast Open off for now"
    if found.asking_dropped:
        return "the path drops SYNs that ask for a cookie"
    if not found.cookie:
        return "no Fast Open: no cookie was handed out"
    if found.cookie_before and found.data_with_cookie is Handling.NOT_ACCEPTED:
        return "does not take data that comes with the cookie of its address"
    return {
        Handling.ACCEPTED: "Fast Open works",
        Handling.NOT_ACCEPTED: "hands out cookies, but does not take the data that comes with them",
        Handling.DROPPED: "hands out cookies, but SYNs with data are dropped",
        Handling.REFUSED: "hands out cookies, but SYNs with data are answered by a reset",
        Handling.UNANSWERED: "hands out cookies, but nothing comes back after data in the SYN",
    }.get(found.data_with_cookie, "hands out cookies; what becomes of data is not known")


# What each outcome is consistent with, in the words of docs/paths.md.
_ROWS: Final = {
    Handling.ACCEPTED: ("none",),
    Handling.NOT_ACCEPTED: ("break-cookie", "strip-data", "strip-both", "short-queue"),
    Handling.DROPPED: ("drop-syn-data",),
    Handling.REFUSED: ("rst-syn-data",),
    Handling.UNANSWERED: ("drop-synack", "drop-answers"),
}


def consistent(found: Probed) -> tuple[Behaviour, ...]:
    """Rows of the table of behaviours that this end cannot tell apart; none: nothing is known."""
    if not found.reachable or found.disabled_here:
        return ()
    if found.asking_dropped:
        return named("drop-option", "drop-synack-option")
    if not found.cookie and found.on_this_machine:
        return named("no-queue")
    if not found.cookie:
        return named("no-queue", "strip-option", "strip-both", "strip-synack-option")
    rows = _ROWS.get(found.data_with_cookie, ())
    if found.cookie_before and found.data_with_cookie is Handling.NOT_ACCEPTED:
        here = ("break-cookie", "short-queue")
        return named("no-queue", *(here if found.on_this_machine else rows))
    return named(*rows)


def meaning(found: Probed) -> Iterator[str]:
    """Sentences: what it rests on, and what else may be behind it."""
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
    elif not found.cookie and found.on_this_machine:
        yield (
            "The server is on this machine, so no path is between: net.ipv4.tcp_fastopen has no 2 here"
            " (fastopen why says so), or the listener did not ask."
        )
    elif not found.cookie:
        yield (
            "Either the server has no Fast Open, or something on the path takes the option out of SYN or"
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
            yield "But no answer came to it."
    elif found.data_with_cookie is Handling.NOT_ACCEPTED and found.cookie_before:
        yield (
            "The cookie was there before: Linux keeps cookies by address, not by port, so it may be of"
            " another port. Then this listener has no queue for Fast Open."
        )
    elif found.data_with_cookie is Handling.NOT_ACCEPTED:
        yield (
            "The server forgot its key (servers behind one address that do not share it), its queue for such"
            " connections was full, or something on the path takes data or cookie out of the SYN."
        )
    elif found.data_with_cookie is Handling.DROPPED:
        yield "They were not answered until the kernel sent them again without data, a second later."


def _without_cookie(found: Probed) -> Iterator[str]:
    if found.data_without_cookie is Handling.ACCEPTED:
        yield (
            "It also takes data without any cookie: whoever forges addresses can make it work and answer"
            " (net.ipv4.tcp_fastopen has 0x200 there, or a proxy answers)."
        )
    elif found.data_without_cookie is Handling.NOT_ACCEPTED:
        yield "Data without a cookie is not taken, but its SYN is answered at once: nothing drops it."
    elif found.data_without_cookie is Handling.DROPPED:
        yield "SYNs with data but without a cookie are dropped on the way."
