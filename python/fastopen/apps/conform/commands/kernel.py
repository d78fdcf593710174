"""Define `fastopen kernel conform`: run packetdrill's Fast Open scripts on a kernel."""

import platform
from collections import Counter
from pathlib import Path
from typing import Annotated, Final, Literal

from rich.text import Text
from typer import Argument, Option, Typer

from fastopen.apps.conform.run import Conformance, ScriptOutcome, conform
from fastopen.cli.output import console, errors_console, exit_if, print_grid, print_json, print_line
from fastopen.cli.progress import LiveBar
from fastopen.cli.shared_options import JsonOption, QuietOption
from fastopen.common.errors import InputError
from fastopen.common.grid import figures, keys, listing
from fastopen.common.grouping import grouped
from fastopen.engines import kernels

PANEL: Final = "Trust"
# The style of each outcome, in the order of the table.
STYLES: Final = {
    ScriptOutcome.PASSED: "green",
    ScriptOutcome.NOT_HERE: "yellow",
    ScriptOutcome.FAILED: "bold red",
}

command = Typer()


@command.command("conform")
def conform_kernel(
    name: Annotated[
        str | None, Argument(help="A kernel's name or its beginning. (default: the one in use)")
    ] = None,
    packetdrill: Annotated[
        Path | None, Option(metavar="FOLDER", help="A checkout of packetdrill, which is built first.")
    ] = None,
    engine: Annotated[
        Literal["virtual", "host"],
        Option(help="Kernel to test: an installed one in virtual time (virtual) or this machine's (host)."),
    ] = "virtual",
    every: Annotated[bool, Option("--all", help="List the scripts that pass as well.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Test a kernel's TCP Fast Open with packetdrill's scripts, and check that fastopen's evidence agrees.

    Exit codes: 0 passed; 1 a script fails or evidence disagrees; 2 invalid arguments or no packetdrill; 3
    this machine cannot run the tests."""
    if packetdrill is None:
        remedy = "run git clone https://github.com/google/packetdrill, then add --packetdrill packetdrill"
        raise InputError("needs Google's packetdrill scripts", "kernel conform", remedy)
    if name is not None and engine == "host":
        raise InputError("--engine host tests this machine's kernel", name, "leave one of them out")
    kernel = kernels.find(name) if engine == "virtual" else None
    with LiveBar(errors_console(), quiet or json) as bar:
        done = conform(packetdrill, kernel, platform.release().split("-")[0], bar.update)
    if kernel is not None:
        kernels.note_conformance(kernel, done.line())
    if json:
        print_json({"kernel": kernel and kernel.name, **done.as_json()})
    else:
        _print(done, every=every)
    exit_if(not done.holds)


def _print(done: Conformance, *, every: bool) -> None:
    columns = (*keys("scripts of"), *figures("passed", "not here", "failed", "evidence agrees"))
    rows = []
    groups = grouped((result.script.rpartition("/")[0], result) for result in done.results)
    for group, results in (*groups.items(), ("all", done.results)):
        count = Counter(result.outcome for result in results)
        agrees = Counter(result.agrees for result in results)
        counts = (str(count[outcome]) for outcome in STYLES)
        rows.append((group, *counts, f"{agrees[True]} of {agrees[True] + agrees[False]}"))
    print_grid(listing(columns, rows))
    shown = [one for one in done.results if every or one.why or one.agrees is False]
    if shown:
        console().print()
    for result in shown:
        line = Text.assemble((f"{result.outcome.value:9}", STYLES[result.outcome]), " ", result.script)
        if result.why:
            line.append(f"\n          {result.why}")
        if result.agrees is False:
            read = f"{result.syn_data_acked_read} in the evidence, {result.syn_data_acked} in the script"
            line.append(f"\n          handshakes with acknowledged SYN data: {read}", "bold red")
        print_line(line)
    console().print()
    print_line(done.line())
