"""Define `fastopen validate FILE.har...`: replay recordings over networks that are estimated from them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final, Literal

from rich.text import Text
from typer import Argument, Exit, Option
from typer.core import TyperGroup

from fastopen.cli.options import engines_asked
from fastopen.cli.output import (
    EXIT_INPUT,
    console,
    errors_console,
    exit_if,
    nothing_to_compare_when_interrupted,
    print_grid,
    print_json,
    print_line,
    print_message,
)
from fastopen.cli.progress import RunWatcher
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import JobsOption, JsonOption, OneKernelOption, QuietOption, with_settings
from fastopen.common.errors import InputError
from fastopen.common.grid import Grid, figures, keys, listing
from fastopen.common.grouping import grouped
from fastopen.common.phrases import plural
from fastopen.contract import EngineName, LoadRecord
from fastopen.contract.job import LOAD_TIMEOUT_MAX_US
from fastopen.experiments import Cell, Experiment, Plan, PlannedJob, make_plan
from fastopen.pages import ImportedPage, Page
from fastopen.workflows.engines import auto_engine
from fastopen.workflows.page_loads import last_records, median_load
from fastopen.workflows.replays import (
    CACHED_MS,
    Replay,
    Rules,
    ValidatedReplay,
    cause_of,
    median_error_percent,
    replay_of,
)
from fastopen.workflows.run import Watch, run_in_memory

RECORDINGS: Final = "recordings"
# Pages with at least this error are explained below the table.
EXPLAINED_PERCENT: Final = 1.0
# A replay that takes this many times as long as its recording counts as hanging.
TIMEOUT_FACTOR: Final = 4


@dataclass
class ReplayValidation:
    """The results of replaying recorded pages. `unreplayable` lists pages whose recordings lack necessary
    data, and `failed` lists pages whose replay failed. Each entry includes the reason. `kernel` is the name
    of the kernel for virtual time; None for real time."""

    engine: EngineName
    kernel: str | None = None
    validated: list[ValidatedReplay] = field(default_factory=list)
    unreplayable: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def validate_replays(
    imported: Sequence[ImportedPage],
    rules: Rules,
    *,
    engine: EngineName | None = None,
    repeats: int = 3,
    kernel: str | None = None,
    jobs: int | None = None,
    watch: Watch = lambda _: None,
) -> ReplayValidation:
    """Replay recordings, and compare the page load times with the recorded times.

    `rules` derive a network from each recording. `engine` is `host` for real time, or `virtual` for virtual
    time, which is the default if a kernel for it is installed. In real time, each page is loaded `repeats`
    times, and the median is used. `jobs` is the number of replays at once. `watch` is called with the
    progress. Raises MachineError if the engine cannot run."""
    found = ReplayValidation(engine or auto_engine(kernel))
    replays: list[Replay] = []
    for one in imported:
        try:
            replays.append(replay_of(one, rules))
        except InputError as error:
            remedy = f"; {error.remedy}" if error.remedy else ""
            found.unreplayable.append(f"{one.page.name}: {error.message}{remedy}")
    if not replays:
        return found
    with run_in_memory(_plan(replays, found.engine, repeats), kernel, jobs, watch) as run:
        records = grouped((row.cell, record) for row, record in last_records(run.store))
    found.kernel = run.results.environment.get("virtual_kernel", {}).get("name")
    for number, replay in enumerate(replays):
        loads = records.get(number, [])
        done = [record for record in loads if record.valid and record.plt_ns is not None]
        if done:
            record = median_load(done)
            cause = cause_of(replay.page, replay.recording, replay.request_delays_ms, record)
            lookups_ms = tuple(_lookups_ms(replay, record))
            found.validated.append(ValidatedReplay(replay, record.plt_ms or 0.0, cause, lookups_ms))
        else:
            reasons = (reason for record in loads for reason in record.reasons)
            found.failed.append(f"{replay.page.name}: {next(reasons, 'the load did not finish')}")
    return found


def _plan(replays: Sequence[Replay], engine: EngineName, repeats: int) -> Plan:
    """Plan one experiment that loads each recorded page `repeats` times over its own network. Loads whose
    recordings took long get a longer time limit."""
    experiments: list[Experiment] = []
    pages: list[Page] = []
    cells: list[Cell] = []
    jobs: list[PlannedJob] = []
    for number, replay in enumerate(replays):
        experiments.append(replay.experiment(repeats).model_copy(update={"engines": [engine]}))
        plan = make_plan(experiments[-1], [replay.loaded_page()])
        name = f"{number}:{plan.pages[0].name}"
        pages.append(plan.pages[0].model_copy(update={"name": name}))
        cells.append(replace(plan.cells[0], index=number, page=name, network=number, setup=number))
        least_us = min(round(TIMEOUT_FACTOR * replay.recorded_ms * 1000), LOAD_TIMEOUT_MAX_US)
        for planned in plan.jobs:
            limit_us = max(planned.job.load_timeout_us, least_us)
            own = {"id": f"{number}:{planned.job.id}", "load_timeout_us": limit_us}
            of_load = dict.fromkeys(planned.cells, number)
            job = planned.job.model_copy(update=own)
            jobs.append(PlannedJob(job, cells[-1].comparison, planned.repeat, of_load))
    together = {
        "pages": [page.name for page in pages],
        "networks": [one.networks[0] for one in experiments],
        "setups": [one.setups[0] for one in experiments],
    }
    return Plan(experiments[0].model_copy(update=together), tuple(pages), tuple(cells), tuple(jobs))


def _lookups_ms(replay: Replay, record: LoadRecord) -> Iterator[tuple[float, float]]:
    recorded: dict[str, float] = {}
    for resource, exchange in zip(replay.page.resources, replay.recording.exchanges, strict=True):
        recorded[resource.host] = recorded.get(resource.host) or exchange.lookup
    for one in record.lookups:
        if one.answered_ns is not None:
            yield recorded[one.host], (one.answered_ns - one.asked_ns) / 1e6


class RecordingsByDefault(TyperGroup):
    """A command group that runs its command `recordings` if the first argument does not name a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [RECORDINGS, *args]
        return super().parse_args(ctx, args)


