"""`fastopen resume`: go on with a run that was interrupted or killed."""

from dataclasses import replace
from typing import Annotated

import typer

from fastopen.cli.carrying import Carrying, JobsOption, JsonOption, QuietOption, go_on
from fastopen.errors import InputError
from fastopen.pages import ImportedPage, load_pages
from fastopen.runs import RunStore, find_run


def resume(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, its name, or last.")] = "last",
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INPUT...]", help="Where the run's recorded bodies are now, if they moved."),
    ] = None,
    jobs: JobsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Go on with an unfinished run: what is done stays, the rest is done. Options are the run's own."""
    folder = find_run(run)
    with RunStore.go_on(folder) as store:
        carrying = Carrying(jobs=jobs, json=json, quiet=quiet, output=folder)
        go_on(store, _with_bodies(store, inputs or []), carrying)


def _with_bodies(store: RunStore, inputs: list[str]) -> list[ImportedPage]:
    """The run's own pages, with recorded bodies read again where it began with some."""
    pages = list(store.pages().values())
    options = store.options
    if not options.get("bodies"):
        return [ImportedPage(page) for page in pages]
    imported = load_pages(inputs or options["inputs"], options["library"], lenient=options["lenient"])
    # Pages of one name got a number when the run was planned.
    renamed = [
        replace(one, page=one.page.model_copy(update={"name": page.name}))
        for one, page in zip(imported, pages, strict=False)
    ]
    if len(imported) != len(pages) or [one.page.digest() for one in renamed] != [p.digest() for p in pages]:
        said = "its recorded bodies are not where they were, or have changed"
        raise InputError(said, store.place, "give its inputs again: fastopen resume RUN INPUT...")
    return renamed
