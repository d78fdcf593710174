"""Define exit codes, consoles and functions that print, for all commands."""

import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fastopen.common.errors import unwritable
from fastopen.common.grid import Grid
from fastopen.common.terminal import filled, tabled

EXIT_FAULTS: Final = 1
EXIT_INPUT: Final = 2
EXIT_MACHINE: Final = 3
EXIT_INTERRUPTED: Final = 130
# The width of tables in files and pipes, unless the environment variable COLUMNS sets a width.
PLAIN_WIDTH: Final = 100
LEAST_WIDTH: Final = 40
# Control characters (C0 and C1) except tabs and line ends, and characters that change the text's direction.
CONTROLS: Final = re.compile("\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class _StandardOutput(io.FileIO):
    """Standard output. The first write that fails raises an error; later writes are ignored."""

    failed = False

    def write(self, data: Any) -> int:
        """Write bytes to standard output. Raises InputError, MachineError or BrokenPipeError on failure."""
        try:
            return len(memoryview(data)) if self.failed else super().write(data)
        except OSError as error:
            self.failed = True  # ignore the write that Python repeats at exit
            if isinstance(error, BrokenPipeError):
                raise
            raise unwritable("standard output", error) from None


class _StandardError(io.FileIO):
    """Standard error. Messages that it cannot take are lost, but the command continues."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return super().write(data)
        return len(memoryview(data))


def open_standard_streams() -> None:
    """Replace sys.stdout and sys.stderr with streams that escape characters that their encoding does not
    support. Standard output reports failed writes. Leave streams that have already been replaced."""
    # Python's own stream can lose output with PYTHONUNBUFFERED.
    for descriptor, name, kind in ((1, "stdout", _StandardOutput), (2, "stderr", _StandardError)):
        stream = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__"):
            continue
        if stream is None:  # Occupy the closed descriptor, so that no file of the run gets its number.
            os.dup2(os.open(os.devnull, os.O_RDONLY), descriptor)
        encoding = stream.encoding if stream else "utf-8"
        buffer = io.BufferedWriter(kind(descriptor, "w", closefd=False))
        by_line = buffer.isatty() or kind is _StandardError
        setattr(sys, name, io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=by_line))


class _PlainConsole(Console):
    """A console that does not crop lines. It replaces control characters, which could hide other text."""

    def print(self, *objects: Any, crop: bool = False, **others: Any) -> None:
        super().print(*objects, crop=crop, **others)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Replace control characters, except in Rich's own control segments."""
        for text, style, control in super().render(renderable, options):
            shown = text if control else CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
            yield Segment(shown, style, control)


def console() -> Console:
    """Return the console for results: standard output, with colours on terminals unless NO_COLOR is set."""
    columns = os.environ.get("COLUMNS", "")
    piped = max(int(columns), LEAST_WIDTH) if columns.isdecimal() else PLAIN_WIDTH
    return _PlainConsole(width=None if sys.stdout.isatty() else piped, highlight=False, emoji=False)


def errors_console() -> Console:
    """Return the console for progress and errors: standard error."""
    return _PlainConsole(stderr=True, highlight=False, emoji=False)


def print_line(line: str | Text, style: str = "") -> None:
    """Print a line of results on standard output. Long lines are not wrapped, except by a terminal."""
    console().print(line if isinstance(line, Text) else Text(line), style=style, soft_wrap=True)


def print_message(line: str | Text, style: str = "") -> None:
    """Print a line about progress or a problem on standard error, without wrapping long lines."""
    errors_console().print(line if isinstance(line, Text) else Text(line), style=style, soft_wrap=True)


def print_grid(grid: Grid) -> None:
    """Print a table and its note on standard output, in the widest layout that fits the terminal."""
    target = console()
    for renderable in tabled(grid, target.width):
        target.print(renderable)
    for line in filled([grid.note] if grid.note else [], target.width, "dim"):
        target.print(line)


def shown(value: float | None, *, sign: bool = False, digits: int = 1) -> str:
    """Format a number, or `-` for None. With `sign`, positive numbers get a `+`; zero never has a sign."""
    if value is None:
        return "-"
    rounded = round(value, digits) or 0.0
    return f"{rounded:{'+' if sign and rounded else ''}.{digits}f}"


def exit_if(condition: object, code: int = EXIT_FAULTS) -> None:
    if condition:
        raise typer.Exit(code)


@contextmanager
def nothing_to_compare_when_interrupted() -> Iterator[None]:
    """On Ctrl-C in the `with` block, print a message and exit. For commands without partial results."""
    try:
        yield
    except KeyboardInterrupt:
        errors_console().print("interrupted before there was anything to compare")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def print_json(document: Any) -> None:
    """Print a document as JSON on standard output, with control characters escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=console().options.ascii_only, allow_nan=False)
    sys.stdout.write(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
    sys.stdout.flush()


def print_text(text: str) -> None:
    """Print a document on standard output unchanged, except that control characters are replaced."""
    typer.echo(CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text), nl=False)
