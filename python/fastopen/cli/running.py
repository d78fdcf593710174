"""Run an experiment or resume a run for a command: show progress, print results, set the exit code."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from fastopen.analysis.attribution import with_reasons
from fastopen.analysis.statistics import FULL_MIN, Results
from fastopen.cli.commands.report import announce_report
from fastopen.cli.commands.show import print_results
from fastopen.cli.output import (
    EXIT_FAULTS,
    EXIT_INTERRUPTED,
    console,
    errors_console,
    exit_if,
    print_json,
    print_line,
    print_message,
)
from fastopen.cli.progress import ANNOUNCED_S, LONGER, RunWatcher, shown_duration
from fastopen.common.phrases import plural
from fastopen.contract import InvalidKind
from fastopen.contract.client_kinds import LOADER
from fastopen.engines import ResultsStore
from fastopen.experiments import Experiment, Pace, estimated_s, treatments_of
from fastopen.pages import ImportedPage
from fastopen.report import results_document
from fastopen.runs import RunOutcome, RunStore, run_argument
from fastopen.runs.rows import PACKETS
from fastopen.workflows.engines import auto_engine, kernels_named, on_virtual_engine, slower_now
from fastopen.workflows.run import ExecutedRun, RunOptions, StartedRun, resume_run, run_experiment
from fastopen.workflows.workers import workers_at

# The reasons for repeating a load, in words, keyed by the kind of invalid load.
DISTURBED: Final[dict[str, str]] = {
    InvalidKind.FAULT: "the world program failed",
    InvalidKind.FIRST_BYTE_LATE: "a first byte came late",
    InvalidKind.LINK_LATE: "the machine was too slow (--engine virtual does not depend on its speed)",
}


@dataclass(frozen=True)
class Printing:
    """Options for the output of a run. `report` writes an HTML file. `plot` draws bars of page load times."""

    json: bool
    quiet: bool
    report: bool = False
    plot: bool = False


def run_and_print(
    experiment: Experiment, imported: Sequence[ImportedPage], options: RunOptions, printing: Printing
) -> None:
    """Run the experiment and print its results. With several kernels, run it on each kernel and print
    comparisons. Raises typer.Exit if the exit code is not 0."""
    observer = partial(_watcher, printing, options.store)
    named = kernels_named(options.kernel)
    if not named:
        _print(run_experiment(experiment, imported, options, observer), options, printing)
        return
    # Comparisons need many modules, which other runs need not import.
    from fastopen.analysis.comparison import Side, side_of
    from fastopen.cli.commands.compare import print_kernels

    experiment = on_virtual_engine(experiment)
    sides: dict[str, Side] = {}
    codes = []
    for name, kernel in named.items():
        output = None if options.output is None else options.output / name
        of_kernel = replace(options, kernel=kernel, output=output)
        with run_experiment(experiment, imported, of_kernel, observer) as run:
            sides[name] = side_of(run.store, name)
            codes.append(_finish(run, of_kernel, printing))
        exit_if(codes[-1] == EXIT_INTERRUPTED, EXIT_INTERRUPTED)
    if options.shard is None:
        print_kernels(sides, as_json=printing.json)
    exit_if(any(codes))


@contextmanager
def on_workers(options: RunOptions, address: str | None) -> Iterator[RunOptions]:
    """Yield `options`, with the workers of the Dask scheduler at `address` if an address is given."""
    if address is None:
        yield options
        return
    with workers_at(address) as (executor, at_once):
        yield replace(options, executor=executor, jobs=options.jobs or at_once)


def resume_and_print(folder: Path, options: RunOptions, printing: Printing) -> None:
    """Finish the run in `folder` if it is unfinished, and print its results as `run_and_print` does."""
    _print(resume_run(folder, options, partial(_watcher, printing, options.store)), options, printing)


def _watcher(printing: Printing, store: str | None, run: StartedRun) -> RunWatcher:
    if run.not_kept is not None:
        print_message(f"not kept: {run.not_kept}")
    expected_s = 0.0 if printing.quiet else _announce(run, store)
    return RunWatcher(
        *(errors_console(), printing.quiet),
        pace=Pace.of(run.plan, run.store.pending()),
        expected_s=expected_s,
        shorter=None if run.limit else partial(_ways_to_shorten, run),
        limit=run.limit,
    )


def _announce(run: StartedRun, asked_store: str | None) -> float:
    """Print the engine of a run before it starts, and its estimated duration if it is long. Print a note if
    the store of results (`asked_store`) cannot be used. Return the printed duration in seconds, or 0."""
    if run.resumed:
        done, asked = run.store.loads_done(), run.store.loads_asked()
        print_message(f"resuming: {done} of {asked} loads are done")
    print_message(run.engines.description(run.plan))
    if asked_store is not None and run.engines.store is None:
        print_message(f"store {asked_store}: not used, since real time does not repeat results")
    if run.limit is not None:
        print_message(f"running as many repeats as fit into {run.limit.seconds:g} s")
        return 0.0
    parallel = {name: engine.parallel for name, engine in run.engines.engines.items()}
    slower = slower_now(parallel) if run.engines.workers is None else {}
    left = run.loads_left / max(run.plan.loads(), 1)
    seconds = left * estimated_s(run.plan, parallel)
    busy_s = left * estimated_s(run.plan, parallel, slower)
    if busy_s < ANNOUNCED_S:
        return 0.0
    least, most = shown_duration(seconds), shown_duration(busy_s)
    longer = f" to {most}, since this machine is busy" if busy_s >= LONGER * seconds else " or so"
    print_message(f"{run.loads_left:,} loads, {least}{longer}{_ways_to_shorten(run, busy_s)}")
    return busy_s


def _ways_to_shorten(run: StartedRun, seconds: float) -> str:
    """Return options that shorten a run of `seconds`, with the new durations, as text; empty for a shard."""
    if run.store.shard:
        return ""
    experiment = run.plan.experiment
    ways = "; shorter: --quick (a minute)"
    repeats = max((planned.repeat for planned in run.plan.jobs), default=0) + 1
    if experiment.vary is not None:
        ways += f"; --no-vary ({shown_duration(seconds / repeats)})"
    elif repeats > FULL_MIN:
        ways += f"; --repeats {FULL_MIN} ({shown_duration(seconds * FULL_MIN / repeats)})"
    slow = [setup.client for setup in experiment.setups if setup.client.type.virtual_load_s]
    if slow and len(slow) == len(experiment.setups):
        ways += f"; --client {LOADER.label} instead of {slow[0].label} (seconds)"
    return ways


def _print(run: ExecutedRun, options: RunOptions, printing: Printing) -> None:
    with run:
        print_run(run.store, run.results, printing)
        code = _finish(run, options, printing)
        no_hint = printing.quiet or printing.json or printing.report or run.store.shard
        folder = run.store.folder
        if code != EXIT_INTERRUPTED and not no_hint and folder is not None:
            print_message(f"where the time went: fastopen report {run_argument(folder)}")
    exit_if(code, code)


def print_run(store: RunStore, results: Results, printing: Printing) -> None:
    """Print the results as JSON or tables. For a shard (a part of a run), print the number of finished loads
    instead of tables, which would lack the loads of other shards."""
    if printing.json:
        print_json(results_document(results))
    elif store.shard is not None:
        invalid = sum(not load.valid and not load.superseded for load in store.loads())
        words = f", {invalid} invalid" if invalid else ""
        done = f"{store.loads_done()} of {store.loads_asked()} loads done{words}"
        remedy = "when all are done: fastopen merge DIR... -o RUN"
        print_line(f"shard {store.shard} of {store.experiment().name}: {done}; {remedy}")
    else:
        print_results(with_reasons(store, results), console(), plot=printing.plot)


def _finish(run: ExecutedRun, options: RunOptions, printing: Printing) -> int:
    """Print a run's faults and its folder, write its report if requested, and return the exit code."""
    outcome = run.outcome or RunOutcome()
    for reason, jobs in outcome.faults.items():
        others = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        print_message(f"fault in {jobs[0]}{others}: {reason}")
    if run.until is not None and (wide := run.until.too_wide(run.results)):
        intervals = "1 interval is" if wide == 1 else f"{wide} intervals are"
        words = f"wider than requested after {run.until.max_repeats} repeats; raise --max-repeats"
        print_message(f"{intervals} {words}")
    if not printing.quiet:
        _print_repeated_loads(run)
    if run.results_store is not None:
        _print_store_use(run.results_store, quiet=printing.quiet)
    folder = run.store.folder
    if folder is not None and (options.output is not None or not printing.quiet):
        kept = "kept in" if run.outcome is not None else "already finished, in"
        print_message(f"{kept} {run.store.place}")
    if options.watched.packets and folder is not None:
        print_message(f"packets in {folder / PACKETS}")
    if outcome.packets_dropped:
        print_message(f"{outcome.packets_dropped:,} packets were not kept, since the buffer was full")
    if outcome.interrupted:
        remedy = "" if folder is None else f"; to continue: fastopen resume {run_argument(folder)}"
        print_message(f"interrupted{remedy}")
        return EXIT_INTERRUPTED
    if outcome.hopeless:
        print_message(f"stopped: {outcome.hopeless}; --keep-going continues")
        return EXIT_FAULTS
    if options.limit_s is not None and run.outcome is not None and not printing.quiet:
        _print_undecided(run, outcome, options)
    if printing.report:
        announce_report(run.store)
    return EXIT_FAULTS if outcome.faults or any(cell.without_valid for cell in run.results.cells) else 0


