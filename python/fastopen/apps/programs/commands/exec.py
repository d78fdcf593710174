"""Define `fastopen exec -- COMMAND`: run any program with TCP Fast Open, and report the use of TFO."""

import json as json_text
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn

from typer import Argument, Option

from fastopen.common.errors import InputError, os_errors_as, unwritable
from fastopen.engines import find_program

PANEL: Final = "Real networks and programs"
# Options after the program's name belong to the program.
COMMAND_CONTEXT: Final = {"allow_interspersed_args": False}
STANDARD_ERROR: Final = 2
JsonReportOption = Annotated[
    bool, Option("--json", help="Print the report as one line of JSON, the last on standard error.")
]
ReportFileOption = Annotated[
    Path | None, Option("--report", "-o", metavar="FILE", help="Also write the report as JSON to FILE.")
]
NoReportOption = Annotated[bool, Option("--quiet", "-q", help="Print no report.")]


def command(
    command: Annotated[list[str], Argument(metavar="COMMAND...", help="The program and its arguments.")],
    json: JsonReportOption = False,
    report: ReportFileOption = None,
    quiet: NoReportOption = False,
) -> None:
    """Run any program with TCP Fast Open on this machine's real network, and report the use of TFO.

    The program runs unmodified. Its connections carry data in the SYN once the server has sent a cookie. Its
    listeners send cookies if net.ipv4.tcp_fastopen enables TFO for servers (bit 0x2). Needs no root. The exit
    code is the program's own; 126 and 127 mean the same as with env."""
    open_standard_streams()
    replace_by_front(find_program(), command, json=json, report=report, quiet=quiet)


def open_standard_streams() -> None:
    """Open /dev/null as each standard stream that is closed. Otherwise, a file that is opened later would get
    the descriptor of the stream, and the command would use it as the stream."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def replace_by_front(
    program: Path,
    command: Sequence[str],
    *,
    report: Path | None,
    pcap: Path | None = None,
    **settings: object,
) -> NoReturn:
    """Replace this process with the module `apps.programs.front`, which runs `command` with TCP Fast Open.

    `program` is the path of the Rust program that starts and watches the command. `report` is the file for
    the report, emptied first, and `pcap` the file for captured packets; None for no file. `settings` are
    further settings of the module. Raises InputError or MachineError if `report` cannot be written."""
    if report is not None:
        if report.is_dir():
            raise InputError("is a folder", str(report), "give a file")
        with os_errors_as(unwritable, report):
            report.touch()
            if report.is_file():
                os.truncate(report, 0)
    paths = {"report": report and report.absolute(), "pcap": pcap and pcap.absolute()}
    asked = json_text.dumps({**settings, **paths}, default=str)
    # The module runs in this process, not in a child, so that the shell signals it and sees it stop and end.
    module = [sys.executable, "-P", "-m", "fastopen.apps.programs.front"]
    os.execv(sys.executable, [*module, asked, str(program), *command])  # noqa: S606  # a list of arguments
