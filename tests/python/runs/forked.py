"""Run the command line in a fork of the test's process."""

import os
import sys

from fastopen.cli import main


def forked(command: list[str]) -> int:
    """Start the command in a fork, so that no test kills it before fastopen is imported. Return its pid."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            sys.argv = ["fastopen", *command]
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        finally:
            os._exit(code)
    return pid
