"""Start or resume a run, execute it and collect its results, for the command line and the Python API."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from fastopen.analysis.statistics import Results, UntilInterval, collect
from fastopen.common import units
from fastopen.common.closing import Closing, on_error
from fastopen.common.errors import InputError, MachineError
from fastopen.engines import ResultsStore
from fastopen.engines.base import Bodies, bodies_digests
from fastopen.experiments import (
    ASKED,
    COMMAND_LINE,
    Experiment,
    Factor,
    Plan,
    PlannedJob,
    Shard,
    Variation,
    as_recorded,
    make_plan,
    treatments_of,
)
from fastopen.experiments.factors import BY_NAME
from fastopen.pages import ImportedPage, Page, load_chosen
from fastopen.pages.budget import MAX_UNPACKED_BYTES
from fastopen.pages.recording import RecordedBodies
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
from fastopen.runs.resume import check_bodies
from fastopen.workflows.congestion import check_congestion_controls
from fastopen.workflows.engines import EngineSet, auto_engine

Watch = Callable[[RunProgress], None]
NOT_MODIFIED: Final = 304
# The default limit of repeats that are added until intervals are narrow enough.
MAX_REPEATS: Final = 100


@dataclass(frozen=True)
class RunOptions:
    """The options of a run, mostly from the command line. `kernel`: the kernel for virtual time. `until`: add
    repeats until confidence intervals are this narrow. `library`: folders in which to look up URLs.
    `lenient`: read damaged files. `seed_drawn`: the user set no seed. `samples_by_default`: the user set
    neither repeats nor variation. A resumed run keeps its own settings unless the user sets them."""

    output: Path | None = None
    """The folder for the run. If it holds a run of the same experiment, this run is resumed."""
    keep: bool = True
    """If `output` is None: True to keep the run in the default folder of runs, False to keep it in memory."""
    label: str = ""
    """A label for the run. If it is empty, a resumed run keeps its label, and a new run has none."""
    kernel: str | None = None
    jobs: int | None = None
    """The number of networks emulated at once; None to choose it by the number of cores."""
    until: UntilInterval | None = None
    seed_drawn: bool = False
    limit_s: float | None = None
    """Time limit in seconds, within which as many repeats as possible are run; None to run all."""
    samples_by_default: bool = False
    inputs: Sequence[str | Path] = ()
    """Files and folders of pages, read with the next three options. A resumed run reads only their bodies."""
    library: Sequence[str | Path] = ()
    lenient: bool = False
    max_unpacked: int = MAX_UNPACKED_BYTES
    keep_going: bool = False
    """True to continue even if the first loads of an arm are all invalid for the same reason."""
    watched: Watched = NOTHING_ELSE
    """The data to keep of each load in addition to its record. A resumed run keeps its own choice."""
    shard: Shard | None = None
    """The shard of the experiment to run; None for the whole experiment."""
    store: str | None = None
    """Folder or URL of a store of results. Jobs with a stored result are not run; new results are stored."""
    executor: Executor | None = None
    """The executor for jobs in virtual time; None to run these jobs on this machine."""
    place_of: Callable[[Factor], str] = COMMAND_LINE.key_of
    """A function that returns the command line option or TOML key that sets a factor, for error messages."""

    def as_json(self) -> dict[str, Any]:
        """Return the options that a run stores, so that it can be resumed later, as JSON values."""
        return {
            "until": None if self.until is None else asdict(self.until),
            "inputs": [_absolute(path) for path in self.inputs],
            "library": [_absolute(path) for path in self.library],
            "lenient": self.lenient,
            "max_unpacked": self.max_unpacked,
            "watched": self.watched.model_dump(),
            **({} if self.shard is None else {"shard": str(self.shard)}),
        }


@dataclass(frozen=True)
class StartedRun:
    """A run that is ready to be executed: its `store` of page loads is open for writing, and its engines are
    set up. `bodies` maps page names to recorded response bodies. `limit` is the run's time limit, if any. If
    the run's folder could not be created, `not_kept` is the error, and the run is only in memory."""

    store: RunStore
    plan: Plan
    bodies: Bodies
    engines: EngineSet
    options: RunOptions
    resumed: bool = False
    limit: TimeLimit | None = None
    not_kept: InputError | MachineError | None = None

    @property
    def loads_left(self) -> int:
        return self.store.loads_asked() - self.store.loads_done()


Observe = Callable[[StartedRun], AbstractContextManager[Watch]]
"""A function that receives a run before its execution, and returns a context manager of its event handler."""


