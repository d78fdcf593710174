"""Consoles, exit codes and JSON, the same for all commands."""

import json
import sys
from typing import Any, Final

from rich.console import Console

EXIT_FAULTS: Final = 1
EXIT_INPUT: Final = 2
EXIT_MACHINE: Final = 3
EXIT_INTERRUPTED: Final = 130
# Files and pipes have no width; tables are made to fit this one.
PLAIN_WIDTH: Final = 100


def console() -> Console:
    """For what was asked for: standard output. Colours only on a terminal and without NO_COLOR."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False, emoji=False)


def errors_console() -> Console:
    """For progress and complaints: standard error."""
    return Console(stderr=True, highlight=False, emoji=False)


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")
    sys.stdout.flush()
