"""`fastopen run` and `fastopen reproduce`: run an experiment and print its results."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fastopen.cli.catalogue import list_experiments
from fastopen.cli.certainty import (
    MAX_REPEATS,
    AaOption,
    MaxRepeatsOption,
    UntilOption,
    with_second_off,
)
from fastopen.cli.options import (
    LenientOption,
    NetworkOptions,
    SetupOptions,
    changed,
    engines_asked,
    experiment_of,
    other_clients,
)
from fastopen.cli.reading import read_pages
from fastopen.cli.report import ReportOption
from fastopen.cli.running import Printing, run_and_print
from fastopen.cli.shared_options import (
    JobsOption,
    JsonOption,
    KernelOption,
    NoKeepOption,
    OutputOption,
    QuietOption,
)
from fastopen.errors import InputError
from fastopen.experiments import Combine, Link, load_experiment
from fastopen.pages import load_pages
from fastopen.workflows.run import RunOptions, until_interval

NETWORK = "Network"
CLIENT = "Client"


def run(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="HAR files, page files, lists of URLs, or packaged pages by name."
        ),
    ],
    rtt: Annotated[
        str,
        typer.Option(help="One or more, with commas, as most options: 20ms,100ms.", rich_help_panel=NETWORK),
    ] = "20ms,100ms,200ms",
    down: Annotated[
        str, typer.Option(help="Rates to the client, or none: 2mbit,4mbit.", rich_help_panel=NETWORK)
    ] = "4mbit",
    up: Annotated[
        str, typer.Option(help="Rates from the client, or none.", rich_help_panel=NETWORK)
    ] = "256kbit",
    queue: Annotated[
        str | None,
        typer.Option(
            help="Of each direction: 96kB,256kB, or none. (default: 256 kB or 100 ms, the larger)",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    loss: Annotated[
        str, typer.Option(help="Random loss, each direction: 0%,1%.", rich_help_panel=NETWORK)
    ] = "0%",
    extra_rtt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST=RTT", help="A host that is further away; repeatable.", rich_help_panel=NETWORK
        ),
    ] = None,
    down_trace: Annotated[
        Path | None, typer.Option(help="Mahimahi trace instead of --down.", rich_help_panel=NETWORK)
    ] = None,
    up_trace: Annotated[
        Path | None, typer.Option(help="Mahimahi trace instead of --up.", rich_help_panel=NETWORK)
    ] = None,
    combine: Annotated[
        Combine,
        typer.Option(
            help="Lists of RTTs, rates, queues, losses: each with each (cross), or first with first (zip).",
            rich_help_panel=NETWORK,
        ),
    ] = "cross",
    link: Annotated[
        Link,
        typer.Option(
            help="Who makes the link: fastopen's program, or the kernel (auto: that of the virtual engine).",
            rich_help_panel=NETWORK,
        ),
    ] = "auto",
    transports: Annotated[
        str,
        typer.Option(
            "--transports",
            "--transport",
            help="Arms: off,cold,warm (of TFO); or transports: tcp,tfo,tls,tls+tfo (with either cookies).",
        ),
    ] = "off,cold,warm",
    aa: AaOption = False,
    repeats: Annotated[int, typer.Option("--repeats", "-n", help="Loads of each cell.")] = 10,
    until_ci: UntilOption = None,
    max_repeats: MaxRepeatsOption = MAX_REPEATS,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of every random choice. (default: drawn and recorded)")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Whose clock runs: auto, or of host and virtual, with commas.")
    ] = "auto",
    client: Annotated[
        str,
        typer.Option(
            help="What loads the pages: loader,chromium,curl,wget2,command.", rich_help_panel=CLIENT
        ),
    ] = "loader",
    command: Annotated[
        str | None,
        typer.Option(
            metavar="'CMD {url}'",
            help="The client command; {urls}: all of the page's.",
            rich_help_panel=CLIENT,
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(help="How the loader loads: browser,mget.", rich_help_panel=CLIENT)
    ] = "browser",
    keep_alive: Annotated[
        str | None,
        typer.Option(
            metavar="on,off",
            help="Use connections again (default: as the profile).",
            rich_help_panel=CLIENT,
        ),
    ] = None,
    connections_per_host: Annotated[
        str | None, typer.Option(help="At once: 2,6 (default: the profile's).", rich_help_panel=CLIENT)
    ] = None,
    processing_scale: Annotated[
        str, typer.Option(help="Times the recorded processing; 0: none.", rich_help_panel=CLIENT)
    ] = "1",
    initial_window: Annotated[
        str, typer.Option(metavar="SEGMENTS", help="Of both ends: 4,10.", rich_help_panel=CLIENT)
    ] = "10",
    congestion_control: Annotated[
        str, typer.Option(help="Of both ends: cubic,reno.", rich_help_panel=CLIENT)
    ] = "cubic",
    tls: Annotated[
        str | None,
        typer.Option(help="Every origin over TLS, whatever its URL: none,1.3,1.2.", rich_help_panel=CLIENT),
    ] = None,
    key_share: Annotated[
        str,
        typer.Option(
            help="In the ClientHello: x25519mlkem768 (browsers'; no SYN holds it), x25519.",
            rich_help_panel=CLIENT,
        ),
    ] = "x25519mlkem768",
    screenshots: Annotated[
        bool,
        typer.Option(
            "--screenshots",
            help="Keep what Chromium shows at each load's end (fastopen export --format png).",
            rich_help_panel=CLIENT,
        ),
    ] = False,
    view: Annotated[
        str,
        typer.Option(
            metavar="first,repeat",
            help="Chromium's first visit, or one with the cache that a first visit left.",
            rich_help_panel=CLIENT,
        ),
    ] = "first",
    http: Annotated[str, typer.Option(help="Of the origins: 1.0,1.1,2.", rich_help_panel=CLIENT)] = "1.1",
    library: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Where URLs of lists are looked up; repeatable.")
    ] = None,
    lenient: LenientOption = False,
    kernel: KernelOption = None,
    jobs: JobsOption = None,
    json: JsonOption = False,
    output: OutputOption = None,
    no_keep: NoKeepOption = False,
    report: ReportOption = False,
    quiet: QuietOption = False,
) -> None:
    """Load pages over networks with TCP Fast Open off and on, and say what it saved."""
    network = NetworkOptions(rtt, down, up, queue, loss, extra_rtt or [], down_trace, up_trace, combine, link)
    setup = SetupOptions(
        *(client, command, profile, keep_alive, connections_per_host, processing_scale),
        *(initial_window, congestion_control, http, tls, key_share),
        screenshots=screenshots,
        view=view,
    )
    asked = {"repeats": repeats, "arms": transports, "engines": engine, "seed": seed}
    experiment = experiment_of("run", inputs, network.networks(), setup, asked)
    options = RunOptions(
        output=output,
        keep=not no_keep,
        kernel=kernel,
        jobs=jobs,
        until=until_interval(until_ci, max_repeats, experiment.repeats),
        seed_drawn=seed is None,
        inputs=inputs,
        library=library or (),
        lenient=lenient,
    )
    pages = read_pages(inputs, library or [], lenient=lenient, quiet=quiet)
    experiment = with_second_off(experiment) if aa else experiment
    run_and_print(experiment, pages, options, Printing(json, quiet, report))


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A packaged experiment, or a TOML file.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the packaged experiments.")] = False,
    aa: AaOption = False,
    repeats: Annotated[int | None, typer.Option("--repeats", "-n", help="Loads of each cell.")] = None,
    until_ci: UntilOption = None,
    max_repeats: MaxRepeatsOption = MAX_REPEATS,
    seed: Annotated[int | None, typer.Option(min=0, help="Instead of the experiment's.")] = None,
    client: Annotated[
        str | None,
        typer.Option(help="Instead of the experiment's: of loader, chromium, curl and wget2, with commas."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Instead of the experiment's: auto, or of host and virtual.")
    ] = None,
    kernel: KernelOption = None,
    jobs: JobsOption = None,
    json: JsonOption = False,
    output: OutputOption = None,
    no_keep: NoKeepOption = False,
    report: ReportOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a named experiment and print it next to the published figures."""
    if list_all:
        list_experiments(as_json=json)
        return
    if name is None:
        raise InputError("no experiment named", "reproduce", "fastopen reproduce --list names them")
    experiment = load_experiment(name)
    asked: dict[str, Any] = {"repeats": repeats, "seed": seed}
    asked["engines"] = None if engine is None else engines_asked(engine)
    asked["setups"] = None if client is None else other_clients(experiment, client)
    experiment = changed(experiment, {key: value for key, value in asked.items() if value is not None})
    options = RunOptions(
        output=output,
        keep=not no_keep,
        kernel=kernel,
        jobs=jobs,
        until=until_interval(until_ci, max_repeats, experiment.repeats),
        inputs=experiment.pages,
    )
    pages = load_pages(experiment.pages)
    experiment = with_second_off(experiment) if aa else experiment
    run_and_print(experiment, pages, options, Printing(json, quiet, report))
