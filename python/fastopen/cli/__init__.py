"""The command line. A module in `cli/commands` is a command."""

import gc
import sys

# Modules, models and records are made by the ten thousand and kept. Looking for garbage cycles among them at
# CPython's usual threshold takes a good part of a short command's processor time.
GARBAGE_THRESHOLD = 100_000
INTERRUPTED = 130


def main() -> None:
    """Run the command line; the entry point of the installed program."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    try:
        # Reading the program takes a good part of a second.
        from fastopen.cli import app

        app.main()
    except KeyboardInterrupt:
        # Commands have said so themselves.
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
