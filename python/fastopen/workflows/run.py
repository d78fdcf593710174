"""The one run loop, of terminal and notebook alike: starts a run or resumes one, executes it, collects."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from fastopen.analysis.statistics import Results, UntilInterval, collect
from fastopen.common import units
from fastopen.common.closing import Closing
from fastopen.common.errors import InputError, MachineError
from fastopen.engines import ResultsStore
from fastopen.engines.base import Bodies
from fastopen.experiments import (
    COMMAND_LINE,
    Experiment,
    Factor,
    Plan,
    PlannedJob,
    Shard,
    Variation,
    make_plan,
)
from fastopen.experiments.factors import BY_NAME
from fastopen.pages import ImportedPage, Page, load_chosen
from fastopen.pages.budget import MAX_UNPACKED_BYTES
from fastopen.runs import (
    NOTHING_ELSE,
    RunOutcome,
    RunProgress,
    RunReader,
    RunStore,
    TimeLimit,
    Watched,
    check_same,
    execute,
    holds_run,
    new_run_folder,
    remove_run,
    stored_plan,
)
from fastopen.runs.bodies import bodies_digests, check_bodies
from fastopen.workflows.congestion import check_congestion_controls
from fastopen.workflows.engines import EngineSet, auto_engine

Watch = Callable[[RunProgress], None]
NOT_MODIFIED: Final = 304


@dataclass(frozen=True)
class RunOptions:
    """The options of a run. For a resumed run, `kernel` and `until` default to its own."""

    output: Path | None = None
    """The folder to keep it in; a run of the same experiment that is there is resumed."""
    keep: bool = True
    """Whether it is kept among the user's runs where no folder is named."""
    label: str = ""
    """What the kept run is called besides; empty: a run that is resumed keeps its own."""
    kernel: str | None = None
    jobs: int | None = None
    """Worlds at once; None: by cores."""
    until: UntilInterval | None = None
    seed_drawn: bool = False
    """Whether nobody named a seed: then a run that is resumed has its own."""
    limit_s: float | None = None
    """Repeats are done while there is time, no more than that; None: all of them."""
    draws_by_default: bool = False
    """Whether nobody said how often, or whether in draws: then a run that is resumed has its own."""
    inputs: Sequence[str | Path] = ()
    """What the pages were loaded from, by what follows here: resuming reads recorded bodies there."""
    library: Sequence[str | Path] = ()
    lenient: bool = False
    max_unpacked: int = MAX_UNPACKED_BYTES
    keep_going: bool = False
    """Whether a run goes on where the first loads of an arm are all invalid for the same reason."""
    watched: Watched = NOTHING_ELSE
    """What is kept of each load besides; a run that is resumed goes on as it was started."""
    shard: Shard | None = None
    """The part of the experiment that is run; None: all of it."""
    store: str | None = None
    """Folder or URL of a store of results: looked into before a job runs, written to when it is done."""
    executor: Executor | None = None
    """What runs the jobs of virtual time; None: this machine."""
    place_of: Callable[[Factor], str] = COMMAND_LINE.key_of
    """Where the values of a factor are written down."""

    def as_json(self) -> dict[str, Any]:
        """Return the options that resuming the run needs."""
        return {
            "until": None if self.until is None else asdict(self.until),
            "inputs": [_absolute(path) for path in self.inputs],
            "library": [_absolute(path) for path in self.library],
            "lenient": self.lenient,
            "max_unpacked": self.max_unpacked,
            "watched": asdict(self.watched),
            **({} if self.shard is None else {"shard": str(self.shard)}),
        }


@dataclass(frozen=True)
class StartedRun:
    """A run that is about to be executed, as it stands in its store."""

    store: RunStore
    plan: Plan
    bodies: Bodies
    engines: EngineSet
    until: UntilInterval | None
    resumed: bool = False
    keep_going: bool = False
    watched: Watched = NOTHING_ELSE
    limit: TimeLimit | None = None
    not_kept: InputError | MachineError | None = None
    """Why it is in memory alone, where it was to be kept among the user's runs."""

    @property
    def loads_left(self) -> int:
        return self.store.loads_asked() - self.store.loads_done()


