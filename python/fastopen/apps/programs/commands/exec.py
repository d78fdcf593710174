"""`fastopen exec -- COMMAND`: run any program with TCP Fast Open, and say what the kernel did."""

import json as json_text
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from fastopen.common.errors import unwritable
from fastopen.engines import find_program

PANEL: Final = "Real networks and programs"
# Options after the name of the program are its own.
COMMAND_CONTEXT: Final = {"allow_interspersed_args": False}


def command(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The program and its arguments.")
    ],
    json: Annotated[
        bool,
        typer.Option("--json", help="Say it as one line of JSON, the last on standard error."),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", "-o", metavar="FILE", help="Write it as a JSON document to FILE as well."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing at the end.")] = False,
) -> None:
    """Run a program with TCP Fast Open on this network, and report what the kernel did.

    The program is unmodified: its connections carry data in the SYN once the server has given a cookie, and
    its listeners hand cookies out where net.ipv4.tcp_fastopen lets servers (2). Needs no root. The exit code
    is the program's own; 126 and 127 mean the same as with env.
    """
    replace_by_front(find_program(), command, json=json, report=report, quiet=quiet)


def replace_by_front(
    program: Path, command: Sequence[str], *, report: Path | None, **settings: object
) -> NoReturn:
    """Replace this process by the front (execve(2)), so that the parent sees its signals and stops.

    Raises InputError, before the command runs, where the report cannot be written.
    """
    if report is not None:
        try:
            report.touch()
        except OSError as error:
            raise unwritable(report, error) from None
    asked = json_text.dumps({**settings, "report": None if report is None else str(report.absolute())})
    module = [sys.executable, "-P", "-m", "fastopen.apps.programs.front"]
    os.execv(sys.executable, [*module, asked, str(program), *command])  # noqa: S606  # a list of arguments
