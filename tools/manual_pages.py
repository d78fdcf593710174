"""Make manual pages and shell completions from the definitions of the commands."""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

from typer._completion_shared import get_completion_script

from command_documents import commands
from fastopen.cli.app import EXIT_HELP

NAME: Final = "fastopen"
COMPLETE: Final = "_FASTOPEN_COMPLETE"
# Paths of the completions below `share/`, where each shell looks for them.
COMPLETIONS: Final = {
    "bash": f"bash-completion/completions/{NAME}",
    "zsh": f"zsh/site-functions/_{NAME}",
    "fish": f"fish/vendor_completions.d/{NAME}.fish",
}
SUMMARY: Final = "measures what TCP Fast Open does to page load time"


def write_share(folder: Path, version: str) -> None:
    """Write manual pages and completions below `folder`, with the layout of a system's `share/`."""
    for place, text in (*completions(), *manual_pages(version)):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def completions() -> Iterator[tuple[str, str]]:
    """Yield the path and text of each shell's completion script, which calls the program for suggestions."""
    for shell, place in COMPLETIONS.items():
        yield place, get_completion_script(prog_name=NAME, complete_var=COMPLETE, shell=shell) + "\n"


def manual_pages(version: str) -> Iterator[tuple[str, str]]:
    """Yield the path and text of `fastopen(1)` and of each command (such as `fastopen-kernel-build(1)`)."""
    every = list(commands())
    yield f"man/man1/{NAME}.1", "\n".join(_overview(every, version)) + "\n"
    for name, command in every:
        page = f"{NAME}-{name.replace(' ', '-')}"
        yield f"man/man1/{page}.1", "\n".join(_page(page, name, command, version)) + "\n"


def _overview(every: list[tuple[str, Any]], version: str) -> Iterator[str]:
    yield from _heading(NAME, version, SUMMARY)
    yield from (
        ".SH SYNOPSIS",
        f".B {NAME}",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH COMMANDS",
    )
    for name, command in every:
        yield from (".TP", rf".B {_escaped(name)}", f"{_escaped(_first(command))} See")
        yield rf".BR {NAME}\-{_escaped(name.replace(' ', '-'))} (1)."
    yield from (".SH EXIT STATUS", _escaped(EXIT_HELP.partition(": ")[2]))


def _page(page: str, name: str, command: Any, version: str) -> Iterator[str]:
    yield from _heading(page, version, _first(command).rstrip("."))
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    named = " ".join(rf"\fI{_escaped(_named(one))}\fR" for one in arguments)
    yield from (".SH SYNOPSIS", rf".B {NAME} {_escaped(name)}", f"[\\fIOPTIONS\\fR] {named}".rstrip())
    yield ".SH DESCRIPTION"
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        yield from (".PP", _escaped(" ".join(paragraph.split())))
    for heading, of_kind in (("ARGUMENTS", arguments), ("OPTIONS", options)):
        if of_kind:
            yield f".SH {heading}"
        for one in of_kind:
            yield from (".TP", _flags(one), _escaped(" ".join((one.help or "").split())) or r"\&")
    yield from (".SH SEE ALSO", rf".BR {NAME} (1)")


def _heading(page: str, version: str, summary: str) -> Iterator[str]:
    yield f'.TH "{page.upper()}" "1" "" "{NAME} {version}" "User Commands"'
    yield from (".SH NAME", rf"{_escaped(page)} \- {_escaped(summary)}")


def _flags(one: Any) -> str:
    """Return the names of an option and of its value, or the name of an argument, with roff's markup."""
    if one.param_type_name == "argument":
        return rf"\fI{_escaped(_named(one))}\fR"
    names = ", ".join(rf"\fB{_escaped(name)}\fR" for name in (*one.opts, *one.secondary_opts))
    value = "" if one.is_flag else str(one.metavar or one.name.upper())
    return rf"{names} \fI{_escaped(value)}\fR" if value else names


def _named(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _first(command: Any) -> str:
    return cleandoc(command.help or "").partition("\n\n")[0].replace("\n", " ")


def _escaped(text: str) -> str:
    """Escape text for roff. Otherwise, a line that begins with a dot or an apostrophe would be a request."""
    plain = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{plain}" if plain[:1] in (".", "'") else plain