def _print_undecided(run: ExecutedRun, outcome: RunOutcome, options: RunOptions) -> None:
    """If the time limit precluded some confidence intervals, print options that give enough repeats."""
    judged = [arm.name for arm in treatments_of(run.results.experiment.arms)[:1]]
    cells = [cell for cell in run.results.cells if cell.cell.arm.name in judged]
    if not cells or all(cell.interval is not None for cell in cells):
        return
    done = run.store.attempts_done()
    fewest = plural(min(cell.pairs for cell in cells), "pair")
    seconds = f"{outcome.took_s:.0f} s"
    message = f"{seconds} were enough for {plural(done, 'load')}, with {fewest} valid for every row"
    message = f"--quick: {message if done else f'{seconds} were too short for one load'}"
    wanted = FULL_MIN * len(run.results.cells)
    late = any(kind == "link_late" for load in run.store.loads() for kind, _ in load.invalid)
    virtual = late and auto_engine(options.kernel) == "virtual"
    ways = [f"{'--engine virtual ' if virtual else ''}--repeats {FULL_MIN} instead of --quick"]
    if done and not virtual:
        ways[0] += f" ({shown_duration(outcome.took_s * wanted / done)} or so)"
    clients = [setup.client for setup in run.results.experiment.setups]
    if all(client.type.virtual_load_s for client in clients):
        ways.append(f"--client {LOADER.label} instead of {clients[0].label} (seconds)")
    print_message(f"{message}; for a verdict: {', or '.join(ways)}")


def _print_repeated_loads(run: ExecutedRun) -> None:
    store = run.store
    if again := store.attempts_done() - store.loads_done():
        loads = store.loads()
        kinds = {kind for load in loads if load.superseded for kind, _ in load.invalid}
        why = ", ".join(DISTURBED.get(kind, kind) for kind in sorted(kinds))
        done = f"{sum(load.valid for load in loads)} of {store.loads_asked()} loads are valid"
        print_message(f"{done} after {plural(again, 'retry', 'retries')}: {why}")
    if run.tasks_lost:
        tasks = "1 task was" if run.tasks_lost == 1 else f"{run.tasks_lost} tasks were"
        print_message(f"{tasks} split and submitted again, because a worker died")


def _print_store_use(store: ResultsStore, *, quiet: bool) -> None:
    if not quiet:
        words = f"{store.found:,} loads found, {store.written:,} added, in {store.seconds:.1f} s"
        print_message(f"store {store.place}: {words}")
    if store.complaint:
        print_message(f"store {store.complaint}; the run is complete despite this")