Observe = Callable[[StartedRun], AbstractContextManager[Watch]]
"""Takes a run that is about to be executed; gives the watcher that is called at each event of it."""


@dataclass(frozen=True)
class ExecutedRun(Closing):
    """A run that was executed: to its end, or until it was interrupted. A context manager that closes it."""

    store: RunStore
    """Open for reading; one in memory is gone when it is closed."""
    results: Results
    until: UntilInterval | None
    outcome: RunOutcome | None
    """None where all of it was done before."""
    results_store: ResultsStore | None = None
    """Where results were looked for, and written."""
    tasks_lost: int = 0
    """How many tasks were sent to workers again, since theirs had died."""

    def close(self) -> None:
        self.store.close()


def run_experiment(
    experiment: Experiment, imported: Sequence[ImportedPage], options: RunOptions, observe: Observe
) -> ExecutedRun:
    """Starts a run of the experiment, or resumes the one that `options.output` holds, and executes it.

    On KeyboardInterrupt it stops, and what is finished is in the run. Raises InputError (also where the
    folder holds a run of another experiment) and MachineError; what is finished by then is kept.
    """
    if not imported:
        raise InputError("the inputs contain no page")
    if options.watched.packets and options.output is None and not options.keep:
        raise InputError("needs a kept run", "--pcap", "drop --no-keep")
    check_hosts(experiment, imported, options.place_of)
    check_recorded(experiment, imported)
    check_documents(experiment, imported)
    if options.output is not None and holds_run(options.output):
        _check_same(options.output, experiment, imported, options)
        if options.label:
            with RunStore.resume(options.output) as kept:
                kept.set_label(options.label)
        return resume_run(options.output, options, observe, imported)
    plan = make_plan(experiment, [one.page for one in imported], auto_engine(options.kernel))
    if options.shard is not None:
        plan = options.shard.of(plan)
    bodies = bodies_of(plan, imported)
    # Before anything is written: can this machine do it at all?
    engines = EngineSet.of(plan, options.kernel, options.jobs, None, options.store, options.executor)
    place = options.place_of(BY_NAME["congestion_control"])
    check_congestion_controls(experiment, engines.engines, place)
    kept_options = {**options.as_json(), "bodies": bodies_digests(bodies)}
    folder, not_kept = options.output, None
    if folder is None and options.keep:
        folder = new_run_folder(plan.experiment.name, datetime.now().astimezone())
    try:
        store = RunStore.create(folder, plan, engines.environment, kept_options)
    except (InputError, MachineError) as error:
        if options.output is not None:
            raise
        # The folder was not asked for: the run is measured all the same, in memory.
        not_kept = error
        store = RunStore.create(None, plan, engines.environment, kept_options)
    if options.label:
        store.set_label(options.label)
    started = StartedRun(
        *(store, plan, bodies, engines, options.until),
        keep_going=options.keep_going,
        watched=options.watched,
        limit=None if options.limit_s is None else TimeLimit(options.limit_s),
        not_kept=not_kept,
    )
    try:
        return _execute(started, observe)
    except (InputError, MachineError):
        if folder is not None and options.output is None:
            _forget_without_loads(folder)
        raise


def _forget_without_loads(folder: Path) -> None:
    """Removes a run among the user's that ended before its first load: nobody could do anything with it."""
    with RunReader.open(folder) as run:
        loads = run.loads_done()
    if not loads:
        remove_run(folder)


def until_interval(text: str | None, max_repeats: int, repeats: int) -> UntilInterval | None:
    """The precision that a text like `1%` asks for. Raises InputError naming the option."""
    if text is None:
        return None
    try:
        percent = 100 * units.parse_fraction(text)
    except units.UnitError as error:
        raise InputError(str(error), "--until-ci") from None
    if percent == 0:
        raise InputError("no interval has the width 0%", "--until-ci", "write for example 1%")
    if max_repeats < repeats:
        fault = f"{max_repeats} is below --repeats ({repeats})"
        raise InputError(fault, "--max-repeats", "raise it or lower --repeats")
    return UntilInterval(percent, max_repeats)