@dataclass(frozen=True)
class ExecutedRun(Closing):
    """The results of a run that has finished or was stopped early, and the `outcome` of its execution.
    `until` is the requested precision, if any. `tasks_lost` is the number of tasks whose worker died."""

    store: RunStore
    """The store of the run, open for reading. A run in memory is lost when the store is closed."""
    results: Results
    until: UntilInterval | None
    outcome: RunOutcome | None
    """The outcome of the execution; None if the run had already finished."""
    results_store: ResultsStore | None = None
    """The store of results that was used, if any."""
    tasks_lost: int = 0

    def close(self) -> None:
        self.store.close()


def run_experiment(
    experiment: Experiment, imported: Sequence[ImportedPage], options: RunOptions, observe: Observe
) -> ExecutedRun:
    """Start a run of the experiment, or resume the run in `options.output`, and execute it. `observe`
    receives the run before its execution.

    On KeyboardInterrupt, stop and return. Raises InputError if the experiment, its pages and the options
    are incompatible, or if the folder holds a run of another experiment. Raises MachineError if this machine
    cannot execute the run. Finished loads are kept in any case."""
    if not imported:
        raise InputError("the inputs contain no page")
    if options.watched.packets and options.output is None and not options.keep:
        raise InputError("needs a kept run", "--pcap", "drop --no-keep")
    check_hosts(experiment, imported, options.place_of)
    check_recorded(experiment, imported)
    check_documents(experiment, imported)
    check_cleartext(experiment, imported, options.place_of)
    check_quic(experiment, imported, options.place_of)
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
    # Check that this machine can run the plan before anything is written.
    engines = EngineSet.of(plan, options.kernel, options.jobs, None, options.store, options.executor)
    check_congestion_controls(experiment, engines.engines, options.place_of(BY_NAME["congestion_control"]))
    kept_options = {**options.as_json(), "bodies": bodies_digests(bodies)}
    folder, not_kept = options.output, None
    if folder is None and options.keep:
        folder = new_run_folder(plan.experiment.name)
    try:
        store = RunStore.create(folder, plan, engines.environment, kept_options)
    except (InputError, MachineError) as error:
        if options.output is not None:
            raise
        # The user did not ask for the folder, so run in memory instead.
        remedy = "set FASTOPEN_RUNS to another folder"
        not_kept = InputError(error.message, error.place, remedy) if isinstance(error, InputError) else error
        store = RunStore.create(None, plan, engines.environment, kept_options)
    if options.label:
        store.set_label(options.label)
    limit = None if options.limit_s is None else TimeLimit(options.limit_s)
    started = StartedRun(store, plan, bodies, engines, options, limit=limit, not_kept=not_kept)
    try:
        return _execute(started, observe)
    except (InputError, MachineError):
        if folder is not None and options.output is None:
            _forget_without_loads(folder)
        raise


def _forget_without_loads(folder: Path) -> None:
    with RunReader.open(folder) as run:
        loads = run.loads_done()
    if not loads:
        remove_run(folder)


def until_interval(text: str | None, max_repeats: int, repeats: int) -> UntilInterval | None:
    """Parse the value of --until-ci, such as `1%`. A run then adds repeats until the confidence intervals of
    all improvements by TFO have at most this half-width, or until there are `max_repeats`. Return None if
    `text` is None. Raises InputError if it is invalid or 0 %, or if `repeats` exceeds `max_repeats`."""
    if text is None:
        return None
    try:
        percent = 100 * units.parse_fraction(text)
    except units.UnitError as error:
        raise InputError(str(error), "--until-ci") from None
    if not 0 < percent <= 100:
        fault = f"{text!r} is out of bounds (above 0%, to 100%)"
        raise InputError(fault, "--until-ci", "write for example 1%")
    if max_repeats < repeats:
        fault = f"{max_repeats} is below --repeats ({repeats})"
        raise InputError(fault, "--max-repeats", "raise it or lower --repeats")
    return UntilInterval(percent, max_repeats)


