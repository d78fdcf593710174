"""Which commands there are, and where each is.

A command's module is read when the command is asked for: `fastopen ls` needs no figures and no browser.
"""

import difflib
import shutil
from collections import UserDict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from fastopen.cli.output import EXIT_INTERRUPTED, errors_console
from fastopen.errors import InputError

# Module of this package and name in it, by the command's name, in the order of the help.
PLACES: Final = {
    "run": ("run", "run"),
    "reproduce": ("run", "reproduce"),
    "factors": ("factors", "factors"),
    "resume": ("resume", "resume"),
    "merge": ("merge", "merge_runs"),
    "ls": ("ls", "ls"),
    "label": ("ls", "label"),
    "rm": ("ls", "rm"),
    "show": ("show", "show"),
    "compare": ("compare", "compare"),
    "export": ("export", "export"),
    "report": ("report", "report"),
    "browse": ("browse", "browse"),
    "figures": ("figures", "figures"),
    "payoff": ("payoff", "payoff"),
    "audit": ("audit", "audit_command"),
    "exec": ("exec", "execute"),
    "record": ("record", "record"),
    "shell": ("shell", "shell"),
    "probe": ("probe", "probe_hosts"),
    "why": ("why", "why"),
    "serve-bench": ("serve_bench", "serve_bench"),
    "doctor": ("doctor", "doctor"),
    "page": ("pages", "app"),
    "pages": ("corpus", "app"),
    "kernel": ("kernel", "app"),
    "store": ("store", "app"),
    "validate": ("validate", "app"),
}
# These take another program's command line: options after its name are its own.
WITH_COMMAND_LINE: Final = ("exec", "shell")
COMMAND_LINE: Final = {"allow_interspersed_args": False}
# Narrower terminals have help without frames, whose columns would cut names of options.
FRAMES_MIN: Final = 120


# What Typer raises for a command line that it cannot read; Click's name for it is not in Typer's API.
UsageError: Final[Any] = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _OnDemand(dict.fromkeys(PLACES))

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """As TyperGroup; raises InputError where an option is not known."""
        with _in_one_line():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        """As TyperGroup; raises InputError where the command's own part of the line cannot be read."""
        with _in_one_line():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # the signature is typer's
        """The names, without reading a module."""
        return [*self.commands]


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Makes an InputError of a command line that cannot be read, so that it is one line like all others.

    A command that is interrupted, and has nothing of its own to say of it, says so.
    """
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
        asked, known = getattr(found, "option_name", ""), getattr(found, "possibilities", None) or ()
        if near := difflib.get_close_matches(asked, known, n=1):
            raise InputError(f"no such option: {asked}", place, f"did you mean {near[0]}?") from None
        message = found.format_message().rstrip(".").replace("Value error, ", "")
        help_of = " ".join(filter(None, ("fastopen", place, "--help")))
        remedy = "" if "Did you mean" in message else f"{help_of} says what there is"
        raise InputError(f"{message[0].lower()}{message[1:]}", place, remedy) from None


class PanelCommand(TyperCommand):
    """A command whose options stand under the headings of their panels in help without frames, too."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """See TyperCommand."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                argument = param.param_type_name == "argument"
                default = "Arguments" if argument else "Options"
                panels.setdefault(getattr(param, "rich_help_panel", None) or default, []).append(record)
        for heading, records in panels.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class _OnDemand(UserDict[str, Any]):
    """Commands by name, each made when it is looked up first."""

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _made(name)
        return _fit(self.data[name])


def _made(name: str) -> Any:
    module, attribute = PLACES[name]
    found = getattr(import_module(f"fastopen.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        group: Any = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    settings = COMMAND_LINE if name in WITH_COMMAND_LINE else None
    alone.command(name, cls=PanelCommand, context_settings=settings)(found)
    return typer.main.get_command(alone)


def _fit(found: Any) -> Any:
    """A command, or those of a group, with help that has frames where the terminal has room for them."""
    mode = "rich" if shutil.get_terminal_size().columns >= FRAMES_MIN else None
    commands: list[Any] = [*found.commands.values()] if isinstance(found, TyperGroup) else [found]
    for command in commands:
        command.rich_markup_mode = mode
    return found