def resume_run(
    folder: Path, options: RunOptions, observe: Observe, imported: Sequence[ImportedPage] | None = None
) -> ExecutedRun:
    """Does what a kept run still owes; of one that is finished, gives the results.

    Experiment and pages are its own. Recorded bodies are those of `imported`, else they are read again, from
    `options.inputs` where given. Raises InputError and MachineError.
    """
    RunStore.put_in_order(folder)
    with _closed_on_error(RunStore.open(folder)) as store:
        kept = store.options.get("until")
        until = options.until or (UntilInterval(**kept) if kept else None)
        if store.status == "finished" and not store.pending():
            return ExecutedRun(store, collect(store), until, None)
    store.close()
    with _closed_on_error(RunStore.resume(folder)) as store:
        plan = stored_plan(store)
        bodies = bodies_of(plan, imported or pages_of(store, options.inputs))
        check_bodies(store.options.get("bodies", {}), bodies, store.place)
        asked = (store.environment, options.store, options.executor)
        engines = EngineSet.of(plan, options.kernel, options.jobs, *asked)
        store.add_environment(engines.environment)
    started = StartedRun(
        *(store, plan, bodies, engines, until),
        resumed=True,
        keep_going=options.keep_going,
        watched=Watched(**store.options.get("watched", {})),
    )
    return _execute(started, observe)


def run_in_memory(
    plan: Plan, kernel: str | None, jobs: int | None, watch: Watch, bodies: Bodies | None = None
) -> ExecutedRun:
    """Executes a plan for what it shows, to be kept nowhere. Raises KeyboardInterrupt where interrupted."""
    engines = EngineSet.of(plan, kernel, jobs)
    store = RunStore.create(None, plan, engines.environment)
    run = _execute(StartedRun(store, plan, bodies or {}, engines, None), lambda _: nullcontext(watch))
    if run.outcome is not None and run.outcome.interrupted:
        run.close()
        raise KeyboardInterrupt
    return run


def _execute(run: StartedRun, observe: Observe) -> ExecutedRun:
    """Executes it and, where a precision is asked for, as many repeats more as that needs."""
    store, until = run.store, run.until

    def more_jobs() -> Sequence[PlannedJob]:
        return [] if until is None else until.more_jobs(collect(store), store)

    with _closed_on_error(store), observe(run) as watch:
        outcome = execute(
            *(run.plan, run.engines.engines, run.bodies, store, watch, more_jobs),
            keep_going=run.keep_going,
            watched=run.watched,
            limit=run.limit,
        )
        results = collect(store)
    if store.folder is not None:  # another process may write there now
        store.close()
        store = RunStore.open(store.folder)
    lost = 0 if run.engines.workers is None else run.engines.workers.tasks_lost
    return ExecutedRun(store, results, until, outcome, run.engines.store, lost)


@contextmanager
def _closed_on_error(store: RunStore) -> Iterator[RunStore]:
    try:
        yield store
    except BaseException:
        store.close()
        raise


def _check_same(
    folder: Path, experiment: Experiment, imported: Sequence[ImportedPage], options: RunOptions
) -> None:
    """Raise InputError if the folder's run has another experiment, other pages or bodies."""
    with RunStore.open(folder) as store:
        kept = store.experiment()
        own = ["seed"] if options.seed_drawn else []
        if options.draws_by_default and {kept.vary, experiment.vary} == {None, Variation()}:
            own += ["vary", "repeats"]
        experiment = experiment.model_copy(update={name: getattr(kept, name) for name in own})
        plan = make_plan(experiment, [one.page for one in imported], store.auto_engine())
        remedy = f"use a new folder, or run fastopen resume {store.place}"
        check_same(store, experiment, plan.pages, remedy)
        if store.shard != options.shard:
            there, here = (f"shard {one}" if one else "a whole run" for one in (store.shard, options.shard))
            raise InputError(f"contains {there}, not {here}", store.place, "use a new folder")
        check_bodies(store.options.get("bodies", {}), bodies_of(plan, imported), store.place)