def resume_run(
    folder: Path, options: RunOptions, observe: Observe, imported: Sequence[ImportedPage] | None = None
) -> ExecutedRun:
    """Execute the remaining loads of the run in `folder`, if any, and return its results. `observe` receives
    the run before its execution. Recorded bodies come from `imported`. If it is None, they are read again
    from `options.inputs`, by default from the run's own inputs. Raises InputError if the run cannot be read
    or its recorded bodies have changed. Raises MachineError if this machine cannot execute the run."""
    RunStore.absorb_log(folder)
    store = RunStore.open(folder)
    with on_error(store.close):
        kept = store.options.get("until")
        until = options.until or (UntilInterval(**kept) if kept else None)
        if store.status == "finished" and not store.pending():
            return ExecutedRun(store, collect(store), until, None)
    store.close()
    store = RunStore.resume(folder)
    with on_error(store.close):
        plan = stored_plan(store)
        bodies = bodies_of(plan, imported or pages_of(store, options.inputs))
        check_bodies(store.options.get("bodies", {}), bodies, store.place)
        asked = (store.environment, options.store, options.executor)
        engines = EngineSet.of(plan, options.kernel, options.jobs, *asked)
        store.add_environment(engines.environment)
    options = replace(options, until=until, watched=Watched(**store.options.get("watched", {})))
    return _execute(StartedRun(store, plan, bodies, engines, options, resumed=True), observe)


def run_in_memory(
    plan: Plan, kernel: str | None, jobs: int | None, watch: Watch, bodies: Bodies | None = None
) -> ExecutedRun:
    """Execute a plan, and keep the results only in memory. `jobs` is the number of networks emulated at once.
    `watch` is called after each event. `bodies` contains the recorded bodies of the pages, if the plan needs
    them. Raises KeyboardInterrupt if the execution is interrupted."""
    engines = EngineSet.of(plan, kernel, jobs)
    store = RunStore.create(None, plan, engines.environment)
    run = _execute(StartedRun(store, plan, bodies or {}, engines, RunOptions()), lambda _: nullcontext(watch))
    if run.outcome is not None and run.outcome.interrupted:
        run.close()
        raise KeyboardInterrupt
    return run


def _execute(run: StartedRun, observe: Observe) -> ExecutedRun:
    store, until = run.store, run.options.until

    def more_jobs() -> Sequence[PlannedJob]:
        return [] if until is None else until.more_jobs(collect(store), store)

    with on_error(store.close), observe(run) as watch:
        outcome = execute(
            *(run.plan, run.engines.engines, run.bodies, store, watch, more_jobs),
            keep_going=run.options.keep_going,
            watched=run.options.watched,
            limit=run.limit,
        )
        results = collect(store)
    if store.folder is not None:  # free the lock, so that another process may write
        store.close()
        store = RunStore.open(store.folder)
    lost = 0 if run.engines.workers is None else run.engines.workers.tasks_lost
    return ExecutedRun(store, results, until, outcome, run.engines.store, lost)


def _check_same(
    folder: Path, experiment: Experiment, imported: Sequence[ImportedPage], options: RunOptions
) -> None:
    with RunStore.open(folder) as store:
        kept = store.experiment()
        own = ["seed"] if options.seed_drawn else []
        if options.samples_by_default and {kept.vary, experiment.vary} == {None, Variation()}:
            own += ["vary", "repeats"]
        experiment = experiment.model_copy(update={name: getattr(kept, name) for name in own})
        plan = make_plan(experiment, [one.page for one in imported], store.auto_engine())
        remedy = f"use a new folder, or continue that experiment: fastopen resume {shlex.quote(store.place)}"
        check_same(store, experiment, plan.pages, remedy)
        if store.shard != options.shard:
            there, here = (f"shard {one}" if one else "a whole run" for one in (store.shard, options.shard))
            raise InputError(f"contains {there}, not {here}", store.place, "use a new folder")
        check_bodies(store.options.get("bodies", {}), bodies_of(plan, imported), store.place)


def pages_of(store: RunReader, inputs: Sequence[str | Path] = ()) -> list[ImportedPage]:
    """Return the pages of a run. If the run used recorded bodies, read them again from `inputs`, by default
    from the run's own inputs. Raises InputError if the bodies have changed."""
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
    # Take only the bodies from the inputs. The run's pages have unique names and are calibrated.
    if list(map(_body_sizes, pages)) != [_body_sizes(one.page) for one in imported]:
        message = "its recorded bodies were moved or have changed"
        raise InputError(message, store.place, "give the inputs again: fastopen resume RUN INPUT...")
    return [replace(one, page=page) for one, page in zip(imported, pages, strict=True)]


def _body_sizes(page: Page) -> list[tuple[str, int]]:
    return [(one.url, one.body_bytes) for one in page.resources]


