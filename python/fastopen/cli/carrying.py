"""Carries an experiment out, from its pages to the printed results: begins a run, or goes on with one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fastopen.cli.compare_kernels import beside, on_virtual, several
from fastopen.cli.output import EXIT_FAULTS, EXIT_INTERRUPTED, console, errors_console, print_json
from fastopen.cli.progress import RunWatcher, shown_duration
from fastopen.cli.report import announce_report
from fastopen.cli.show import print_results
from fastopen.errors import InputError
from fastopen.experiments import Experiment, Plan, estimated_s, make_plan
from fastopen.pages import ImportedPage
from fastopen.report import results_document
from fastopen.runs import (
    RunOutcome,
    RunStore,
    check_same,
    holds_run,
    new_run_folder,
    runs_folder,
)
from fastopen.statistics import Results, UntilInterval
from fastopen.workflows.engines import EngineSet, auto_engine
from fastopen.workflows.run import Inputs, Rest, bodies_of, carry, check_hosts, kept_options, rest_of

# A run that is expected to take so long is announced before it begins.
ANNOUNCED_S: Final = 120
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
KeepOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Keep the run here; go on with one that is here, unfinished. (default: among your runs)",
    ),
]
NoKeepOption = Annotated[bool, typer.Option("--no-keep", help="Do not keep the run.")]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, max=1024, help="Worlds at once. (default: by cores)")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


@dataclass(frozen=True)
class Carrying:
    """What a run is carried out with, beside experiment and pages."""

    jobs: int | None
    json: bool
    quiet: bool
    kernel: str | None = None
    output: Path | None = None
    keep: bool = True
    seed_drawn: bool = False
    """Whether nobody named a seed: then a run that is there goes on with its own."""
    until: UntilInterval | None = None
    inputs: tuple[str, ...] = ()
    """What the pages were loaded from, by `library` and `lenient`: recorded bodies are read there again."""
    library: tuple[str, ...] = ()
    lenient: bool = False
    report: bool = False
    """Whether a report is written beside what is kept."""

    @property
    def origin(self) -> Inputs:
        """What the pages were loaded from."""
        return Inputs(self.inputs, self.library, self.lenient)


def carry_out(experiment: Experiment, imported: Sequence[ImportedPage], carrying: Carrying) -> None:
    """Runs the experiment and prints its results; raises typer.Exit where that is not simply 0."""
    if not imported:
        raise InputError("no page in what was given")
    check_hosts(experiment, imported)
    if named := several(carrying.kernel):
        _carry_out_on(named, on_virtual(experiment), imported, carrying)
        return
    if carrying.output is not None and holds_run(carrying.output):
        with RunStore.go_on(carrying.output) as store:
            if carrying.seed_drawn:
                experiment = experiment.model_copy(update={"seed": store.experiment().seed})
            pages = make_plan(experiment, [one.page for one in imported], store.auto_engine()).pages
            check_same(store, experiment, pages)
            go_on(store, imported, carrying)
        return
    plan = make_plan(experiment, [one.page for one in imported], auto_engine(carrying.kernel))
    bodies = bodies_of(plan, imported)
    # Before anything is written: can this machine do it at all?
    worker = EngineSet.of(plan, carrying.kernel, carrying.jobs)
    options = kept_options(carrying.kernel, carrying.until, carrying.origin, bodies)
    with _begun(plan, carrying, worker.environment, options) as store:
        _run(store, Rest(plan, bodies, worker, carrying.until), carrying)


def _carry_out_on(
    named: Mapping[str, str], experiment: Experiment, imported: Sequence[ImportedPage], carrying: Carrying
) -> None:
    """A run on each kernel, kept for itself, and what changed between them. Raises typer.Exit as above."""

    def carried(name: str, written: str) -> Results:
        folder = None if carrying.output is None else carrying.output / name
        one = replace(carrying, kernel=written, output=folder)
        plan = make_plan(experiment, [page.page for page in imported], "virtual")
        bodies, worker = bodies_of(plan, imported), EngineSet.of(plan, written, one.jobs)
        options = kept_options(written, one.until, one.origin, bodies)
        with _begun(plan, one, worker.environment, options) as store:
            outcome, results = _carried(store, Rest(plan, bodies, worker, one.until), one)
            try:
                _finish(store, outcome, results, one)
            except typer.Exit:  # where it fell short, the exit code says so once all kernels are compared
                if outcome.interrupted:
                    raise
            return results

    if not beside(named, carried, as_json=carrying.json):
        raise typer.Exit(EXIT_FAULTS)


def go_on(store: RunStore, imported: Sequence[ImportedPage], carrying: Carrying) -> None:
    """Does what a kept run still owes, and prints its results as `carry_out` does."""
    rest = rest_of(store, imported, kernel=carrying.kernel, jobs=carrying.jobs, until=carrying.until)
    store.add_environment(rest.worker.environment)
    if not carrying.quiet:
        done, asked = store.loads_done(), store.loads_asked()
        errors_console().print(f"going on: {done} of {asked} loads are done", markup=False)
    _run(store, rest, carrying)


@contextmanager
def _begun(
    plan: Plan, carrying: Carrying, environment: dict[str, Any], options: dict[str, Any]
) -> Iterator[RunStore]:
    """A new run in the folder that was named, or among the user's runs, or in memory."""
    folder = carrying.output
    if folder is None and carrying.keep:
        folder = new_run_folder(plan.experiment.name, datetime.now().astimezone())
    try:
        store = RunStore.create(folder, plan, environment, options)
    except InputError as error:
        if carrying.output is not None:
            raise
        # Nobody asked for it to be kept: what can be measured is.
        errors_console().print(f"not kept: {error}", markup=False, soft_wrap=True)
        store = RunStore.create(None, plan, environment, options)
    with store:
        yield store


