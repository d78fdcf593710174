"""Run a command, report its use of TFO, and end with its exit code or signal. Start this with `python -m`.

Signals, suspension (Ctrl-Z) and the exit code work as if the shell had started the command. There are three
processes: this one, which the shell started; its child, the supervisor, a Rust program that turns TFO on; and
the supervisor's child, the command. If the supervisor were not the command's parent, the security module Yama
would deny it access to the command's sockets. All three are in one process group, which gets the terminal's
signals."""

import contextlib
import json
import os
import queue
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from rich.console import Console
from rich.text import Text

from fastopen.apps.programs.front.words import IN_WORLD, write_report
from fastopen.common.errors import MachineError
from fastopen.common.files import write_atomic

FORMAT: Final = "fastopen-exec/1"
SUPERVISOR_LOST: Final = 1
# The signals to pass on to the command. All other signals keep their usual effect.
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


def main(settings: str, program: str, *command: str) -> None:
    """Run `command`, report its use of TFO, and end this process with the command's exit code or signal.

    `settings` is a JSON object. Its key `json` selects a JSON report, and `quiet` no report. `report` and
    `pcap` are paths of output files, or null. `job` and `kernel`, if present, are arguments of
    `run_supervised`. `program` is the Rust program that supervises the command or emulates its network."""
    asked = json.loads(settings)
    target = Console(stderr=True, highlight=False, emoji=False)
    files = [Path(asked[name]) for name in ("report", "pcap") if asked[name] is not None]
    try:
        ended = run_supervised(Path(program), command, asked.get("job"), asked.get("kernel"))
    except CommandError as failed:
        _remove_empty(files)
        if failed.signal is None:
            _complain(target, failed)
        end_like(failed.code, failed.signal)
    # Arguments that are not UTF-8 contain surrogates, which cannot be written as UTF-8.
    words = [word.encode(errors="surrogateescape").decode(errors="replace") for word in command]
    del ended["type"]
    form = FORMAT if asked.get("job") is None else IN_WORLD
    document = {"format": form, "command": words, **ended}
    if asked["report"] is not None:
        try:
            write_atomic(Path(asked["report"]), json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:  # the exit code remains the command's
            _complain(target, f"{asked['report']}: cannot be written: {error.strerror}")
    if "error" in ended:
        _remove_empty(files)
        _complain(target, ended["error"])
    if asked["json"]:
        sys.stderr.write(json.dumps(document) + "\n")
    elif not asked["quiet"]:
        write_report(document, target)
    end_like(document["exit_code"], document["signal"])


def _remove_empty(files: Sequence[Path]) -> None:
    """Remove the empty files among `files`, which were created before the command ran."""
    for path in files:
        with contextlib.suppress(OSError):
            if path.is_file() and not path.stat().st_size:
                path.unlink()


def _complain(target: Console, message: object) -> None:
    target.print(Text.assemble(("error: ", "bold red"), str(message)), soft_wrap=True)


class CommandError(MachineError):
    """Raised if a command cannot be run, or if the Rust program that supervises it was killed. `code` is the
    exit code to end with: 126 or 127, as with env(1), 3 if this machine is at fault, or SUPERVISOR_LOST. If
    `signal` is not None, end by this signal instead. In virtual time, it is the last signal that this process
    got before the supervisor was killed, such as SIGINT."""

    def __init__(self, message: str, remedy: str, code: int, number: int | None = None) -> None:
        super().__init__(message, remedy)
        self.code, self.signal = code, number


def run_supervised(
    program: Path, command: Sequence[str], job: int | None, kernel: Sequence[str] | None
) -> dict[str, Any]:
    """Run a command, and return a JSON report on its connections and its exit code.

    `program` is the path of the Rust program that supervises the command. `job` is the descriptor of a file
    with the settings of an emulated network, in which to run the command; None for the real network. `kernel`
    is the command line of a kernel for virtual time; None for real time. Raises CommandError if the command
    cannot be run, or if the supervisor was killed."""
    # This process may have been started with SIGCHLD ignored. Then wait() would not return a child's status.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Block the signals, so that `attend` can wait for them. The supervisor unblocks them for its command.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON | {signal.SIGCHLD})
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    # The command inherits the same descriptors as if run directly. Python's own descriptors close on execve.
    mode = ["--exec"] if job is None else ["--shell", str(job)]
    on = [] if kernel is None else ["--kernel", *kernel]
    supervisor = subprocess.Popen([program, *mode, str(writing), *on, "--", *command], close_fds=False)
    os.close(writing)
    records: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(reading, records), daemon=True).start()
    return _Session(supervisor, in_world=job is not None, virtual=kernel is not None).attend(records)