def bodies_of(plan: Plan, imported: Sequence[ImportedPage]) -> Bodies:
    """Map the name of each page of the plan to its recorded bodies. Include recorded response headers only if
    the emulated servers send recorded bodies."""
    heads = any(setup.origins.bodies == "recorded" for setup in plan.experiment.setups)
    each = {page.name: one.bodies for page, one in zip(plan.pages, imported, strict=False)}
    return {
        name: one.without_heads() if isinstance(one, RecordedBodies) and not heads else one
        for name, one in each.items()
    }


def check_hosts(
    experiment: Experiment, imported: Sequence[ImportedPage], place_of: Callable[[Factor], str]
) -> None:
    """Raise InputError if a setting of the experiment names a host that no page has. `place_of` returns the
    command line option or file key of a setting, for the message."""
    known = {host for one in imported for host in one.page.hosts()}
    named: list[tuple[str, Iterable[str]]] = []
    for network in experiment.networks:
        named += [("extra_rtt", network.host_extra_rtt_us), ("path_hosts", network.path_hosts or ())]
    for key in ("http2_hosts", "http3_hosts", "server_hosts"):
        named += [(key, getattr(setup.origins, key) or ()) for setup in experiment.setups]
    for factor, hosts in named:
        if unknown := [host for host in hosts if host not in known]:
            place, remedy = place_of(BY_NAME[factor]), "fastopen page show lists the hosts of a page"
            raise InputError(f"no page has the host {unknown[0]}", place, remedy)


def check_documents(experiment: Experiment, imported: Sequence[ImportedPage]) -> None:
    """Raise InputError if the experiment loads a page with a browser, but its document was recorded with the
    status 304 (Not Modified) and has no body."""
    browsers = [one.client.label for one in experiment.setups if one.client.type.paints]
    for one in imported if browsers else ():
        document = next(resource for resource in one.page.resources if resource.redirect_to is None)
        if document.status == NOT_MODIFIED:
            message = "its document was answered with 304 (Not Modified), out of the recorder's cache"
            remedy = f"record the page with an empty cache, or use --client loader instead of {browsers[0]}"
            raise InputError(message, f"page {one.page.name}", remedy)


def check_cleartext(
    experiment: Experiment, imported: Sequence[ImportedPage], place_of: Callable[[Factor], str]
) -> None:
    """Raise InputError if TFO is requested for a page that keeps its http URLs in cleartext (`security` is
    `recorded`), but all hosts have HTTP/3, which cannot use TFO. `place_of` returns the command line option
    or file key of a setting, for the message."""
    mixed = any(
        one.origins.all_quic and one.tls is not None and one.tls.security == "recorded"
        for one in experiment.setups
    )
    for one in imported if mixed and treatments_of(experiment.arms) else ():
        if not all(resource.encrypted for resource in one.page.resources):
            message = f"with HTTP/3 no connection uses TFO, not even those of http URLs ({one.page.name})"
            remedy = "drop it, or use the transport tls, or the HTTP version recorded"
            raise InputError(message, place_of(BY_NAME["security"]), remedy)


def check_quic(
    experiment: Experiment, imported: Sequence[ImportedPage], place_of: Callable[[Factor], str]
) -> None:
    """Raise InputError if a setting needs HTTP/3, but no host of any page has HTTP/3. With the HTTP version
    `recorded`, only the pages decide this. `place_of` returns the command line option or file key of a
    setting, for the message."""
    keys = experiment.needing_quic()
    points = product(experiment.setups, imported, experiment.networks) if keys else ()
    if keys and not any(as_recorded(setup, one.page, network).quic for setup, one, network in points):
        factor = next(one for one in ASKED if one.toml == keys[0])
        remedy = "use HTTP version 3, name hosts with HTTP/3, or drop it"
        raise InputError("needs a host with HTTP/3, but none was recorded with it", place_of(factor), remedy)


def check_recorded(experiment: Experiment, imported: Sequence[ImportedPage]) -> None:
    """Raise InputError if the experiment serves recorded bodies, but a page lacks its document's body."""
    if not any(setup.origins.bodies == "recorded" for setup in experiment.setups):
        return
    for one in imported:
        root = next(i for i, resource in enumerate(one.page.resources) if resource.redirect_to is None)
        if root not in one.bodies:
            remedy = "record it with fastopen record URL -o FILE.wacz, or use --bodies synthetic"
            raise InputError(f"page {one.page.name} has no recorded bodies", "--bodies", remedy)


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute()) if Path(path).exists() else str(path)
