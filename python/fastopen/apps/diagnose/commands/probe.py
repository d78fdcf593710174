"""Define `fastopen probe HOST[:PORT]...`: test TCP Fast Open with real servers and the paths to them."""

import socket
from itertools import groupby
from typing import Annotated, Final

from rich.text import Text
from typer import Argument, Option

from fastopen.apps.diagnose.probe.trials import CONNECTIONS_MAX, Probed, probe, target_of
from fastopen.apps.diagnose.probe.words import Conclusion, conclude
from fastopen.apps.diagnose.why.machine import sysctl
from fastopen.cli.output import EXIT_INTERRUPTED, exit_if, print_json, print_line, print_message
from fastopen.cli.shared_options import JsonOption, QuietOption
from fastopen.common.errors import InputError, MachineError

PANEL: Final = "Real networks and programs"

SETTING: Final = "net.ipv4.tcp_fastopen"
HOSTS_MAX: Final = 100


def command(
    hosts: Annotated[list[str], Argument(metavar="HOST[:PORT]...", help="Servers; port 443 by default.")],
    ipv4: Annotated[bool, Option("--ipv4", "-4", help="IPv4 only.")] = False,
    ipv6: Annotated[bool, Option("--ipv6", "-6", help="IPv6 only.")] = False,
    timeout: Annotated[float, Option(min=0.1, max=60, help="Seconds for each connection.")] = 5.0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Test if real servers send Fast Open cookies, and if they accept and answer data in the SYN.

    Needs no root. Makes up to seven connections to each server, one at a time, and closes each after the
    first answer. Sends a TLS ClientHello to port 443, 8443 or https://, otherwise a HEAD request."""
    targets = [target_of(host) for host in dict.fromkeys(hosts)]
    if len(targets) > HOSTS_MAX:
        raise InputError(f"{len(targets)} servers are too many", "HOST", f"give at most {HOSTS_MAX}")
    if ipv4 and ipv6:
        raise InputError("cannot be combined with --ipv6", "--ipv4", "drop one of them")
    setting = _check_setting()
    family = socket.AF_INET if ipv4 else socket.AF_INET6 if ipv6 else socket.AF_UNSPEC
    found: list[tuple[Probed, Conclusion]] = []
    interrupted = False
    for target in targets:
        if not quiet:
            what = "the beginning of a TLS handshake" if target.scheme == "https" else "a HEAD request"
            message = f"{target}: up to {CONNECTIONS_MAX} connections, one at a time, each with {what}"
            print_message(f"{message} and {timeout:g} s at most", "dim")
        try:
            probed = probe(target, family=family, timeout_s=timeout)
        except KeyboardInterrupt:
            interrupted = True
            break
        found.append((probed, conclude(probed, setting)))
        if not json:
            _print(*found[-1])
    if json:
        rows = [
            {
                **probed.as_json(),
                "verdict": conclusion.verdict,
                "meaning": conclusion.meaning,
                "consistent_with": [cause.name for cause in conclusion.causes],
            }
            for probed, conclusion in found
        ]
        print_json({"format": "fastopen-probe/1", "hosts": rows})
    exit_if(interrupted, EXIT_INTERRUPTED)
    exit_if(not all(probed.reachable for probed, _ in found))


def _check_setting() -> int:
    """Return the value of net.ipv4.tcp_fastopen. Raises MachineError if Fast Open is off for clients."""
    text = sysctl(SETTING) or ""
    if not text.isdecimal():
        remedy = "use a kernel with TCP Fast Open, and a container that shows /proc/sys"
        raise MachineError(f"/proc/sys/{SETTING.replace('.', '/')} cannot be read", remedy)
    value = int(text)
    if not value & 1:
        message = f"{SETTING} is {value}, so Fast Open is off for clients"
        raise MachineError(message, f"as root: sysctl -w {SETTING}={value | 1}")
    return value


def _print(found: Probed, conclusion: Conclusion) -> None:
    where = f" ({found.address})" if found.address and found.address != found.target.host else ""
    print_line(Text.assemble((str(found.target), "bold"), f"{where}: {conclusion.verdict}"))
    for sentence in conclusion.meaning:
        print_line(f"  {sentence}")
    for remedy, causes in groupby(conclusion.causes, key=lambda cause: cause.remedy):
        if remedy:
            for cause in causes:
                print_line(Text.assemble("  ", (cause.name, "bold"), f": {cause.does}"))
            print_line(f"    to do: {remedy}")
