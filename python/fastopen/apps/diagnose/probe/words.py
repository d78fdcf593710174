"""Judge a server's support for TCP Fast Open from test connections, and list possible causes of problems."""

from dataclasses import dataclass, replace
from typing import Final

from fastopen.apps.diagnose.behaviours import Behaviour, named
from fastopen.apps.diagnose.probe.trials import Handling, Probed
from fastopen.apps.diagnose.why.diagnosis import SERVER


@dataclass(frozen=True)
class Conclusion:
    """A verdict on a probed server's support for Fast Open. `causes` lists the possible causes, which the
    client cannot distinguish. `meaning` has sentences that explain the evidence and the causes."""

    verdict: str
    causes: tuple[Behaviour, ...] = ()
    meaning: tuple[str, ...] = ()


# The conclusion for each handling of data that comes with a cookie; docs/paths.md has the causes.
_WITH_COOKIE: Final = {
    Handling.ACCEPTED: Conclusion("Fast Open works", named("none")),
    Handling.NOT_ACCEPTED: Conclusion(
        "sends cookies, but rejects the data that comes with them",
        named("break-cookie", "strip-data", "strip-both", "short-queue"),
        (
            (
                "The server forgot its key (servers behind one address that do not share it), its queue for"
                " such connections was full, or something on the path removes data or cookie from the SYN."
            ),
        ),
    ),
    Handling.DROPPED: Conclusion(
        "sends cookies, but SYNs with data are dropped",
        named("drop-syn-data"),
        ("They got no answer until the kernel retransmitted them without data, a second later.",),
    ),
    Handling.REFUSED: Conclusion(
        "sends cookies, but SYNs with data are answered with a reset", named("rst-syn-data")
    ),
    Handling.UNANSWERED: Conclusion(
        "sends cookies, but does not answer after data in the SYN", named("drop-synack", "drop-answers")
    ),
}
_UNKNOWN: Final = Conclusion("sends cookies; the fate of data in the SYN is unknown")
# Sentences on the handling of data without a cookie.
_WITHOUT_COOKIE: Final = {
    Handling.ACCEPTED: "It also accepts data without a cookie: an attacker with forged addresses can make it"
    " work (net.ipv4.tcp_fastopen has 0x200 there, or a proxy answers).",
    Handling.NOT_ACCEPTED: "Data without a cookie is rejected, but its SYN is answered at once, so nothing"
    " drops it.",
    Handling.DROPPED: "SYNs with data but without a cookie are dropped on the way.",
}


def conclude(found: Probed, setting: int = SERVER) -> Conclusion:
    """Return the verdict on a server's Fast Open from the results of probing it. `setting` is the value of
    net.ipv4.tcp_fastopen on this machine, which matters if the server is on this machine."""
    if not found.reachable:
        return Conclusion(f"cannot be determined: {found.error}")
    if found.disabled_here:
        why = (
            "After SYNs with data were lost somewhere, Linux stops using Fast Open everywhere for"
            " net.ipv4.tcp_fastopen_blackhole_timeout_sec."
        )
        verdict = "cannot be determined: this machine's kernel has turned Fast Open off for now"
        return Conclusion(verdict, meaning=(why,))
    if found.asking_dropped:
        why = "Each was retransmitted without the option; the one without Fast Open came through at once."
        causes = named("drop-option", "drop-synack-option")
        meaning = (why, *_with_cookie(found).meaning)
        conclusion = Conclusion("the path drops SYNs that request a cookie", causes, meaning)
    else:
        conclusion = _with_cookie(found) if found.cookie else _no_cookie(found, setting)
    if without := _WITHOUT_COOKIE.get(found.data_without_cookie):
        conclusion = replace(conclusion, meaning=(*conclusion.meaning, without))
    return conclusion


def _no_cookie(found: Probed, setting: int) -> Conclusion:
    causes = named("no-queue", "strip-option", "strip-both", "strip-synack-option")
    why = "Either the server has no Fast Open, or something on the path removes the option from SYN or"
    why += " SYN-ACK."
    if found.on_this_machine and setting & SERVER:
        causes = named("no-queue")
        why = "The server is on this machine, so there is no path: the listener did not request a queue."
    elif found.on_this_machine:
        causes = ()
        why = (
            f"The server is on this machine, where net.ipv4.tcp_fastopen is {setting}, off for servers;"
            f" as root: sysctl -w net.ipv4.tcp_fastopen={setting | SERVER}"
        )
    return Conclusion("no Fast Open: the server sent no cookie", causes, (why,))


def _with_cookie(found: Probed) -> Conclusion:
    conclusion = _WITH_COOKIE.get(found.data_with_cookie, _UNKNOWN)
    if found.data_with_cookie is Handling.ACCEPTED:
        saved = "But it got no answer."
        if found.answer_ms is not None and found.answer_with_syn_data_ms is not None:
            saved = (
                f"The first byte of the answer came {found.answer_with_syn_data_ms:.1f} ms after the start"
                f" instead of {found.answer_ms:.1f}"
                f" ({found.answer_ms - found.answer_with_syn_data_ms:+.1f} ms saved; the RTT is"
                f" {found.rtt_ms or 0:.1f} ms)."
            )
        return replace(conclusion, meaning=("Data in the SYN was acknowledged with the SYN-ACK.", saved))
    if found.data_with_cookie is Handling.NOT_ACCEPTED and found.cookie_before:
        here = named("break-cookie", "short-queue")
        why = (
            "The cookie was known before: Linux stores cookies by address, not by port, so it may be of"
            " another port. Then this listener has no TFO queue."
        )
        causes = (*named("no-queue"), *(here if found.on_this_machine else conclusion.causes))
        return Conclusion("rejects data that comes with the cookie of its address", causes, (why,))
    return conclusion
