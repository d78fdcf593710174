"""`fastopen run` and `fastopen reproduce`: carry out an experiment and print what it came to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fastopen.cli.options import LenientOption, NetworkOptions, SetupOptions, experiment_of
from fastopen.cli.output import EXIT_FAULTS, EXIT_INTERRUPTED, console, errors_console, print_json
from fastopen.cli.progress import RunWatcher, shown_duration
from fastopen.cli.show import print_results
from fastopen.engines import HostEngine, find_program, program_version
from fastopen.errors import InputError, MachineError
from fastopen.experiments import (
    Combine,
    Experiment,
    Plan,
    estimated_s,
    load_experiment,
    make_plan,
    packaged_experiments,
)
from fastopen.pages import ImportedPage, load_pages
from fastopen.report import results_document
from fastopen.runs import RunOutcome, RunStore, describe_environment, execute
from fastopen.statistics import Results, collect

# A run that is expected to take so long is announced before it begins.
ANNOUNCED_S = 120
NETWORK = "Network"
CLIENT = "Client"
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
KeepOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Keep the run in this new folder.")
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, max=1024, help="Worlds at once. (default: by cores)")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


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
    transports: Annotated[str, typer.Option(help="Of off, cold and warm, with commas.")] = "off,cold,warm",
    repeats: Annotated[int, typer.Option("--repeats", "-n", help="Loads of each cell.")] = 10,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of every random choice. (default: drawn and recorded)")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Whose clock runs: auto, or of host and virtual, with commas.")
    ] = "auto",
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
    library: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Where URLs of lists are looked up; repeatable.")
    ] = None,
    lenient: LenientOption = False,
    jobs: JobsOption = None,
    json: JsonOption = False,
    output: KeepOption = None,
    quiet: QuietOption = False,
) -> None:
    """Load pages over networks with TCP Fast Open off and on, and say what it saved."""
    network = NetworkOptions(rtt, down, up, queue, loss, extra_rtt or [], down_trace, up_trace, combine)
    setup = SetupOptions(
        profile, keep_alive, connections_per_host, processing_scale, initial_window, congestion_control
    )
    asked = {"repeats": repeats, "arms": transports, "engines": engine, "seed": seed}
    experiment = experiment_of("run", inputs, network.networks(), setup.setups(), asked)
    pages = load_pages(inputs, library or [], lenient=lenient)
    carry_out(experiment, pages, jobs, output, json=json, quiet=quiet)


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A packaged experiment, or a TOML file.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the packaged experiments.")] = False,
    repeats: Annotated[int | None, typer.Option("--repeats", "-n", help="Loads of each cell.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Instead of the experiment's.")] = None,
    jobs: JobsOption = None,
    json: JsonOption = False,
    output: KeepOption = None,
    quiet: QuietOption = False,
) -> None:
    """Carry out a named experiment and print it beside the published figures."""
    if list_all:
        _list_experiments(as_json=json)
        return
    if name is None:
        raise InputError("no experiment named", "reproduce", "fastopen reproduce --list names them")
    experiment = load_experiment(name)
    changes = {key: value for key, value in (("repeats", repeats), ("seed", seed)) if value is not None}
    experiment = _changed(experiment, changes)
    carry_out(experiment, load_pages(experiment.pages), jobs, output, json=json, quiet=quiet)


def carry_out(
    experiment: Experiment,
    imported: Sequence[ImportedPage],
    jobs: int | None,
    output: Path | None,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Runs the experiment and prints its results; raises typer.Exit where that is not simply 0."""
    if not imported:
        raise InputError("no page in what was given")
    if "virtual" in experiment.engines:
        raise MachineError("this fastopen has no engine virtual", "--engine host")
    _check_hosts(experiment, imported)
    plan = make_plan(experiment, [one.page for one in imported])
    bodies = {page.name: one.bodies for page, one in zip(plan.pages, imported, strict=True)}
    program = find_program()
    engine = HostEngine(program, jobs)
    environment = describe_environment(program_version(program), engine.parallel)
    if not quiet:
        _announce(plan, engine.parallel)
    with RunStore.create(output, plan, environment) as store:
        with RunWatcher(plan.loads(), errors_console(), quiet) as watcher:
            outcome = execute(plan, engine, bodies, store, watcher)
        results = collect(store)
    if json:
        print_json(results_document(results))
    else:
        print_results(results, console())
    _finish(outcome, results, output)


def _announce(plan: Plan, parallel: int) -> None:
    """What is about to begin, where somebody might rather not wait for it."""
    seconds = estimated_s(plan, dict.fromkeys(plan.engines, parallel))
    if seconds >= ANNOUNCED_S:
        errors_console().print(f"{plan.loads():,} loads, {shown_duration(seconds)} or so", markup=False)


def _check_hosts(experiment: Experiment, imported: Sequence[ImportedPage]) -> None:
    """A host that no page asks is a slip of the pen, which would make no difference in silence."""
    known = {host for one in imported for host in one.page.hosts()}
    for network in experiment.networks:
        for host in network.host_extra_rtt_us:
            if host not in known:
                raise InputError(
                    f"no page asks the host {host}", "--extra-rtt", "fastopen page show names them"
                )


def _finish(outcome: RunOutcome, results: Results, output: Path | None) -> None:
    complaints = errors_console()
    for reason, jobs in outcome.faults.items():
        others = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        complaints.print(f"fault in {jobs[0]}{others}: {reason}", markup=False, soft_wrap=True)
    if output is not None:
        complaints.print(f"kept in {output}", markup=False, soft_wrap=True)
    if outcome.interrupted:
        complaints.print("interrupted")
        raise typer.Exit(EXIT_INTERRUPTED)
    if outcome.faults or any(cell.loads == cell.invalid for cell in results.cells):
        raise typer.Exit(EXIT_FAULTS)


def _changed(experiment: Experiment, changes: dict[str, int]) -> Experiment:
    """The experiment with other values, validated again."""
    from pydantic import ValidationError

    from fastopen.validation import input_error

    try:
        return Experiment(**{**dict(experiment), **changes})
    except ValidationError as error:
        raise input_error(error, "option") from None


def _list_experiments(*, as_json: bool) -> None:
    experiments = [load_experiment(name) for name in packaged_experiments()]
    if as_json:
        keys = ("name", "title", "source", "pages", "repeats", "notes")
        print_json({"experiments": [{key: getattr(one, key) for key in keys} for one in experiments]})
        return
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for one in experiments:
        table.add_row(one.name, one.title or one.source)
    console().print(table)
