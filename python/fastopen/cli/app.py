"""Assemble the commands of `fastopen`, and turn errors and signals into messages and exit codes."""

import os
import signal
import sys
import traceback
from typing import Annotated, Final

from typer import Exit, Option, Typer, echo

from fastopen.cli.discovery import Commands
from fastopen.cli.output import EXIT_FAULTS, EXIT_INPUT, EXIT_MACHINE, errors_console, open_standard_streams
from fastopen.common.errors import InputError, MachineError, one_line, unusable

EXIT_HELP: Final = (
    "Exit codes: 0 done; 1 a cell has no valid load, a check failed, or a bug; 2 bad input; "
    "3 this machine cannot do it; 130 interrupted."
)

app = Typer(
    name="fastopen", cls=Commands, no_args_is_help=True, epilog=EXIT_HELP, pretty_exceptions_enable=False
)


def _version(asked: bool) -> None:
    if asked:
        from importlib import metadata  # imported here because this takes 12 ms

        echo(f"fastopen {metadata.version('fastopen')}")
        raise Exit


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, Option("--debug", help="Print the traceback of an error.")] = False,
) -> None:
    """Measure what TCP Fast Open does to page load time, on the real Linux TCP stack."""


def main() -> None:
    """Run the command line. Print an error in one line, and exit with the error's code (see EXIT_HELP)."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # an ignored signal, as under nohup, stays ignored
            signal.signal(number, signal.default_int_handler)  # as after Ctrl-C
    if os.path.expanduser("~") == "~":  # no HOME, and no entry in /etc/passwd, as in some containers
        os.environ["HOME"] = "/nonexistent"
    open_standard_streams()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has what it wants
        sys.exit(EXIT_FAULTS)
    except Exception as error:
        fault = unusable(error) if isinstance(error, OSError) and error.filename is not None else error
        if isinstance(fault, InputError | MachineError):
            _complain(str(fault))
            sys.exit(EXIT_INPUT if isinstance(fault, InputError) else EXIT_MACHINE)
        bug = f"a bug, {type(error).__name__}: {one_line(str(error))}"
        _complain(f"{bug}; fastopen --debug prints the traceback")
        sys.exit(EXIT_FAULTS)


def _complain(message: str) -> None:
    if "--debug" in sys.argv:
        traceback.print_exc()
    console = errors_console()
    for line in message.splitlines():
        console.print("" if line.startswith(" ") else "error: ", style="bold red", end="")
        console.print(line, markup=False, highlight=False, soft_wrap=True)