def _read(reading: int, records: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    """Read JSON lines from the pipe `reading` into the queue `records`, then add None. After each
    addition, send SIGCHLD to this process, because the main thread waits for signals."""
    with os.fdopen(reading, encoding="utf-8") as lines:
        for line in lines:
            records.put(json.loads(line))
            os.kill(os.getpid(), signal.SIGCHLD)
    records.put(None)
    os.kill(os.getpid(), signal.SIGCHLD)


class _Session:
    """A running command, and its supervisor, the Rust program that started the command and reports on it."""

    def __init__(self, supervisor: "subprocess.Popen[bytes]", *, in_world: bool, virtual: bool) -> None:
        self._supervisor = supervisor
        self._in_world, self._virtual = in_world, virtual
        self._pid: int | None = None
        self._last_signal: int | None = None
        # The report on the command; empty until it ends.
        self._report: dict[str, Any] = {}

    def attend(self, records: "queue.SimpleQueue[dict[str, Any] | None]") -> dict[str, Any]:
        """Wait until the command ends, and return the report on it. Raises the errors of `run_supervised`.

        Meanwhile, pass signals on to the command. If it is suspended (Ctrl-Z), suspend this process too.
        `records` are the supervisor's messages. None marks the end of the messages."""
        while True:
            happened = signal.sigwaitinfo(PASSED_ON | {signal.SIGCHLD})
            if happened.si_signo != signal.SIGCHLD:
                self._pass_on(happened)
                continue
            while not records.empty():
                record = records.get()
                ended = self._on_end() if record is None else self._on_record(record)
                if ended is not None:
                    return ended

    def _pass_on(self, happened: signal.struct_siginfo) -> None:
        if self._virtual and happened.si_signo == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        self._last_signal = happened.si_signo
        # The command itself gets signals from the terminal, and from descendants of the supervisor that send
        # them to the process group. Pass on only signals that other processes send to this one.
        if happened.si_code <= SI_USER and not _is_below(happened.si_pid, self._supervisor.pid):
            os.kill(self._supervisor.pid, happened.si_signo)

    def _on_record(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Process a message of the supervisor. Return the report on the command if no more messages are
        needed, otherwise None. Raises CommandError if the command could not be run."""
        match record["type"]:
            case "started":
                self._pid = record["pid"]
            case "failed":
                self._supervisor.wait()
                failed = CommandError(record["message"], record["remedy"], record["code"])
                if not self._report:
                    raise failed
                # The command ran, but exceeded its time limit, or its output, packets or files are lost.
                return self._report | {"exit_code": failed.code, "signal": None, "error": str(failed)}
            case "stopped":
                # Stop this process, as the shell expects. When the shell continues it, continue the command.
                os.kill(os.getpid(), signal.SIGSTOP)
                os.kill(self._supervisor.pid, signal.SIGCONT)
            case "captured":
                self._report["packets_dropped"] = record["dropped"]
            case "servers_failed":
                self._report["servers_failed"] = record["servers"]
            case "ended" if self._in_world:
                # Records about the world's packets and files follow, or the reason why there are none.
                self._report = record
            case "ended":
                # Do not wait: the supervisor may continue for processes that the command left running.
                self._supervisor.returncode = 0
                return record
        return None

    def _on_end(self) -> dict[str, Any]:
        if self._report:
            self._supervisor.wait()
            return self._report
        # A command in an emulated network has ended with the supervisor, and its id belongs to another
        # namespace. Any other command may still run and use the terminal: wait for its end.
        if not self._in_world and self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                handle = os.pidfd_open(self._pid)
                select.select([handle], [], [])
                os.close(handle)
        message = (
            "the supervisor was killed: from then on every connect, listen and getpeername of the command "
            "failed (ENOSYS); its connections and its exit code are unknown"
        )
        raise CommandError(message, "", SUPERVISOR_LOST, self._last_signal if self._virtual else None)


def _is_below(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        pid = int(status.rpartition(")")[2].split()[1])
    return False


def end_like(exit_code: int | None, number: int | None) -> NoReturn:
    """End this process like the command: by the signal `number`, or with `exit_code` if `number` is None."""
    if number is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    raise SystemExit(exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
