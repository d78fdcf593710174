"""Define `fastopen reproduce`: run a named experiment, and print its results next to published figures."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Final

from rich.text import Text
from typer import Argument, Option

from fastopen.cli.allow_command import AllowCommandOption, check_commands
from fastopen.cli.options import NAMED_CLIENTS, engines_asked, other_clients
from fastopen.cli.output import (
    console,
    errors_console,
    exit_if,
    print_grid,
    print_json,
    print_line,
    print_message,
)
from fastopen.cli.progress import RunWatcher, shown_duration
from fastopen.cli.reading import Reading, refuse_run
from fastopen.cli.run_settings import RunSettings
from fastopen.cli.shared_options import with_settings
from fastopen.common.errors import InputError
from fastopen.common.files import make_folder, write_file
from fastopen.common.grid import Column, figures, keys, listing
from fastopen.engines import default_parallel
from fastopen.experiments import (
    COMMAND_LINE,
    EngineName,
    Experiment,
    estimated_s,
    load_experiment,
    load_rigs,
    make_plan,
    packaged_experiments,
    with_changes,
)
from fastopen.pages import load_chosen
from fastopen.report.explained import explained_grids, sentences
from fastopen.workflows.engines import auto_engine
from fastopen.workflows.expected import both_kernels, expected_table, first_difference, measured
from fastopen.workflows.explain import estimate, explain

PANEL: Final = "Measure"
# The interval of progress messages, in seconds.
PACE_S: Final = 5.0
# The settings that --explain and --check accept. They ignore `store`, which the environment may set.
SEARCHED: Final = ("jobs", "json", "output", "quiet", "report", "store")
CHECKED: Final = ("jobs", "json", "kernel", "quiet", "store")


def explain_rigs(name: str, settings: RunSettings) -> None:
    """Find the test conditions that best reproduce published page load times, and print the result. The
    experiment `name` lists the conditions to try. If requested, write a report."""
    space = load_rigs(name)
    folder = settings.output or Path()
    if settings.report:
        # Create the folder before the search, which takes a minute, so that a failure shows at once.
        make_folder(folder)
    full, seconds = estimate(space, jobs=settings.jobs)
    if not settings.quiet:
        loaded = f"the search loads {'all' if full else 'the most promising'}"
        print_message(f"{space.size:,} possible rigs: {loaded}, in about {shown_duration(seconds)}")
    last = monotonic()

    def watch(done: int, known: int) -> None:
        nonlocal last
        if not settings.quiet and monotonic() - last >= PACE_S:
            last = monotonic()
            print_message(f"{done:,} of {known:,} loads")

    found = explain(space, jobs=settings.jobs, watch=watch)
    if settings.json:
        print_json(found.as_json())
    else:
        screen = console()
        for grid in explained_grids(found):
            print_grid(grid)
            screen.print()
        for sentence in sentences(found):
            screen.print(Text(sentence))
    if settings.report:
        # Altair and Vega take a second to import.
        from fastopen.report.explained_page import explained_html
        from fastopen.report.figures import slug_of

        path = folder / f"{slug_of(space.base.name)}-explained.html"
        write_file(path, explained_html(found))
        print_message(f"report: {path}")


def check_expected(experiment: Experiment, settings: RunSettings) -> None:
    """Load an experiment's pages in virtual time, and compare the times with the table expected.csv. Exit
    with 1 if they differ. Raises InputError if the table lacks the experiment."""
    expected_table(experiment)  # raises InputError if there is no table, before anything is loaded
    with RunWatcher(errors_console(), settings.quiet) as watcher:
        found = measured(experiment, kernel=settings.kernel, jobs=settings.jobs, watch=watcher)
    difference = first_difference(experiment, found)
    if settings.json:
        print_json({"experiment": experiment.name, "equal": difference is None, "difference": difference})
    elif difference is None:
        print_line(f"equal: {len(found)} page load times of {experiment.name}")
    else:
        print_line(f"different: {difference}\n{both_kernels(settings.kernel)}")
    exit_if(difference is not None)


def list_experiments(*, as_json: bool) -> None:
    """Print the name, title, source, pages, loads and estimated time of each packaged experiment."""
    entries = [_entry(load_experiment(name)) for name in packaged_experiments()]
    if as_json:
        print_json({"experiments": entries})
        return
    columns = (*keys("name"), Column("what", "words", wraps=True), *figures("loads", "about"))
    rows = (
        (
            one["name"],
            f"{one['title']}\nsource: {one['source']}\npages: {', '.join(one['pages'])}",
            *(f"{one['loads']:,}", shown_duration(one["estimated_s"])),
        )
        for one in entries
    )
    print_grid(listing(columns, rows))
    engines = list(dict.fromkeys(engine for one in entries for engine in one["engines"]))
    print_line(f"loads and times on the engine {' and '.join(engines)}", "dim")


def _entry(experiment: Experiment) -> dict[str, Any]:
    pages = [one.page for one in load_chosen(experiment.pages, experiment.corpus)]
    plan = make_plan(experiment, pages, auto_engine(None))
    parallel: dict[EngineName, int] = {"host": default_parallel(), "virtual": len(os.sched_getaffinity(0))}
    keys = ("name", "title", "source", "pages", "repeats", "notes")
    return {
        **{key: getattr(experiment, key) for key in keys},
        "engines": list(plan.engines),
        "loads": plan.loads(),
        "estimated_s": round(estimated_s(plan, parallel), 1),
    }


@with_settings
def command(
    name: Annotated[str | None, Argument(help="A packaged experiment, or a TOML file.")] = None,
    list_all: Annotated[bool, Option("--list", help="List the packaged experiments.")] = False,
    seed: Annotated[int | None, Option(min=0, help="Seed instead of the experiment's.")] = None,
    client: Annotated[
        str | None,
        Option(help=f"Clients instead of the experiment's, with commas: {', '.join(NAMED_CLIENTS)}."),
    ] = None,
    engine: Annotated[
        str | None, Option(help="Engines instead of the experiment's, with commas: auto, host, virtual.")
    ] = None,
    allow_command: AllowCommandOption = False,
    explain: Annotated[
        bool,
        Option(
            "--explain",
            help="Search the declared rigs of the experiment for the one that gives the published"
            " figures, in virtual time; --report writes NAME-explained.html into the folder of -o, or here.",
        ),
    ] = False,
    check: Annotated[
        bool,
        Option("--check", help="Load once in virtual time; compare times with the expected table exactly."),
    ] = False,
    *,
    settings: RunSettings,
) -> None:
    """Run a packaged experiment or a TOML file, and compare with published figures."""
    if list_all:
        list_experiments(as_json=settings.json)
        return
    if name is None:
        raise InputError("needs an experiment", "reproduce", "fastopen reproduce --list lists them")
    own = {"seed": seed is not None, "client": bool(client), "engine": bool(engine)}
    if explain:
        _check_alone("--explain", SEARCHED, settings, {**own, "check": check})
        if settings.output and not settings.report:
            remedy = "add --report, or drop -o"
            raise InputError("names the folder of the report with --explain", "-o", remedy)
        explain_rigs(name, settings)
        return
    refuse_run(name, "an experiment")
    experiment = load_experiment(name)
    if check:
        _check_alone("--check", CHECKED, settings, own)
        check_expected(experiment, settings)
        return
    changes: dict[str, Any] = {} if seed is None else {"seed": seed}
    if engine is not None:
        changes["engines"] = engines_asked(engine)
    if client is not None:
        changes["setups"] = other_clients(experiment, client)
    experiment = with_changes(experiment, changes, COMMAND_LINE)
    check_commands(experiment, name, allowed=allow_command)
    pages = Reading().pages(experiment.pages, choice=experiment.corpus, quiet=settings.quiet)
    settings.run(experiment, pages, inputs=experiment.pages, place_of=lambda factor: f"{name}: {factor.toml}")


def _check_alone(
    mode: str, accepted: Collection[str], settings: RunSettings, own: Mapping[str, bool]
) -> None:
    """Raise InputError if an option is set that cannot be combined with the option `mode`: one in `settings`
    whose name is not in `accepted`, or one in `own`, which maps names of options to True if they are set."""
    usual = vars(RunSettings())
    changed = [key for key, value in vars(settings).items() if key not in accepted and value != usual[key]]
    for key in (*changed, *filter(own.get, own)):
        raise InputError(f"cannot be combined with {mode}", f"--{key.replace('_', '-')}", "drop one of them")