def _carried(store: RunStore, rest: Rest, carrying: Carrying) -> tuple[RunOutcome, Results]:
    """Does what the run owes, with progress."""
    if not carrying.quiet:
        _announce(rest, store)
    with RunWatcher(store.loads_asked() - store.loads_done(), errors_console(), carrying.quiet) as watcher:
        return carry(store, rest, watcher)


def _run(store: RunStore, rest: Rest, carrying: Carrying) -> None:
    outcome, results = _carried(store, rest, carrying)
    if carrying.json:
        print_json(results_document(results))
    else:
        print_results(results, console())
    _finish(store, outcome, results, replace(carrying, until=rest.until))


def _announce(rest: Rest, store: RunStore) -> None:
    """What is about to begin: on which engine, and how long where somebody might rather not wait for it."""
    errors_console().print(rest.worker.description(rest.plan), markup=False, soft_wrap=True)
    left = store.loads_asked() - store.loads_done()
    parallel = {name: engine.parallel for name, engine in rest.worker.engines.items()}
    seconds = estimated_s(rest.plan, parallel) * left / max(rest.plan.loads(), 1)
    if seconds >= ANNOUNCED_S:
        errors_console().print(f"{left:,} loads, {shown_duration(seconds)} or so", markup=False)


def _finish(store: RunStore, outcome: RunOutcome, results: Results, carrying: Carrying) -> None:
    complaints = errors_console()
    for reason, jobs in outcome.faults.items():
        others = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        complaints.print(f"fault in {jobs[0]}{others}: {reason}", markup=False, soft_wrap=True)
    if carrying.until is not None and (wide := carrying.until.too_wide(results)):
        said = f"{wide} intervals are wider than asked, with {carrying.until.max_repeats} repeats at most"
        complaints.print(said, markup=False, soft_wrap=True)
    name = _name(store)
    if name is not None and (carrying.output is not None or not carrying.quiet):
        complaints.print(f"kept in {store.place}", markup=False, soft_wrap=True)
    if outcome.interrupted:
        to_do = "" if name is None else f"; fastopen resume {name} goes on with it"
        complaints.print(f"interrupted{to_do}", markup=False, soft_wrap=True)
        raise typer.Exit(EXIT_INTERRUPTED)
    if carrying.report:
        announce_report(store)
    if outcome.faults or any(cell.loads == cell.invalid for cell in results.cells):
        raise typer.Exit(EXIT_FAULTS)


def _name(store: RunStore) -> str | None:
    """What a person can call the run: its name where it is among the user's runs, else its folder."""
    if store.folder is None:
        return None
    return store.folder.name if store.folder.parent == runs_folder() else str(store.folder)
