"""Makes docs/options.md, commands with their options, and the table of experiments in docs/cli.md."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

from fastopen.cli.discovery import Commands
from fastopen.experiments import FACTORS, load_experiment, packaged_experiments

OF_FACTORS = frozenset(factor.flag for factor in FACTORS)


def commands() -> Iterator[tuple[str, Any]]:
    """Each command with its name, `kernel build` for one of a group."""
    every = Commands().commands
    for name in every:
        group = getattr(every[name], "commands", {"": every[name]})
        yield from ((f"{name} {inner}".strip(), command) for inner, command in group.items())


def option_tables() -> str:
    """A section for each command: what it does, its arguments and options."""
    return "\n".join(section for name, command in commands() for section in _section(name, command))


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    own = [one for one in options if not OF_FACTORS & {*one.opts}]
    usage = " ".join(["fastopen", name, *(_named(one) for one in arguments)])
    yield f"## `{usage}`"
    yield cleandoc(command.help or "").partition("\n\n")[0].replace("\n", " ")
    if len(own) < len(options):
        yield "All [factors](factors.md) are options of it as well."
    if arguments or own:
        yield "\n| | |\n|---|---|"
        for one in (*arguments, *own):
            names = [*one.opts, *one.secondary_opts] if one in own else [_named(one)]
            help_text = " ".join((one.help or "").split()).replace("|", "\\|")
            yield f"| {', '.join(f'`{word}`' for word in names)} | {help_text} |"
    yield ""


def _named(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def experiment_table() -> str:
    """A line for each packaged experiment."""
    rows = (f"| `{name}` | {load_experiment(name).title} |" for name in sorted(packaged_experiments()))
    return "\n".join(["| name | what it repeats |", "|---|---|", *rows]) + "\n"
