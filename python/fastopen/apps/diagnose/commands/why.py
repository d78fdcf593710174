"""Define `fastopen why`: check if TCP Fast Open works on this machine, and explain problems."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Final

from rich.text import Text
from typer import Exit, Option

from fastopen.apps.diagnose.why.diagnosis import Observation, diagnose
from fastopen.apps.diagnose.why.machine import Machine, read_machine
from fastopen.cli.output import EXIT_INTERRUPTED, exit_if, print_json, print_line, print_message
from fastopen.cli.shared_options import JsonOption
from fastopen.common.grouping import grouped
from fastopen.common.phrases import plural

PANEL: Final = "Real networks and programs"

# The counters to print in addition to those whose names begin with TCPFastOpen.
SHOWN: Final = ("AttemptFails", "RetransSegs", "TCPSynRetrans", "TCPTimeouts", "ActiveOpens", "PassiveOpens")

INDENT: Final = " " * 9


def command(
    seconds: Annotated[
        float, Option(min=0, max=3600, help="Time to watch counters; 0 for their totals.")
    ] = 3.0,
    watch: Annotated[bool, Option("--watch", help="Repeat until interrupted.")] = False,
    json: JsonOption = False,
) -> None:
    """Check if TCP Fast Open works on this machine, and print the causes and remedies of problems.

    Sends nothing, needs no root, and lists the facts that only root can check.

    Exit codes: 0 no problem found; 1 problem found."""
    try:
        faulty = _look(seconds, as_json=json)
        while watch:
            faulty = _look(seconds or 1.0, as_json=json)
    except KeyboardInterrupt:
        raise Exit(EXIT_INTERRUPTED) from None
    exit_if(faulty)


def _look(seconds: float, *, as_json: bool) -> bool:
    """Watch this machine's TFO counters for `seconds`, and print findings. If `seconds` is 0 or no TFO
    counter has grown, use the counters' totals. Return True if a finding is a fault."""
    before = read_machine()
    if seconds and not as_json:
        print_message(f"watching the counters for {seconds:g} s", "dim")
    time.sleep(seconds)
    after = read_machine() if seconds else before
    grown = Counter(after.counters) - Counter(before.counters)  # only the counters that have grown
    # If no TFO counter has grown, diagnose from the totals, which may show earlier faults.
    now = any(name.startswith("TCPFastOpen") for name in grown)
    counted: Mapping[str, int] = grown if now else after.counters
    since = f"in the last {seconds:g} s" if now else "since the network namespace was made"
    findings = diagnose(after, counted)
    if as_json:
        print_json(
            {
                "format": "fastopen-why/1",
                "settings": dict(after.settings),
                "key": after.key,
                "listeners": [asdict(listener) for listener in after.listeners],
                "cookies": after.cookies,
                "since": since,
                "counters": _of_interest(counted),
                "findings": [{**vars(one), "rows": [row.name for row in one.rows]} for one in findings],
                "unseen": list(after.unseen),
            }
        )
    else:
        _print(after, counted, since, findings)
    return any(finding.fault for finding in findings)


def _of_interest(counted: Mapping[str, int]) -> dict[str, int]:
    return {
        name: value
        for name, value in sorted(counted.items())
        if value and (name.startswith("TCPFastOpen") or name in SHOWN)
    }


def _print(machine: Machine, counted: Mapping[str, int], since: str, findings: list[Observation]) -> None:
    faults = [finding for finding in findings if finding.fault]
    found = f"TFO has {plural(len(faults), 'problem')} here" if faults else "No problem found"
    print_line(f"{found} (settings, listeners, and counters {since}).")
    known: set[str] = {"none"}
    ordered = [*faults, *(finding for finding in findings if not finding.fault)]
    for todo, alike in grouped((finding.todo, finding) for finding in ordered).items():
        for finding in alike:
            mark = Text("problem  ", style="bold red") if finding.fault else Text("info     ", style="green")
            print_line(Text.assemble("\n", mark, finding.says, "."))
            causes = grouped((row.costs, row) for row in finding.rows if row.name not in known)
            for costs, rows in causes.items():
                for row in rows:
                    print_line(Text.assemble(INDENT, (row.name, "bold"), f": {row.does}"))
                print_line(f"{INDENT}  effect: {costs}")
                known.update(row.name for row in rows)
        if todo:
            print_line(f"{INDENT}to do: {todo}")
    print_line("")
    for unseen in machine.unseen:
        print_line(f"could not check: {unseen}")
    for name, value in machine.settings.items():
        print_line(f"{name} = {value}")
    queues = [listener for listener in machine.listeners if listener.queue]
    print_line(f"{plural(len(machine.listeners), 'listener')}, {len(queues)} with a TFO queue")
    for listener in queues:
        kind = ", MPTCP" if listener.mptcp else ""
        print_line(f"  {listener.address} port {listener.port}: {listener.queue} ({listener.process}{kind})")
    if machine.cookies is not None:
        print_line(f"cookies stored for {plural(machine.cookies, 'server')}")
    shown = ", ".join(f"{name} {value}" for name, value in _of_interest(counted).items())
    print_line(f"counters: {shown or 'none'}")