@with_settings
def recordings(
    files: Annotated[list[Path], Argument(metavar="FILE.har...", help="HARs, also gzipped.")],
    engine: Annotated[str, Option(help="auto, host or virtual.")] = "auto",
    kernel: OneKernelOption = None,
    repeats: Annotated[int, Option("--repeats", "-n", min=1, help="Loads of each page on the host.")] = 3,
    names: Annotated[
        Literal["none", "do53", "tcp"],
        Option(help="Look names up through the link, and compare with recorded lookups."),
    ] = "none",
    jobs: JobsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    *,
    reading: Reading,
) -> None:
    """Replay recorded page loads over networks that are estimated from the files, and compare load times.

    Pages without a recorded load event are listed but not replayed. `fastopen validate FILE.har...` runs this
    command."""
    asked = engines_asked(engine)
    if len(asked) > 1:
        raise InputError("takes one engine, not a list", "--engine", "give one engine")
    imported: list[ImportedPage] = []
    unreadable = False
    for file in files:
        try:
            imported += reading.pages([file], quiet=quiet)
        except InputError as error:
            unreadable = True
            print_message(f"left out: {error}")
    with nothing_to_compare_when_interrupted(), RunWatcher(errors_console(), quiet) as watcher:
        found = validate_replays(
            imported,
            Rules(names=names),
            engine=None if asked[0] == "auto" else asked[0],
            repeats=repeats,
            kernel=kernel,
            jobs=jobs,
            watch=watcher,
        )
    for skipped in (*found.unreplayable, *found.failed):
        print_message(f"left out: {skipped}")
    if json:
        pages = [one.as_json() for one in found.validated]
        print_json({"pages": pages, "median_error_percent": median_error_percent(found.validated)})
    elif found.validated:
        _print(found)
    if not found.validated and not found.failed:
        print_message("no page to compare", "bold red")
        raise Exit(EXIT_INPUT)
    exit_if(unreadable or found.failed)


def _print(found: ReplayValidation) -> None:
    screen = console()
    print_grid(_grid(found.validated))
    pages = plural(len(found.validated), "page")
    screen.print(
        f"median error {median_error_percent(found.validated):.1f} % over {pages}"
        f" (absolute); engine {found.engine}" + (f", kernel {found.kernel}" if found.kernel else "")
    )
    lookups = [pair for one in found.validated for pair in one.lookups_ms]
    if asked := [pair for pair in lookups if pair[0] >= CACHED_MS]:
        recorded, replayed = (median(times) for times in zip(*asked, strict=True))
        cached = len(lookups) - len(asked)
        screen.print(
            f"{plural(len(asked), 'lookup')}: median {replayed:.1f} ms through the link,"
            f" {recorded:.1f} ms recorded"
            + (f"; {cached} more, which a cache answered when recorded" if cached else "")
        )
    lines = [
        Text.assemble((one.replay.page.name, "bold"), f" {one.error_percent:+.1f} %: {one.cause.sentence()}")
        for one in sorted(found.validated, key=lambda one: -abs(one.error_percent))
        if one.cause is not None and abs(one.error_percent) >= EXPLAINED_PERCENT
    ]
    if lines:
        screen.print()
        screen.print("Largest differences between replay and recording before the load event:")
        for line in lines:
            print_line(line)


def _grid(replays: Sequence[ValidatedReplay]) -> Grid:
    headers = ("requests", "hosts", "RTT\nms", "furthest\nms", "down\nMbit/s", "recorded\nms")
    rows = []
    for one in replays:
        network, page = one.replay.network, one.replay.page
        extra = max(network.host_extra_rtt_us.values(), default=0)
        rate = network.down.rate_bit_per_s
        rows.append(
            (
                *(page.name, str(len(page.resources)), str(len(page.hosts()))),
                *(f"{network.rtt_us / 1000:.1f}", f"{(network.rtt_us + extra) / 1000:.0f}"),
                "-" if rate is None else f"{rate / 1e6:.1f}",
                *(f"{one.replay.recorded_ms:.0f}", f"{one.replayed_ms:.0f}", f"{one.error_percent:+.1f}"),
            )
        )
    return listing((*keys("page"), *figures(*headers, "replayed\nms", "error\n%")), rows)
