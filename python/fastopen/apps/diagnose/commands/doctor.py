"""Define `fastopen doctor`: check if this machine can run fastopen, and propose remedies."""

import os
import platform
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from fastopen.apps.diagnose.why.diagnosis import CLIENT, SERVER
from fastopen.apps.diagnose.why.machine import read_counters, sysctl
from fastopen.cli.output import EXIT_MACHINE, console, exit_if, print_json
from fastopen.cli.shared_options import JsonOption
from fastopen.common.errors import MachineError
from fastopen.common.phrases import plural
from fastopen.common.units import on_off
from fastopen.engines import check_program, find_program, kernels, program_version
from fastopen.engines.kernel_recipe import is_outdated
from fastopen.engines.worlds import default_parallel

PANEL: Final = "Trust"

# Linux 4.11 introduced TCP_FASTOPEN_CONNECT, with which any client can use TFO.
KERNEL_MIN: Final = (4, 11)
TIMER_MAX_US: Final = 1000.0
# In a narrower terminal, the detail of a check goes below its name.
ONE_LINE_MIN: Final = 80
INDENT: Final = 9
# Sysctls that can forbid namespaces, each with the value that forbids them and a value that permits them.
SETTINGS: Final = {
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "user.max_user_namespaces": ("0", "15000"),
    "user.max_net_namespaces": ("0", "15000"),
}


@dataclass(frozen=True)
class Check:
    """The result of checking if this machine meets a requirement. `remedy` is the fix if `ok` is False."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def command(json: JsonOption = False) -> None:
    """Check if this machine can run fastopen, and suggest fixes."""
    checks = list(_checks())
    able = all(check.ok for check in checks)
    if json:
        print_json({"ok": able, "checks": [asdict(check) for check in checks]})
    else:
        _print(checks, console())
    exit_if(not able, EXIT_MACHINE)


def _checks() -> Iterator[Check]:
    linux = sys.platform == "linux"
    yield Check("Linux", linux, platform.platform(terse=True), "use a Linux machine or virtual machine")
    if not linux:
        return
    release = platform.release()
    numbers = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdecimal())
    needed = ".".join(str(part) for part in KERNEL_MIN)
    yield Check("kernel", numbers >= KERNEL_MIN, release, f"Linux {needed} or newer is needed")
    yield from _fast_open()
    yield from _settings()
    resolution_us = time.clock_getres(time.CLOCK_MONOTONIC) * 1e6
    exact, detail = resolution_us < TIMER_MAX_US, f"resolution {resolution_us:g} us"
    yield Check("timers", exact, detail, "boot a kernel with high-resolution timers (highres=on)")
    yield Check("cores", True, f"{len(os.sched_getaffinity(0))}; {default_parallel()} networks in parallel")
    yield from _engines()


def _fast_open() -> Iterator[Check]:
    """Check if the kernel supports TFO, and report its TFO settings. Any value of a setting passes."""
    text = sysctl("net.ipv4.tcp_fastopen")
    detail = "not supported by this kernel" if text is None else "supported; each load sets its own"
    yield Check("TCP Fast Open", text is not None, detail, "boot a kernel with IPv4 and TCP Fast Open")
    if text is None or not text.isdecimal():
        return
    value = int(text)
    both = value | CLIENT | SERVER
    bits = {"clients": CLIENT, "servers": SERVER}
    ends = ", ".join(f"{who} {on_off(bool(value & bit))}" for who, bit in bits.items())
    on = "" if value == both else f"; to turn both on, as root: sysctl -w net.ipv4.tcp_fastopen={both}"
    yield Check("TFO on this machine", True, f"{ends} (net.ipv4.tcp_fastopen is {value}{on})")
    hole = sysctl("net.ipv4.tcp_fastopen_blackhole_timeout_sec")
    if hole is not None:
        times = read_counters().get("TCPFastOpenBlackhole")
        found = "" if times is None else f"; suspected {plural(times, 'time')} since boot"
        off_for = (
            "detection off" if hole == "0" else f"TFO is off for {hole} s after a suspicion, then longer"
        )
        yield Check("TFO black hole", True, f"{off_for}{found}")
    yield Check("browsers", True, "no current browser uses TFO: fastopen measures what they would gain")


def _settings() -> Iterator[Check]:
    """Check the sysctls that can forbid namespaces. Those that begin with `kernel.` do not restrict root."""
    for name, (forbidding, permitting) in SETTINGS.items():
        value = sysctl(name)
        if value is None:
            continue
        ok = value != forbidding or (os.geteuid() == 0 and not name.startswith("user."))
        yield Check(name, ok, value, f"as root: sysctl -w {name}={permitting}")


def _engines() -> Iterator[Check]:
    try:
        program = find_program()
        yield Check("world program", True, f"{program} {program_version(program)}")
        yield from (Check(**check) for check in check_program(program))
    except MachineError as error:
        yield Check("world program", False, error.message, error.remedy)
    try:
        kernel = kernels.find()
    except MachineError as error:
        # This is not a fault, because the host engine works without this kernel.
        yield Check("virtual engine", True, f"off: {error.message}; to do: {error.remedy}")
        return
    detail = f"kernel {kernel.name} (Linux {kernel.version})"
    if is_outdated(kernel):
        detail += f"; built by another version of fastopen; to do: {kernels.BUILD_IT}"
    yield Check("virtual engine", True, detail)


def _filled(text: str, indent: str, target: Console) -> str:
    """Wrap the text on a terminal. Keep it on one line in a file or pipe, so that text searches find it."""
    width = target.width if target.is_terminal else sys.maxsize
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _print(checks: list[Check], target: Console) -> None:
    failed = sum(not check.ok for check in checks)
    lacking = f"This machine cannot run all experiments yet: {failed} missing.\n"
    target.print(lacking if failed else "This machine can run fastopen.\n")
    one_line = not target.is_terminal or target.width >= ONE_LINE_MIN
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = Text("ok     ", style="green") if check.ok else Text("missing", style="bold red")
        indent = " " * (INDENT + width + 2 if one_line else INDENT)
        detail = _filled(check.detail, indent, target)
        found = f"{check.name:{width}}  {detail.lstrip()}" if one_line else f"{check.name}\n{detail}"
        target.print(Text.assemble(mark, f"  {found}"), soft_wrap=True)
        if not check.ok and check.remedy:
            target.print(Text(_filled(f"to do: {check.remedy}", " " * INDENT, target)), soft_wrap=True)
