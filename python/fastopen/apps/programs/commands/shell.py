"""`fastopen shell -- COMMAND`: any command, or an interactive shell, inside a world."""

import os
import secrets
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from fastopen.apps.programs.commands.exec import replace_by_front
from fastopen.cli.options import Written, with_factors
from fastopen.cli.output import errors_console
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import with_settings
from fastopen.common import units
from fastopen.common.errors import InputError
from fastopen.common.temporary import filling, temporary_file
from fastopen.contract import CONTRACT, Client, Job, LoadSpec, Network, Origins, Tcp
from fastopen.contract.network import ENCRYPTED_NAMES
from fastopen.engines import find_program
from fastopen.engines.bodies import BodiesFile
from fastopen.experiments import COMMAND_LINE, of_part, read_asked
from fastopen.pages import ImportedPage

PANEL: Final = "Real networks and programs"
# Options after the name of the program are its own.
COMMAND_CONTEXT: Final = {"allow_interspersed_args": False}

PAGE: Final = "example"
NAMED_MAX: Final = 6


@with_factors(of_part("network", "tcp"), {"rtt": "100ms"})
@with_settings
def command(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND...]", help="The program and its arguments. (default: $SHELL)"),
    ] = None,
    page: Annotated[
        str, typer.Option(metavar="PAGE", help="Page whose hosts exist in the world, as for fastopen run.")
    ] = PAGE,
    tfo: Annotated[bool, typer.Option("--tfo", help="Turn TCP Fast Open on at both ends.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the report as one line of JSON, the last on standard error.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", "-o", metavar="FILE", help="Also write the report as JSON to FILE."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no report.")] = False,
    isolate: Annotated[
        bool,
        typer.Option(
            "--isolate",
            help="Show the command only programs, libraries and fonts, and do not run it as root.",
        ),
    ] = False,
    *,
    reading: Reading,
    written: Written,
) -> None:
    """Run a command or a shell behind an emulated access link, with only the hosts of a page.

    Streams, terminal, files and exit code work as usual. All hosts of the page answer over http, also those
    with https URLs. Needs no root; the user is root only in that world. At the end, it prints the use of TFO.
    """
    program = find_program()
    asked = read_asked(written, COMMAND_LINE)
    several = [name for name, values in asked.values.items() if len(values) > 1]
    if several:
        raise asked.fault("takes one value, not a list", several)
    (network,), (setup,) = asked.networks(), asked.arms_and_setups()[1]
    if network.names in ENCRYPTED_NAMES:
        message = "programs use the system's resolver, which sends lookups in cleartext"
        raise asked.fault(message, ("names",), "use do53 or tcp")
    imported = reading.pages([page], quiet=True)
    if len(imported) != 1:
        raise InputError(f"contains {len(imported)} pages", page, "give one")
    if not command and not quiet:
        _greet(imported[0], network, tfo=tfo)
    job = _job(imported[0], network, setup.tcp, tfo=tfo, isolate=isolate)
    words = command or [os.environ.get("SHELL") or "/bin/sh"]
    with BodiesFile({job.page.name: imported[0].bodies}) as bodies, temporary_file() as file:
        with filling():
            file.write(bodies.attach(job).model_dump_json().encode())
            file.seek(0)
        for descriptor in (file.fileno(), *bodies.descriptors):
            os.set_inheritable(descriptor, True)
        replace_by_front(program, words, report=report, job=file.fileno(), json=json, quiet=quiet)


def _job(imported: ImportedPage, network: Network, tcp: Tcp, *, tfo: bool, isolate: bool) -> Job:
    return Job(
        contract=CONTRACT,
        id="shell",
        seed=secrets.randbits(31),
        page=imported.page,
        network=network,
        tcp=tcp,
        client=Client.model_validate({"isolate": isolate}),
        origins=Origins(bodies="filler" if imported.bodies else "synthetic"),
        loads=[LoadSpec(id="shell", transport="tfo" if tfo else "tcp", cookies="cold" if tfo else None)],
    )


def _greet(imported: ImportedPage, network: Network, *, tfo: bool) -> None:
    hosts = imported.page.hosts()
    named = ", ".join(hosts[:NAMED_MAX]) + (
        f" and {len(hosts) - NAMED_MAX} more" if len(hosts) > NAMED_MAX else ""
    )
    rates = ", ".join(
        f"{units.format_rate(limit.rate_bit_per_s) if limit.trace_ms is None else 'a trace'} {way}"
        for way, limit in (("down", network.down), ("up", network.up))
    )
    message = f"RTT {units.format_duration_us(network.rtt_us)}, {rates}, TCP Fast Open {units.on_off(tfo)}"
    errors_console().print(Text(f"{message}; hosts: {named}. Leave with exit."), soft_wrap=True)
