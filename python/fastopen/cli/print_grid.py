"""Print tables for all commands."""

from fastopen.cli.output import console
from fastopen.common.grid import Grid
from fastopen.common.terminal import filled, tabled


def print_grid(grid: Grid) -> None:
    """Print a table and its note on standard output, in the widest layout that fits the terminal."""
    target = console()
    for renderable in tabled(grid, target.width):
        target.print(renderable)
    for line in filled([grid.note] if grid.note else [], target.width, "dim"):
        target.print(line)
