"""List the commands, for manual pages, and make the tables of packaged experiments and pages."""

from collections.abc import Iterator
from typing import Any

from fastopen.cli.discovery import Commands
from fastopen.experiments import load_experiment, packaged_experiments
from fastopen.pages.library import load_pages, packaged_pages


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command with its name, such as `kernel build` for a command of a group."""
    every = Commands().commands
    for name in every:
        group = getattr(every[name], "commands", {"": every[name]})
        yield from ((f"{name} {inner}".strip(), command) for inner, command in group.items())


def experiment_table() -> str:
    """Return a table with a row for each packaged experiment."""
    rows = (f"| `{name}` | {load_experiment(name).title} |" for name in sorted(packaged_experiments()))
    return "\n".join(["| name | what it repeats |", "|---|---|", *rows]) + "\n"


def page_table() -> str:
    """Return a table with a row for each packaged page."""
    pages = (one.page for one in load_pages(sorted(packaged_pages())))
    rows = (f"| `{one.name}` | {len(one.resources)} | {one.source} | {one.initiators} |" for one in pages)
    return "\n".join(["| page | requests | source | initiators |", "|---|---:|---|---|", *rows]) + "\n"