def pages_of(store: RunReader, inputs: Sequence[str | Path] = ()) -> list[ImportedPage]:
    """The run's own pages, with recorded bodies read again where it started with some."""
    pages = list(store.pages().values())
    options = store.options
    if not options.get("bodies"):
        return [ImportedPage(page) for page in pages]
    imported = load_chosen(
        inputs or options["inputs"],
        store.experiment().corpus,
        options["library"],
        lenient=options["lenient"],
        max_unpacked=options.get("max_unpacked", MAX_UNPACKED_BYTES),
    )
    # The run's own pages replace them: these have numbered names and are calibrated.
    if list(map(_of_bodies, pages)) != [_of_bodies(one.page) for one in imported]:
        message = "its recorded bodies were moved or have changed"
        raise InputError(message, store.place, "give the inputs again: fastopen resume RUN INPUT...")
    return [replace(one, page=page) for one, page in zip(imported, pages, strict=True)]


def _of_bodies(page: Page) -> list[tuple[str, int]]:
    """Return the bodies of a page and their sizes."""
    return [(one.url, one.body_bytes) for one in page.resources]


def bodies_of(plan: Plan, imported: Sequence[ImportedPage]) -> Bodies:
    return {page.name: one.bodies for page, one in zip(plan.pages, imported, strict=False)}


def check_hosts(
    experiment: Experiment, imported: Sequence[ImportedPage], place_of: Callable[[Factor], str]
) -> None:
    """A host that no page asks is a slip of the pen, which would make no difference in silence."""
    known = {host for one in imported for host in one.page.hosts()}
    named: list[tuple[str, Iterable[str]]] = []
    for network in experiment.networks:
        named += [("extra_rtt", network.host_extra_rtt_us), ("path_hosts", network.path_hosts or ())]
    named += [("server_hosts", setup.origins.server_hosts or ()) for setup in experiment.setups]
    for factor, hosts in named:
        if unknown := [host for host in hosts if host not in known]:
            place, remedy = place_of(BY_NAME[factor]), "fastopen page show lists the hosts of a page"
            raise InputError(f"no page has the host {unknown[0]}", place, remedy)


def check_documents(experiment: Experiment, imported: Sequence[ImportedPage]) -> None:
    """A browser's page is its document: of one that was answered with 304 there is none."""
    browsers = [one.client.label for one in experiment.setups if one.client.type.paints]
    for one in imported if browsers else ():
        document = next(resource for resource in one.page.resources if resource.redirect_to is None)
        if document.status == NOT_MODIFIED:
            message = "its document was answered with 304 (Not Modified), out of the recorder's cache"
            remedy = f"record the page with an empty cache, or use --client loader instead of {browsers[0]}"
            raise InputError(message, f"page {one.page.name}", remedy)


def check_recorded(experiment: Experiment, imported: Sequence[ImportedPage]) -> None:
    """Recorded bodies are for pages whose document was recorded as it crossed the wire."""
    if not any(setup.origins.bodies == "recorded" for setup in experiment.setups):
        return
    for one in imported:
        root = next(i for i, resource in enumerate(one.page.resources) if resource.redirect_to is None)
        if root not in one.bodies:
            remedy = "record it with fastopen record URL -o FILE.wacz, or use --bodies synthetic"
            raise InputError(f"page {one.page.name} has no recorded bodies", "--bodies", remedy)


def _absolute(path: str | Path) -> str:
    """The path of what is there, to be found from another folder too; a packaged page's name as it is."""
    return str(Path(path).absolute()) if Path(path).exists() else str(path)
