"""`fastopen reproduce NAME --explain`: which rig gives the published figures."""

from time import monotonic

from rich.console import Console
from rich.text import Text

from fastopen.cli.output import console, errors_console, print_json
from fastopen.cli.progress import shown_duration
from fastopen.cli.run_settings import RunSettings
from fastopen.common.grid import Grid
from fastopen.common.terminal import below_table, fitting_table
from fastopen.experiments import load_rigs
from fastopen.report.explained import cells_grid, property_lines, sentences, unreached_lines
from fastopen.workflows.explain import estimate, explain

# How often progress is said, in seconds.
PACE_S = 5.0


def explain_rigs(name: str, settings: RunSettings) -> None:
    """Search the rigs of an experiment and print what was found. Raises InputError and MachineError."""
    space = load_rigs(name)
    rigs, whole_s = estimate(space, jobs=settings.jobs)
    said = errors_console()
    if not settings.quiet:
        about = f"{rigs} rigs are declared; loading all of them takes about {shown_duration(whole_s)}"
        said.print(about, markup=False, soft_wrap=True)
    last = monotonic()

    def watch(done: int, known: int) -> None:
        nonlocal last
        if not settings.quiet and monotonic() - last >= PACE_S:
            last = monotonic()
            said.print(f"{done} of {known} loads", markup=False)

    found = explain(space, jobs=settings.jobs, watch=watch)
    if settings.json:
        print_json(found.as_json())
        return
    screen = console()
    _print(cells_grid(found), screen)
    for title, lines in (
        ("Properties that the rig may have had (* of the best rig)", property_lines(found)),
        ("Savings that the best rig does not give", unreached_lines(found)),
    ):
        screen.print(Text(title, style="bold"))
        for line in lines:
            screen.print(Text(line), soft_wrap=True)
        screen.print()
    for sentence in sentences(found):
        screen.print(Text(sentence))


def _print(grid: Grid, screen: Console) -> None:
    table, layout = fitting_table(grid, screen.width)
    screen.print(Text(grid.title, style="bold"))
    screen.print(table)
    for line in below_table(grid, layout):
        screen.print(Text(line))
    if grid.note:
        screen.print(Text(grid.note))
    screen.print()
