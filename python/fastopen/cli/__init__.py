"""Run the command line. Each module in `cli/commands` and `apps/*/commands` defines a command."""

import gc
import sys

# Commands create and keep tens of thousands of objects. With CPython's default threshold, the search for
# garbage cycles takes much of the processor time of a short command.
GARBAGE_THRESHOLD = 100_000
INTERRUPTED = 130


def main() -> None:
    """Run the command line. This function is the entry point of the installed program."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    try:
        # Importing the program takes a large fraction of a second, and may be interrupted.
        from fastopen.cli import app

        app.main()
    except KeyboardInterrupt:
        # Commands handle interrupts themselves, but this interrupt came before a command had started.
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
