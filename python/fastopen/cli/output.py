"""Consoles, exit codes and JSON, the same for all commands."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

EXIT_FAULTS: Final = 1
EXIT_INPUT: Final = 2
EXIT_MACHINE: Final = 3
EXIT_INTERRUPTED: Final = 130
# Files and pipes have no width; unless COLUMNS says one, tables are made to fit this one.
PLAIN_WIDTH: Final = 100
LEAST_WIDTH: Final = 40
# But for tabs and ends of lines: what terminals obey (C0 and C1), and what turns the direction of text.
CONTROLS: Final = re.compile("\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class _PlainConsole(Console):
    """Shows what others wrote: nothing of it moves the cursor, hides what stands there, or sets titles."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See Console. A segment without control codes of rich's own is text."""
        for text, style, control in super().render(renderable, options):
            yield Segment(
                text if control else CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text), style, control
            )


def console() -> Console:
    """For what was asked for: standard output. Colours only on a terminal and without NO_COLOR."""
    return _PlainConsole(width=None if sys.stdout.isatty() else _piped_width(), highlight=False, emoji=False)


def _piped_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    return max(int(columns), LEAST_WIDTH) if columns.isdecimal() else PLAIN_WIDTH


def errors_console() -> Console:
    """For progress and complaints: standard error."""
    return _PlainConsole(stderr=True, highlight=False, emoji=False)


def print_line(line: str | Text, style: str = "") -> None:
    """Print a result on standard output in one line, which only a terminal breaks."""
    console().print(line if isinstance(line, Text) else Text(line), style=style, soft_wrap=True)


def print_message(line: str | Text, style: str = "") -> None:
    """Print progress or a complaint on standard error in one line, which only a terminal breaks."""
    errors_console().print(line if isinstance(line, Text) else Text(line), style=style, soft_wrap=True)


def shown(value: float | None, *, sign: bool = False, digits: int = 1) -> str:
    """`+0.1`, `0.0` without a sign; `-` where it is not known."""
    if value is None:
        return "-"
    rounded = round(value, digits) or 0.0
    return f"{rounded:{'+' if sign and rounded else ''}.{digits}f}"


@contextmanager
def nothing_to_compare_when_interrupted() -> Iterator[None]:
    """Ends a command that has nothing to print before all loads are done."""
    try:
        yield
    except KeyboardInterrupt:
        errors_console().print("interrupted before there was anything to compare")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def print_json(document: Any) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
    sys.stdout.flush()


def print_text(text: str) -> None:
    """A document on standard output as it is, without what terminals obey."""
    typer.echo(CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text), nl=False)
