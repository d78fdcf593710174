"""Run the command line for tests: in this process, or in a new one if signals and descriptors matter."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Final
from unittest.mock import patch

from fastopen.cli import main

FASTOPEN: Final = [sys.executable, "-c", "from fastopen.cli import main; main()"]
Done = subprocess.CompletedProcess[str]


def fastopen(*arguments: object, columns: int = 100, env: Mapping[str, str] | None = None) -> Done:
    """Run the command line in this process, because a new interpreter takes longer than most tests.

    `env` replaces the environment of the test.
    """
    asked = [*map(str, arguments)]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    environment = {**(os.environ if env is None else env), "COLUMNS": str(columns)}
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
    ):
        with (
            patch.dict(os.environ, environment, clear=True),
            patch.object(sys, "argv", ["fastopen", *asked]),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                main()
                status = 0
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(["fastopen", *asked], status, out.read(), err.read())


def fastopen_alone(*arguments: object, columns: int = 100, env: Mapping[str, str] | None = None) -> Done:
    """Run the command line in a new process."""
    return subprocess.run(
        [*FASTOPEN, *map(str, arguments)],
        env={**(os.environ if env is None else env), "COLUMNS": str(columns)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
