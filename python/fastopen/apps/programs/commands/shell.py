"""Define `fastopen shell -- COMMAND`: run a command, or an interactive shell, in an emulated network."""

import json as json_text
import os
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from typer import Argument, Option

from fastopen.apps.programs.commands.exec import (
    JsonReportOption,
    NoReportOption,
    ReportFileOption,
    open_standard_streams,
    replace_by_front,
)
from fastopen.cli.options import Written, with_factors
from fastopen.cli.output import print_message
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import OneKernelOption, with_settings
from fastopen.common import units
from fastopen.common.errors import InputError, os_errors_as, unwritable
from fastopen.common.files import filling, make_folder, temporary_file
from fastopen.contract import CONTRACT, Client, Job, LoadSpec, Network, Origins
from fastopen.contract.network import ENCRYPTED_NAMES
from fastopen.engines import find_program, kernels
from fastopen.engines.worlds import BodiesFile
from fastopen.experiments import COMMAND_LINE, of_part, read_settings
from fastopen.pages import ImportedPage
from fastopen.pages.model import page_of_hosts

PANEL: Final = "Real networks and programs"
PAGE: Final = "example"
NAMED_MAX: Final = 6
# The host of the server `--serve COMMAND`, and the pattern of `--serve NAME=COMMAND`.
SERVER_HOST: Final = "server"
NAMED: Final = re.compile(r"([^\s/=]*)=(.*)", re.DOTALL)
HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
DATE: Final = datetime(2026, 1, 1, tzinfo=UTC)
# The kernel's clock counts nanoseconds since 1970 in 63 bits.
YEARS: Final = range(1971, 2200)


def _date(text: object) -> datetime:
    try:
        date = datetime.fromisoformat(str(text))
    except ValueError:
        remedy = "write a date such as 2026-01-31, or 2026-01-31T12:00:00"
        raise InputError(f"{str(text)!r} is not a date", "--date", remedy) from None
    if date.year not in YEARS:
        raise InputError(f"{date.year} is not a year of the kernel's clock", "--date", "use 1971 to 2199")
    return date if date.tzinfo else date.replace(tzinfo=UTC)


