"""Find the commands. Each module in a folder named `commands` defines a command as its variable `command`.

For example, `commands/serve_bench.py` defines `fastopen serve-bench`. This package and each app can have such
a folder. A command is a function or a Typer group; several apps can add subcommands to a group. A module is
imported only when its command is requested, so `fastopen ls` starts quickly."""

import re
import shutil
from collections import UserDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

import fastopen
from fastopen.cli.help import HELP, TopicCommand, UsageError, arrange, placeholder
from fastopen.cli.output import EXIT_INTERRUPTED, errors_console
from fastopen.common.errors import InputError, did_you_mean
from fastopen.common.pydantic_errors import input_error

COMMANDS: Final = "commands"
# The headings of the help, in their order. A command's module names one of them as its PANEL.
COMMAND_PANELS: Final = ("Measure", "Read a result", "Runs", "Inputs", "Real networks and programs", "Trust")
# The smallest width of a terminal for help with frames. In narrower frames, names of options would be cut.
FRAMES_MIN: Final = 120
EXTRA: Final = re.compile(r"Got unexpected extra argument\(s\) \((.+)\)")


class Commands(TyperGroup):
    """The group of all commands. Its help lists them under headings. Usage errors become InputErrors."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.context_settings["help_option_names"] = ["-h", HELP]
        self.commands = _OnDemand(dict.fromkeys(modules()))

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return a context for parsing `args`. Treat `help COMMAND` as `COMMAND --help`. Raises InputError
        for an unknown option."""
        with _converted_usage_errors():
            asked = [*args[1:], HELP] if args[:1] == ["help"] else args
            return super().make_context(info_name, asked, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Invoke the command. Raises InputError if the command's own arguments cannot be parsed."""
        with _converted_usage_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # the signature is typer's
        """Return the names of all commands in the order of the help's headings. Imports every command."""
        made: list[tuple[str, Any]] = [*self.commands.items()]
        return [name for panel in COMMAND_PANELS for name, one in made if one.rich_help_panel == panel]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands into the help, with headings (COMMAND_PANELS), even without Rich."""
        every: list[tuple[str, Any]] = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        width = formatter.width - 6 - max(len(name) for name, _ in every)
        for panel in COMMAND_PANELS:
            within = [(name, one) for name, one in every if one.rich_help_panel == panel]
            with formatter.section(panel):
                formatter.write_dl([(name, one.get_short_help_str(width)) for name, one in within])


@contextmanager
def _converted_usage_errors() -> Iterator[None]:
    """Convert usage errors of Click into InputErrors, which `main` prints in one line like other errors."""
    try:
        yield
    except KeyboardInterrupt:
        errors_console().print("interrupted")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except UsageError as error:
        found: Any = error
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        program = found.ctx.find_root().command_path if found.ctx else ""
        place = found.ctx.command_path.removeprefix(program).strip() if found.ctx else ""
        option, see = getattr(found, "option_name", ""), " ".join(filter(None, ("fastopen", place, "--help")))
        params = found.ctx.command.params if found.ctx else ()
        if hasattr(found, "possibilities") and option:
            known = [name for one in params for name in (*one.opts, *one.secondary_opts) if len(option) > 2]
            remedy = did_you_mean(option, known, f"see {see}")
            raise InputError(f"no such option: {option}", place, remedy) from None
        if option:  # a flag was given a value, or an option lacks its value
            if "requires" in found.message:
                words = next((placeholder(one, found.ctx) for one in params if option in one.opts), "VALUE")
                raise InputError("needs a value", option, f"write {option} {words}") from None
            raise InputError("takes no value", option, f"write {option} without = and a value") from None
        if isinstance(error.__context__, ValidationError):
            raise input_error(error.__context__, found.param.opts[0]) from None
        message = found.format_message().partition(". Did you mean ")[0].rstrip(".")
        message = EXTRA.sub(lambda extra: f"Unexpected argument{'s' * (' ' in extra[1])} {extra[1]}", message)
        names = getattr(found.ctx.command, "commands", ()) if message.startswith("No such command") else ()
        remedy = did_you_mean(message.rstrip("'").rpartition("'")[2], names, f"see {see}")
        raise InputError(f"{message[0].lower()}{message[1:]}", place, remedy) from None


class _OnDemand(UserDict[str, Any]):
    """A mapping from names to commands. Looking up a command for the first time imports its modules."""

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _import_command(name)
        mode = "rich" if shutil.get_terminal_size().columns >= FRAMES_MIN else None
        for command in _leaves(self.data[name]):
            command.rich_markup_mode = mode
        return self.data[name]


@cache
def modules() -> dict[str, list[str]]:
    """Map the name of each command to the names of its modules, without importing them."""
    found: dict[str, list[str]] = {}
    package = Path(fastopen.__file__).parent
    for folder in (package / "cli" / COMMANDS, *sorted((package / "apps").glob(f"*/{COMMANDS}"))):
        parent = ".".join(folder.relative_to(package.parent).parts)
        for file in sorted(folder.glob("[!_]*.py")):
            found.setdefault(file.stem.replace("_", "-"), []).append(f"{parent}.{file.stem}")
    return found


def _import_command(name: str) -> Any:
    """Import a command. If several modules define subcommands of `name`, merge them into one group."""
    parts = [import_module(module) for module in modules()[name]]
    commands = [part.command for part in parts]
    if isinstance(commands[0], typer.Typer):
        commands.sort(key=lambda one: not one.info.help)
        for one in (info for group in commands for info in group.registered_commands):
            one.cls = TopicCommand
        made: Any = typer.main.get_group(commands[0])
        made.name = name
        for other in commands[1:]:
            made.commands.update(typer.main.get_group(other).commands)
    else:
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        settings = getattr(parts[0], "COMMAND_CONTEXT", None)
        app.command(name, cls=TopicCommand, context_settings=settings)(commands[0])
        made = typer.main.get_command(app)
        arrange(made, getattr(parts[0], "FIRST_OPTIONS", ()), getattr(parts[0], "EXAMPLES", {}))
    made.rich_help_panel = parts[0].PANEL
    return made


def _leaves(found: Any) -> list[Any]:
    return [*found.commands.values()] if isinstance(found, TyperGroup) else [found]
