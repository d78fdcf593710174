"""`fastopen reproduce NAME --explain`: which rig gives the published figures."""

from pathlib import Path
from time import monotonic

from rich.text import Text

from fastopen.cli.output import console, print_json, print_message
from fastopen.cli.progress import shown_duration
from fastopen.cli.run_settings import RunSettings
from fastopen.cli.tables import print_grid
from fastopen.common.errors import unwritable
from fastopen.common.user_files import write_file
from fastopen.experiments import load_rigs
from fastopen.report.explained import explained_grids, sentences
from fastopen.workflows.explain import Explained, estimate, explain

# How often progress is said, in seconds.
PACE_S = 5.0


def explain_rigs(name: str, settings: RunSettings) -> None:
    """Search the rigs of an experiment and print what was found. Raises InputError and MachineError."""
    space = load_rigs(name)
    folder = settings.output or Path()
    if settings.report:
        # Before the search, which takes a minute.
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from None
    rigs, whole_s = estimate(space, jobs=settings.jobs)
    if not settings.quiet:
        print_message(f"{rigs} rigs are declared; loading all of them takes about {shown_duration(whole_s)}")
    last = monotonic()

    def watch(done: int, known: int) -> None:
        nonlocal last
        if not settings.quiet and monotonic() - last >= PACE_S:
            last = monotonic()
            print_message(f"{done} of {known} loads")

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
        _write(found, folder)


def _write(found: Explained, folder: Path) -> None:
    # Altair and Vega take a second to import.
    from fastopen.report.explained_page import explained_html
    from fastopen.report.figures import slug_of

    path = folder / f"{slug_of(found.space.base.name)}-explained.html"
    write_file(path, explained_html(found))
    print_message(f"report: {path}")
