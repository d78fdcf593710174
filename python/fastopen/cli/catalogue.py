"""`fastopen reproduce --list`: what the packaged experiments load, and how long that takes."""

import os
from typing import Any

from fastopen.cli.output import console, print_json
from fastopen.cli.progress import shown_duration
from fastopen.cli.tables import print_grid
from fastopen.common.grid import Column, figures, keys, listing
from fastopen.engines import default_parallel
from fastopen.experiments import (
    EngineName,
    Experiment,
    estimated_s,
    load_experiment,
    make_plan,
    packaged_experiments,
)
from fastopen.pages import load_chosen
from fastopen.workflows.engines import auto_engine


def list_experiments(*, as_json: bool) -> None:
    """Prints name, title, source, pages, loads and estimated time of each."""
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
    console().print(f"loads and times on the engine {' and '.join(engines)}", style="dim")


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
