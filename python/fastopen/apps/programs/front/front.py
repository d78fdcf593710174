"""Stands where the command would stand: signals, stops and exit code pass through as if it were not there.

Three processes: this one, which the shell sees; the supervisor, which has to be the command's parent to reach
its sockets (Yama); and the command. All are in the shell's process group, so what the terminal sends reaches
the command by itself.
"""

import contextlib
import json
import os
import queue
import resource
import select
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

# Those that people send. All else keeps its usual meaning.
PASSED_ON: Final = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGALRM,
}
SI_USER: Final = 0


class CommandError(Exception):
    """The command could not be run. `code`: 126, 127 (as of env) or 3, where this machine cannot do it."""

    def __init__(self, message: str, remedy: str, code: int) -> None:
        super().__init__(message, remedy, code)
        self.message, self.remedy, self.code = message, remedy, code


class SupervisorLostError(Exception):
    """The supervisor was killed while the command ran."""

    def __str__(self) -> str:
        return (
            "the supervisor was killed: from then on every connect, listen and getpeername of the command "
            "failed (ENOSYS); its connections and its exit code are unknown"
        )


def run_supervised(
    program: Path, command: Sequence[str], job: int | None = None, kernel: Sequence[str] | None = None
) -> dict[str, Any]:
    """Runs the command to its end; returns the last record. Raises CommandError and SupervisorLostError.

    With `job`, a descriptor from which a plan is read, in a world of its own; with `kernel`, the words that
    start a kernel of the virtual engine, there.
    """
    # Some that start programs ignore it, and then wait() gives no status of children.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Blocked first: whatever comes is then taken up below, and the supervisor unblocks its command itself.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON | {signal.SIGCHLD})
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    # The command inherits what it would have inherited; Python's own descriptors close themselves.
    mode = ["--exec"] if job is None else ["--shell", str(job)]
    on = [] if kernel is None else ["--kernel", *kernel]
    supervisor = subprocess.Popen([program, *mode, str(writing), *on, "--", *command], close_fds=False)
    os.close(writing)
    records: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(reading, records), daemon=True).start()
    return _attend(supervisor, records, in_world=job is not None, virtual=kernel is not None)


def _read(reading: int, records: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    """Hands records on as they come, None after the last, and wakes the main thread for each."""
    with os.fdopen(reading, encoding="utf-8") as lines:
        for line in lines:
            records.put(json.loads(line))
            os.kill(os.getpid(), signal.SIGCHLD)
    records.put(None)
    os.kill(os.getpid(), signal.SIGCHLD)


def _attend(
    supervisor: "subprocess.Popen[bytes]",
    records: "queue.SimpleQueue[dict[str, Any] | None]",
    *,
    in_world: bool,
    virtual: bool,
) -> dict[str, Any]:
    """Passes signals on and follows the command's stops until it has ended.

    In virtual time signals are for the kernel, which ends with them.
    """
    pid = None
    last_signal = None
    while True:
        happened = signal.sigwaitinfo(PASSED_ON | {signal.SIGCHLD})
        if happened.si_signo != signal.SIGCHLD:
            # What the terminal sends, the command gets itself.
            sent = happened.si_code <= SI_USER
            if virtual and happened.si_signo == signal.SIGTSTP:
                os.kill(os.getpid(), signal.SIGSTOP)
                continue
            last_signal = happened.si_signo
            if sent and not _is_below(happened.si_pid, supervisor.pid):
                os.kill(supervisor.pid, happened.si_signo)
            continue
        while not records.empty():
            record = records.get()
            if record is None:
                # What was in a world has ended with it, and its numbers mean nothing here.
                _outwait(None if in_world else pid)
                if virtual and last_signal is not None:
                    end_like(None, last_signal)
                raise SupervisorLostError
            if record["type"] == "started":
                pid = record["pid"]
            elif record["type"] == "failed":
                supervisor.wait()
                raise CommandError(record["message"], record["remedy"], record["code"])
            elif record["type"] == "stopped":
                # The shell is to see it; once it continues us, the command goes on as well.
                os.kill(os.getpid(), signal.SIGSTOP)
                os.kill(supervisor.pid, signal.SIGCONT)
            elif record["type"] == "ended":
                # The supervisor may go on, for what the command left running; a world is taken down.
                supervisor.returncode = supervisor.wait() if in_world else 0
                return record


def _is_below(pid: int, ancestor: int) -> bool:
    """Return True if a process is a descendant. `kill 0` of a command reaches all of us."""
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        pid = int(status.rpartition(")")[2].split()[1])
    return False


def _outwait(pid: int | None) -> None:
    """Waits for the command, which goes on without us and has the terminal."""
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        select.select([handle], [], [])
        os.close(handle)


def end_like(exit_code: int | None, number: int | None) -> NoReturn:
    """Ends as the command ended: by its exit code, or by the same signal."""
    if number is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    raise SystemExit(exit_code)
