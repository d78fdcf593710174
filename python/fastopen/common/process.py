"""Programs that the build starts: their words go to a log, and none is left running, whatever happens."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from fastopen.common.closing import interrupts_held_back

Command = Sequence[str | Path]
# A make or shell around this one may set much else that steers compilers and the kernel's own build.
KEPT: Final = frozenset({"HOME", "LOGNAME", "PATH", "TMPDIR", "USER"})


class StepFailedError(Exception):
    """A program of the build ended with a fault; its words are in the log."""

    def __init__(self, program: str | Path) -> None:
        super().__init__(str(program))
        self.program = str(program)


def plain_environment(**more: str) -> dict[str, str]:
    """Little of this process's environment, and English."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT}
    return kept | {"LC_ALL": "C"} | more


@contextlib.contextmanager
def running(
    command: Command,
    log: IO[bytes],
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
) -> Iterator[subprocess.Popen[bytes]]:
    """The program, in a process group of its own that ends with this block; its complaints go to `log`."""
    process = None
    try:
        with interrupts_held_back():
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=plain_environment() if environment is None else environment,
                stdin=stdin,
                stdout=stdout,
                stderr=log,
                start_new_session=True,
            )
        yield process
        process.wait()
    finally:
        if process is not None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def run(command: Command, log: IO[bytes], cwd: Path, environment: Mapping[str, str] | None = None) -> None:
    """Runs one program to its end. Raises StepFailedError where it fails."""
    with running(command, log, cwd, environment, stdout=log) as process:
        process.wait()
    if process.returncode:
        raise StepFailedError(command[0])


def pipe(commands: Sequence[Command], log: IO[bytes], cwd: Path) -> None:
    """Runs programs, each reading what the one before writes. Raises StepFailedError where one fails."""
    environment = plain_environment(XZ_DEFAULTS="--threads=0")  # xz reads with one thread otherwise
    started: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(commands, 1):
            before = started[-1].stdout if started else None
            out = log if number == len(commands) else subprocess.PIPE
            process = running(command, log, cwd, environment, before or subprocess.DEVNULL, out)
            started.append(stack.enter_context(process))
            if before is not None:
                before.close()  # so that the writer hears when the reader ends
    for command, ended in zip(commands, started, strict=True):
        if ended.returncode:
            raise StepFailedError(command[0])
