"""Run one process of the world program, which emulates networks: send its jobs and parse its output."""
# The module receives bytes and times as arguments and never waits, so that tests can produce every fault.

import os
import signal
import subprocess
from base64 import b64decode
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fastopen.common.files import filling, temporary_file
from fastopen.contract import (
    EndRecord,
    ErrorRecord,
    Job,
    LoadRecord,
    PacketsRecord,
    TransactionsRecord,
    WorldRecord,
    parse_record,
)
from fastopen.contract.records import ContractVersionError, RecordError
from fastopen.engines.base import Event, JobEnded, JobStarted, PacketFile, Reported
from fastopen.engines.programs import VARIABLE

LINE_LIMIT: Final = 256 * 2**20
STDERR_KEPT: Final = 8192
# The time that a program has to end after its last record.
EXIT_TIMEOUT_S: Final = 30.0


class WorldProcess:
    """A process of the program that emulates networks and loads pages. It runs one job after another."""

    def __init__(
        self,
        command: Sequence[str | Path],
        jobs: Sequence[Job],
        attempt: int,
        inherited: tuple[int, ...],
        now: float,
    ) -> None:
        self.not_begun = deque(jobs)
        self.attempt = attempt
        self.core: int | None = None
        self._begin_next()
        self.error: ErrorRecord | None = None
        self.violation: str | None = None
        self.ended = False
        self._packets: dict[str, PacketFile] = {}  # by load
        self._rest = b""
        self._stderr = b""
        self.deadline = now + self._timeout_s
        # With a pipe, writing would block this process if the program did not read.
        with temporary_file() as stdin:
            with filling():
                for job in jobs:
                    stdin.write(job.model_dump_json().encode() + b"\n")
                stdin.seek(0)
            # In its own process group, the world does not receive Ctrl-C, so fastopen can end it in order.
            self.process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=inherited,
                process_group=0,
            )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdout = self.process.stdout.fileno()
        self.stderr = self.process.stderr.fileno()
        for descriptor in (self.stdout, self.stderr):
            os.set_blocking(descriptor, False)

    def _begin_next(self) -> None:
        self.job = self.not_begun.popleft()
        self.missing = [load.id for load in self.job.loads]
        self._timeout_s = self.job.load_timeout_us / 1e6 + self.job.client.type.timeout_margin_s

    def receive(self, descriptor: int, data: bytes, now: float) -> list[Event]:
        """Process `data`, read from the pipe `descriptor` of the program's stdout or stderr. Return the
        events that the data reports. Each line of stdout restarts the timeout at `now` (time.monotonic)."""
        if descriptor == self.stderr:
            self._stderr = (self._stderr + data)[-STDERR_KEPT:]
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_LIMIT:
            self.violation = "wrote a line without end"
        events: list[Event] = []
        for line in lines:
            if self.violation is None and not self.over:
                self.deadline = now + self._timeout_s
                events += self._record(line)
                if self.over:
                    self.deadline = now + EXIT_TIMEOUT_S
        return events

    def timed_out(self) -> None:
        """Record a timeout: the program wrote no output in time. Do nothing if it already ended or failed."""
        if not self.over:
            self.violation = f"wrote nothing for {self._timeout_s:.0f} s"

    @property
    def over(self) -> bool:
        """Return True if the program ended its jobs, reported an error, timed out or wrote invalid data."""
        return self.ended or self.error is not None or self.violation is not None

    def _record(self, line: bytes) -> list[Event]:
        try:
            record = parse_record(line)
        except ContractVersionError as error:
            remedy = "build or install fastopen again, so that both halves are of one version"
            self.error = ErrorRecord(
                type="error", job=self.job.id, fault="machine", message=str(error), remedy=remedy
            )
            return []
        except RecordError as error:
            self.violation = f"wrote an invalid record: {line[:80].decode(errors='replace')!r} ({error})"
            return []
        if record.job != self.job.id and not isinstance(record, ErrorRecord):
            self.violation = f"wrote a record of another job, {record.job!r}"
        elif isinstance(record, WorldRecord):
            return [Reported(record, line.decode())]
        elif isinstance(record, LoadRecord | TransactionsRecord):
            if record.id in self.missing:
                self.missing.remove(record.id)
                return [Reported(record, line.decode(), self._packets.pop(record.id, None))]
            self.violation = f"wrote a load that is not due, {record.id!r}"
        elif isinstance(record, PacketsRecord):
            self._add_packets(record)
        elif isinstance(record, EndRecord):
            if self.not_begun and not self.missing:
                done = JobEnded(self.job.id, None)
                self._begin_next()
                return [done, JobStarted(self.job.id, self.attempt)]
            self.ended = True
        else:
            self.error = record
        return []

    def _add_packets(self, record: PacketsRecord) -> None:
        try:
            piece = b64decode(record.pcapng, validate=True)
        except ValueError:
            self.violation = f"wrote packets of {record.id!r} that are not base64"
            return
        before = self._packets.get(record.id, PacketFile(b"", 0))
        self._packets[record.id] = PacketFile(before.pcapng + piece, record.dropped)

    def reason(self) -> str | None:
        """Return the reason why the program failed; None if it did not fail. The process must have ended."""
        if self.error is not None:
            return self.error.message
        if self.violation is not None:
            return f"the world program {self.violation}{self._last_line()}"
        if self.missing:
            code = self.process.returncode
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            hint = f"; unset {VARIABLE}, or correct it" if code == 0 and VARIABLE in os.environ else ""
            return f"the world program {how} before its loads were done{hint}{self._last_line()}"
        return None

    def _last_line(self) -> str:
        lines = self._stderr.decode(errors="replace").strip().splitlines()
        return f"; its last line: {lines[-1].strip()}" if lines else ""

    def close(self) -> None:
        """Kill the program if it is still running, reap it, and close its pipes."""
        with self.process:
            self.process.kill()
