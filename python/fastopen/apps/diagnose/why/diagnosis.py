"""Derive findings from settings, listeners and counters: faults, their possible causes, and remedies."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fastopen.apps.diagnose.behaviours import BEHAVIOURS, Behaviour, named
from fastopen.apps.diagnose.why.machine import LocalListener, Machine

# Bits of net.ipv4.tcp_fastopen (Documentation/networking/ip-sysctl.rst).
CLIENT: Final = 0x1
SERVER: Final = 0x2
CLIENT_NO_COOKIE: Final = 0x4
SERVER_NO_COOKIE: Final = 0x200
SERVER_ALL: Final = 0x400
# On the first visit of a page, a browser opens more connections than this at once.
SHORT_QUEUE: Final = 5


@dataclass(frozen=True)
class Observation:
    """A finding about TFO on this machine. `key` identifies it for programs, such as `client-off`. `fault` is
    True if the finding is a problem that prevents TFO, at least sometimes. `says` is its text. `rows` lists
    possible causes: behaviours of the network path, the server or settings. `todo` is advice or empty."""

    key: str
    fault: bool
    says: str
    rows: tuple[Behaviour, ...] = ()
    todo: str = ""


def diagnose(machine: Machine, grown: Mapping[str, int]) -> list[Observation]:
    """Return findings on the TFO settings, listeners and counters of a machine. `grown` maps the name of each
    counter to its growth during an observation, or to its total."""
    counted = Counter(grown)
    return [*_settings(machine), *_listeners(machine), *_client(machine, counted), *_server(machine, counted)]


def _settings(machine: Machine) -> Iterator[Observation]:
    value = machine.fastopen
    if "net.ipv4.tcp_fastopen" not in machine.settings:
        yield Observation(
            "unsupported", True, "this kernel has no net.ipv4.tcp_fastopen", (), "use another kernel"
        )
        return
    # One remedy for both findings, since separate commands would undo each other.
    both_on = _set(value | CLIENT | SERVER)
    if not value & CLIENT:
        says = f"net.ipv4.tcp_fastopen is {value}: clients of this machine never request a cookie"
        yield Observation("client-off", True, says, (), both_on)
    if not value & SERVER:
        says = f"net.ipv4.tcp_fastopen is {value}: servers of this machine send no cookies"
        queued = any(one.queue for one in machine.listeners)
        yield Observation("server-off", queued, says, named("no-queue"), both_on)
    if value & CLIENT and value & CLIENT_NO_COOKIE:
        says = f"net.ipv4.tcp_fastopen is {value}, with 0x4: clients send data without a cookie, which an"
        says += " ordinary server does not accept"
        todo = _set(value & ~CLIENT_NO_COOKIE)
        yield Observation("client-cookie-less", True, says, named("cookie-less"), todo)
    if value & SERVER and value & SERVER_NO_COOKIE:
        says = f"net.ipv4.tcp_fastopen is {value}, with 0x200: servers accept data from forged addresses,"
        says += " too, and send no cookies, so ordinary clients never send data"
        yield Observation("server-cookie-less", True, says, (), _set(value & ~SERVER_NO_COOKIE))
    seconds = machine.settings.get("net.ipv4.tcp_fastopen_blackhole_timeout_sec", 0)
    times = machine.counters.get("TCPFastOpenBlackhole", 0)
    if seconds and times:
        says = f"the kernel has suspected a black hole {times} times, and TFO is off for clients for"
        says += f" {seconds} s after the first, longer after each further one"
        todo = "if the path is known to be good, as root:"
        todo += " sysctl -w net.ipv4.tcp_fastopen_blackhole_timeout_sec=0"
        yield Observation("blackhole", True, says, named("drop-answers"), todo)


def _listeners(machine: Machine) -> Iterator[Observation]:
    if not machine.fastopen & SERVER or machine.fastopen & SERVER_ALL:
        return
    known = [listener for listener in machine.listeners if listener.queue is not None]
    for listener in (one for one in known if not one.able):
        says = f"the listener at {_shown(listener)} uses MPTCP, which sends no cookie on this kernel"
        todo = "switch MPTCP off in the server (Go: GODEBUG=multipathtcp=0), or as root:"
        todo += " sysctl -w net.mptcp.enabled=0"
        yield Observation("mptcp-listener", True, says, named("no-queue"), todo)
    plain = [one for one in known if one.able]
    if plain and not any(one.queue for one in plain):
        says = f"none of the {len(plain)} visible listeners has a TFO queue: {_named(plain)}."
        says += " The sysctl is not enough: the server has to request the queue"
        yield Observation("no-queue", True, says, named("no-queue"), BEHAVIOURS["no-queue"].remedy)
    for listener in plain:
        if listener.queue and listener.queue < SHORT_QUEUE:
            says = f"the listener at {_shown(listener)} holds {listener.queue} connections with data in the"
            says += " SYN until they are established; further ones fall back"
            row = BEHAVIOURS["short-queue"]
            yield Observation("short-queue", True, says, (row,), row.remedy)


def _client(machine: Machine, grown: Counter[str]) -> Iterator[Observation]:
    active, taken, again = grown["TCPFastOpenActive"], grown["TCPFastOpenPassive"], grown["TCPSynRetrans"]
    if active:
        says = f"TCPFastOpenActive counted {active}: data in the SYN was acknowledged"
        yield Observation("client-works", False, says, named("none"))
        silent = grown["TCPTimeouts"] - again
        if silent > 0 and not grown["TCPFastOpenBlackhole"]:
            says = f"established connections timed out {silent} times: packets were lost, or no answers come"
            says += " back after data in the SYN"
            yield Observation("answers-missing", False, says, named("drop-answers"), "fastopen probe HOST")
    if holes := grown["TCPFastOpenBlackhole"]:
        says = f"TCPFastOpenBlackhole counted {holes}: connections fell silent after their data in the SYN"
        says += " was accepted"
        todo = "probe the server from another network: fastopen probe HOST"
        yield Observation("client-blackhole", True, says, named("drop-answers"), todo)
    # Both ends of a connection may be on this machine: leave out failures that its servers have counted.
    counted = grown["TCPFastOpenListenOverflow"] + grown["TCPFastOpenPassiveFail"]
    failed = max(grown["TCPFastOpenActiveFail"] - counted, 0)
    if failed and not taken:
        rows = tuple(_failures(machine, grown))
        says = f"TCPFastOpenActiveFail counted {failed}: data in the SYN was not acknowledged"
        if again:
            says += f", and {again} SYNs were retransmitted"
        says += ". Linux caches cookies per address, so after one port sends a cookie, clients send data to"
        says += " every port there"
        todo = "run fastopen probe HOST to find the cause"
        yield Observation("client-fails", True, says, rows, todo)
    elif failed:
        says = f"TCPFastOpenActiveFail and TCPFastOpenPassive counted {failed} and {taken}: answers of"
        says += " servers here that accepted data in the SYN were lost, or clients here failed"
        rows = named("drop-answers", "strip-data", "drop-synack")
        yield Observation("answers-lost", True, says, rows, "fastopen probe HOST")
    if active or grown["TCPFastOpenActiveFail"] or not machine.fastopen & CLIENT:
        return
    opened, attempts = grown["ActiveOpens"], grown["AttemptFails"]
    if attempts:
        says = f"AttemptFails counted {attempts} of {opened} connections: refused, or never answered"
        todo = "fastopen probe HOST shows if the server refuses all, or the path refuses SYNs with data"
        # A few refused connections are normal. Behind a path that refuses SYNs with data, at least half of
        # them fail, even if programs then connect again without TFO.
        yield Observation("refused", 2 * attempts >= opened, says, named("rst-syn-data"), todo)
    elif again:
        says = f"{again} SYNs were retransmitted, and TFO counted nothing: loss, or a path that"
        says += " drops SYNs that request a cookie, or the answers to these or to SYNs with data"
        # TCPFastOpenActiveFail may grow later: when a SYN-ACK arrives, or after two minutes without one.
        rows = named("drop-option", "drop-synack-option", "drop-synack")
        yield Observation("asking-lost", True, says, rows, "fastopen probe HOST")
    elif opened:
        says = f"{opened} connections were opened and none had data in its SYN: programs did not request TFO,"
        says += " or had no cookie"
        if machine.cookies == 0:
            says += "; the kernel stores no cookie"
        todo = "fastopen exec -- COMMAND requests it for any program; fastopen probe HOST shows if a server"
        todo += " hands out cookies"
        rows = named("no-queue", "strip-option", "strip-both", "strip-synack-option")
        yield Observation("client-idle", False, says, rows, todo)


def _failures(machine: Machine, grown: Counter[str]) -> Iterator[Behaviour]:
    """Yield the behaviours (see BEHAVIOURS) that can explain the growth of TCPFastOpenActiveFail."""
    again = grown["TCPSynRetrans"]
    # With more failures than retransmitted SYNs, some connections failed without a lost SYN.
    at_once = grown["TCPFastOpenActiveFail"] > again
    if at_once:
        yield BEHAVIOURS["no-queue"]
    for row in BEHAVIOURS.values():
        if row.name == "cookie-less" and not machine.fastopen & CLIENT_NO_COOKIE:
            continue
        if (row.fails == "after a lost SYN" and again) or (row.fails == "at once" and at_once):
            yield row


def _server(machine: Machine, grown: Counter[str]) -> Iterator[Observation]:
    taken, asked = grown["TCPFastOpenPassive"], grown["TCPFastOpenCookieReqd"]
    if taken:
        says = f"TCPFastOpenPassive counted {taken}: servers here accepted data in SYNs"
        yield Observation("server-works", False, says, named("none", "strip-data"))
    if full := grown["TCPFastOpenListenOverflow"]:
        says = f"TCPFastOpenListenOverflow counted {full}: times that a listener's TFO queue was full"
        yield Observation("overflow", True, says, named("short-queue"), BEHAVIOURS["short-queue"].remedy)
    if failed := grown["TCPFastOpenPassiveFail"]:
        says = f"TCPFastOpenPassiveFail counted {failed}: cookies were not valid here"
        todo = BEHAVIOURS["break-cookie"].remedy
        yield Observation("cookies-not-valid", True, says, named("break-cookie"), todo)
    elif asked and not taken and not _hands_out_cookies(machine):
        says = f"TCPFastOpenCookieReqd counted {asked}: clients requested cookies, but no listener here"
        says += " sends them"
        on = machine.fastopen & SERVER
        todo = BEHAVIOURS["no-queue"].remedy if on else _set(machine.fastopen | CLIENT | SERVER)
        yield Observation("asked-in-vain", True, says, named("no-queue"), todo)
    elif asked and not taken:
        says = f"TCPFastOpenCookieReqd counted {asked} and TCPFastOpenPassive nothing: "
        rows = named("strip-synack-option", "drop-synack-option", "drop-syn-data")
        todo = "run fastopen probe for this server from the network of its clients"
        if without := [one for one in machine.listeners if one.queue == 0]:
            says += "clients may have requested cookies of listeners without a TFO queue"
            says += f" ({_named(without)}), which the kernel counts as well; or they "
            rows = (*named("no-queue"), *rows)
            todo = f"{BEHAVIOURS['no-queue'].remedy}; or {todo}"
        else:
            says += "clients "
        says += "get cookies but never use them: they connect only once, or the path to or from"
        says += " them breaks TFO"
        yield Observation("cookies-unused", True, says, rows, todo)
    elif not taken and machine.fastopen & SERVER and any(one.queue for one in machine.listeners):
        says = "listeners have a TFO queue, but no client requested a cookie: no current browser does, or"
        says += " the path removes the option from SYNs"
        rows = named("strip-option", "strip-both")
        yield Observation("server-idle", False, says, rows, "run fastopen probe for this server")


def _hands_out_cookies(machine: Machine) -> bool:
    # This user may be unable to see some listeners and queues.
    queued = not machine.listeners or any(one.queue != 0 for one in machine.listeners)
    return bool(machine.fastopen & SERVER) and (queued or bool(machine.fastopen & SERVER_ALL))


def _named(listeners: Sequence[LocalListener]) -> str:
    return ", ".join(sorted({*map(_shown, listeners)})[:4])


def _set(value: int) -> str:
    return f"as root: sysctl -w net.ipv4.tcp_fastopen={value}"


def _shown(one: LocalListener) -> str:
    host = f"[{one.address}]" if ":" in one.address else one.address
    return f"{host}:{one.port} ({one.process})"