@with_factors(of_part("network", "tcp"), {"rtt": "100ms"}, lists=False)
@with_settings
def command(
    command: Annotated[
        list[str] | None,
        Argument(metavar="COMMAND...", help="The program and its arguments. (default: $SHELL)"),
    ] = None,
    engine: Annotated[
        Literal["host", "virtual"],
        Option(help="host: this machine's kernel in real time; virtual: in virtual time."),
    ] = "host",
    serve: Annotated[
        list[str] | None,
        Option(metavar="[NAME=]CMD", help="Program at the other end of the link, at host NAME; repeatable."),
    ] = None,
    page: Annotated[
        str | None,
        Option(metavar="PAGE", help="Page whose hosts exist. (default: example; none with --serve)"),
    ] = None,
    tfo: Annotated[bool, Option("--tfo", help="Turn TCP Fast Open on at both ends.")] = False,
    json: JsonReportOption = False,
    report: ReportFileOption = None,
    quiet: NoReportOption = False,
    pcap: Annotated[
        Path | None, Option(metavar="FILE", help="Write the packets of both ends, as pcapng.")
    ] = None,
    out: Annotated[
        Path | None,
        Option(metavar="DIR", help="Empty folder whose files virtual time keeps; all others are lost."),
    ] = None,
    kernel: OneKernelOption = None,
    seed: Annotated[
        int,
        Option(min=0, max=2**31 - 1, help="Seed of cookies and loss, and of all randomness in virtual time."),
    ] = 0,
    date: Annotated[
        datetime | None,
        Option(
            metavar="DATE",
            parser=_date,
            help="Wall clock at the start of virtual time, UTC. (default: 2026-01-01)",
        ),
    ] = None,
    isolate: Annotated[
        bool, Option("--isolate", help="Show only programs, libraries and fonts, and do not run as root.")
    ] = False,
    *,
    reading: Reading,
    written: Written,
) -> None:
    """Run a command or a shell behind an emulated access link, where only the hosts of a page exist.

    In real time, streams, terminal, files and exit code work as usual. In virtual time, waiting takes no
    time, the same seed gives the same bytes, and standard input is read to its end first. All hosts of the
    page answer over http, even those with https URLs. Needs no root; the user is root only in the emulated
    network. Prints a report on the use of TFO at the end."""
    open_standard_streams()
    program = find_program()
    requested = read_settings(written, COMMAND_LINE)
    several = [name for name, values in requested.values.items() if len(values) > 1]
    if several:
        raise requested.fault("takes one value, not a list", several, "give one value")
    (network,), (setup,) = requested.networks(), requested.arms_and_setups()[1]
    if network.names in ENCRYPTED_NAMES:
        message = "programs use the system's resolver, which sends lookups in cleartext"
        raise requested.fault(message, ("names",), "use do53 or tcp")
    _check_engine(engine, command, out, kernel, date)
    servers = [_server(text) for text in serve or ()]
    if servers and page is None:
        imported = ImportedPage(page_of_hosts("servers", "--serve", dict(servers), "image"))
    else:
        name = page or PAGE
        pages = reading.pages([name], quiet=True)
        if len(pages) != 1:
            raise InputError(f"contains {len(pages)} pages", name, "give one")
        (imported,) = pages
    if not command and not quiet:
        _greet(imported, network, tfo=tfo)
    tcp = setup.tcp
    if servers and "listener_fastopen" not in tcp.model_fields_set:
        # 0x402 also enables Fast Open for listeners that do not request it with setsockopt.
        tcp = tcp.model_copy(update={"listener_fastopen": "0x402"})
    job = Job(
        contract=CONTRACT,
        id="shell",
        seed=seed,
        packets=pcap is not None,
        page=imported.page,
        network=network,
        tcp=tcp,
        # The words of the command are passed on separately, because they need not be UTF-8.
        client=Client.model_validate({"kind": "command", "command": ["COMMAND"], "isolate": isolate}),
        origins=Origins(bodies="filler" if imported.bodies else "synthetic"),
        loads=[LoadSpec(id="shell", transport="tfo" if tfo else "tcp", cookies="cold" if tfo else None)],
    )
    words = command or [os.environ.get("SHELL") or "/bin/sh"]
    chosen = kernels.find(kernel) if engine == "virtual" else None
    with BodiesFile({job.page.name: imported.bodies}) as bodies, temporary_file() as file:
        packets = None if pcap is None else _opened(pcap)
        if out is not None:
            make_folder(out)
            if any(out.iterdir()):
                raise InputError(f"{out} is not empty", "--out", "choose another folder, or empty it")
        plan = {
            "job": json_text.loads(bodies.attach(job).model_dump_json()),
            "servers": [{"host": host, "command": line} for host, line in servers],
            "packets": packets,
            "output": None if out is None else str(out.resolve()),
            "start_s": int((date or DATE).timestamp()),
        }
        with filling():
            file.write(json_text.dumps(plan).encode())
            file.seek(0)
        for descriptor in (file.fileno(), *bodies.descriptors):
            os.set_inheritable(descriptor, True)
        replace_by_front(
            program,
            words,
            report=report,
            pcap=pcap,
            job=file.fileno(),
            kernel=chosen and [str(chosen.path), *chosen.manifest.arguments],
            json=json,
            quiet=quiet,
        )


def _check_engine(
    engine: str, command: Sequence[str] | None, out: Path | None, kernel: str | None, date: datetime | None
) -> None:
    if engine == "virtual":
        if not command:
            raise InputError("has no terminal", "--engine virtual", "add a command")
        return
    for name, value in (("--out", out), ("--kernel", kernel), ("--date", date)):
        if value is not None:
            raise InputError("needs --engine virtual", name, f"add it, or drop {name}")


def _server(text: str) -> tuple[str, list[str]]:
    named = NAMED.fullmatch(text)
    host, line = (named[1].lower(), named[2]) if named else (SERVER_HOST, text)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InputError(f"is not a command line: {error}", f"--serve {text}") from None
    if not any(words[:1]):
        raise InputError("is empty", f"--serve {text}", "write [NAME=]COMMAND")
    if not HOST.fullmatch(host) or host == "localhost" or host.replace(".", "").isdigit():
        raise InputError(f"{host} is not a host at the other end", f"--serve {text}", "use another name")
    return host, words


def _opened(path: Path) -> int:
    with os_errors_as(unwritable, path):
        # Without O_TRUNC, an earlier capture stays in the file until the new one is written.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    os.set_inheritable(descriptor, True)
    return descriptor


def _greet(imported: ImportedPage, network: Network, *, tfo: bool) -> None:
    hosts = imported.page.hosts()
    more = len(hosts) - NAMED_MAX
    named = ", ".join(hosts[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    rates = ", ".join(
        f"{units.format_rate(limit.rate_bit_per_s) if limit.trace_ms is None else 'a trace'} {way}"
        for way, limit in (("down", network.down), ("up", network.up))
    )
    message = f"RTT {units.format_duration_us(network.rtt_us)}, {rates}, TCP Fast Open {units.on_off(tfo)}"
    print_message(f"{message}; hosts: {named}. Leave with exit.")
