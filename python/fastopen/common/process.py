"""Run programs as child processes, and return their output or write it to a log."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from fastopen.common.closing import interrupts_held_back
from fastopen.common.errors import MachineError

Command = Sequence[str | Path]
# The environment of a program. None: a minimal environment, or for `output_of` this process's environment.
Environment = Mapping[str, str] | None
# Environment variables that child processes inherit. Others may affect compilers or the kernel's build.
KEPT: Final = frozenset({"HOME", "LOGNAME", "PATH", "TMPDIR", "USER"})
# The number of lines of a log to show in an error.
SHOWN_LINES: Final = 3


class StepFailedError(Exception):
    """Raised if a program fails. The log that was passed to `run` or `pipe` contains the program's output."""

    def __init__(self, program: str | Path) -> None:
        super().__init__(str(program))
        self.program = str(program)


def plain_environment(**more: str) -> dict[str, str]:
    """Return a minimal environment: this process's variables in KEPT, LC_ALL=C for English, and `more`."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT}
    return kept | {"LC_ALL": "C"} | more


def errors_in(log: Path) -> str:
    """Return up to three lines of a build log that explain why the build failed, joined by ` | `: the first
    compiler errors, otherwise the last other errors, otherwise the last lines."""
    # The compiler's errors explain more than the errors of make, such as "Error 2" for each folder.
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    compilers = [line for line in lines if ": error: " in line][:SHOWN_LINES]
    telling = [line for line in lines if re.search(r"\berror\b|\*\*\*", line, re.IGNORECASE)]
    return " | ".join(compilers or (telling or [line for line in lines if line])[-SHOWN_LINES:])


def check_programs(packages: Mapping[str, str], user: str) -> None:
    """Raise MachineError if a required program is missing. `packages` maps the name of each program to the
    Debian packages to install for it. `user`: the feature that needs the programs, named in the error."""
    missing = [program for program in packages if not shutil.which(program)]
    if missing:
        remedy = f"apt-get install {' '.join(packages[program] for program in missing)}"
        raise MachineError(f"{user} needs {', '.join(missing)}", remedy)


def output_of(
    command: Command, timeout_s: float | None, cwd: Path | None = None, environment: Environment = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without input. Return its output and exit code. Raises OSError if the program cannot be
    started, and its subclass TimeoutError if it runs for longer than `timeout_s` seconds."""
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(str(error)) from None


@contextlib.contextmanager
def running(
    command: Command,
    log: IO[bytes],
    cwd: Path,
    environment: Environment = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program during the `with` block, and write its standard error to `log`. When the block ends, wait
    for the program. If the block raises an error, kill the program and its child processes instead."""
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
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process is not None and process.stdout is not None:
            process.stdout.close()


def run(command: Command, log: IO[bytes], cwd: Path, environment: Environment = None) -> None:
    """Run a program, and write its output to `log`. Raises StepFailedError if the program fails."""
    pipe([command], log, cwd, environment)


def pipe(commands: Sequence[Command], log: IO[bytes], cwd: Path, environment: Environment = None) -> None:
    """Run programs as a pipeline and write its output to `log`. Raises StepFailedError if a program fails."""
    # xz decompresses with one thread by default.
    environment = environment or plain_environment(XZ_DEFAULTS="--threads=0")
    started: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(commands, 1):
            before = started[-1].stdout if started else None
            out = log if number == len(commands) else subprocess.PIPE
            process = running(command, log, cwd, environment, before or subprocess.DEVNULL, out)
            started.append(stack.enter_context(process))
            if before is not None:
                before.close()  # the writer gets SIGPIPE when the reader ends
    for command, ended in zip(commands, started, strict=True):
        if ended.returncode:
            raise StepFailedError(command[0])
