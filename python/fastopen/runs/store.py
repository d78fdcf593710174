"""Write a run into its store, an SQLite database on disk or in memory, and commit each load immediately."""

import contextlib
import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from fastopen.common.closing import on_error
from fastopen.common.errors import InputError, MachineError
from fastopen.contract import InvalidKind, LoadRecord, WorldRecord
from fastopen.engines.base import ATTEMPTS_BY_KIND, PacketFile
from fastopen.experiments import Plan, PlannedJob, repeats_to_the_byte
from fastopen.runs import database as files
from fastopen.runs.chain import handshakes_in_a_row_ns
from fastopen.runs.database import FILE
from fastopen.runs.reader import RunReader
from fastopen.runs.rows import keep_packets


@dataclass(frozen=True, slots=True)
class Attempts:
    """The number of attempts made at a load. `settled` is True if no more are needed or permitted."""

    made: int
    settled: bool


NONE: Final = Attempts(0, settled=False)  # of a load that has not been run yet
# The shortest time between two flushes of commits to the disk.
FLUSH_INTERVAL_S: Final = 0.1


class DiskSync:
    """A thread that flushes a file to the disk soon after each call of `wake`, which returns immediately.

    If the machine stops before the flush, the last loads are lost, and resuming the run repeats them."""

    # In virtual time, a flush can take as long as a load, so the run must not wait for it.

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._dirty = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disk-sync", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._dirty.set()

    def close(self) -> None:
        """Stop the thread, and flush the file."""
        self._closing.set()
        self._dirty.set()
        self._thread.join()
        self._flush()
        os.close(self._descriptor)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._dirty.wait()
            self._dirty.clear()
            self._flush()
            self._closing.wait(FLUSH_INTERVAL_S)

    def _flush(self) -> None:
        # If the disk fails here, the next commit fails, too, and reports the error.
        with contextlib.suppress(OSError):
            os.fdatasync(self._descriptor)


class RunStore(RunReader):
    """A run that is open for reading, and also for writing if `create` or `resume` returned it."""

    def __init__(
        self, database: sqlite3.Connection, folder: Path | None, lock: files.FolderLock | None = None
    ) -> None:
        """Use an open database. `lock` is the lock on `folder`; None if the run is in memory or read-only."""
        super().__init__(database, folder)
        self._lock = lock
        self._opened = None if lock is None or folder is None else (folder / FILE).stat()
        self._disk: DiskSync | None = None

    @classmethod
    def create(
        cls,
        folder: Path | None,
        plan: Plan,
        environment: dict[str, Any],
        options: dict[str, Any] | None = None,
    ) -> Self:
        """Create a run in `folder`, or in memory if it is None, and store the plan in it.

        `environment` describes the machine. `options` are the options of the command, as JSON values, that
        are needed to resume the run. Raises InputError if the folder cannot be used."""
        fill = partial(write_plan, plan=plan, environment=environment, options=options or {})
        if folder is None:
            database = sqlite3.connect(":memory:")
            files.create_tables(database, fill)
            return cls(database, None)
        database, lock = files.create(folder, fill)
        return cls(database, folder, lock)

    @classmethod
    def resume(cls, folder: Path) -> Self:
        """Open a stored run to continue it. Raises InputError if it is damaged or already being written."""
        cls.open(folder).close()  # raises InputError for a folder that is not a run
        lock = files.FolderLock(folder)
        with on_error(lock.close):
            return cls(files.open_for_writing(folder), folder, lock)

    @classmethod
    def absorb_log(cls, folder: Path) -> None:
        """Merge the write-ahead log of a killed process, if any, into the run's file. Ignore errors."""
        if (folder / f"{FILE}-wal").exists():
            with contextlib.suppress(InputError, MachineError):
                cls.resume(folder).close()

    def close(self) -> None:
        """Flush the run to the disk, end its write-ahead log, and release the lock on its folder."""
        if self._disk is not None:
            self._disk.close()
        if self._lock is not None:
            # Without a write-ahead log, the run can be read from a read-only disk. SQLite refuses to leave
            # this mode while another process reads.
            with contextlib.suppress(sqlite3.OperationalError):
                self._database.execute(files.WITHOUT_JOURNAL)
        super().close()
        if self._lock is not None:
            self._lock.close()

    def pending(self) -> dict[str, list[str]]:
        """Map the id of each unfinished job to the ids of its loads to run or to repeat, in planned order."""
        attempts = self.attempts()
        owed: dict[str, list[str]] = {}
        with self._parsing("the plan"):
            for job, loads in self.rows_of("SELECT id, loads FROM jobs ORDER BY number"):
                missing = [load for load in json.loads(loads) if not attempts.get((job, load), NONE).settled]
                if missing:
                    owed[job] = missing
        return owed

    def attempts(self) -> dict[tuple[str, str], Attempts]:
        """Map (job id, load id) to the attempts made at this load. Loads without attempts are left out."""
        found: dict[tuple[str, str], Attempts] = {}
        experiment = self.experiment()
        exact = {cell.index for cell in self.cells() if repeats_to_the_byte(experiment, cell)}
        # Rows come in the order of attempts, and the last attempt decides.
        rows = self.rows_of(
            "SELECT jobs.id, loads.id, attempt, cell, valid, invalid FROM loads"
            " JOIN jobs ON jobs.number = loads.job ORDER BY attempt"
        )
        with self._parsing("a load"):
            for job, load, attempt, cell, valid, invalid in rows:
                before = found.get((job, load), NONE).made
                if attempt != before + 1:
                    raise ValueError(f"attempt {attempt} of {job} {load} follows attempt {before}")
                settled = bool(valid) or attempt >= attempts_for(
                    (kind for kind, _ in json.loads(invalid)), exact=cell in exact
                )
                found[job, load] = Attempts(attempt, settled)
        return found

    def add_world(self, record: WorldRecord, raw: str) -> None:
        """Store the record of an emulated network; `raw` is its JSON. Raises MachineError on failure."""
        rtt = record.measured.rtt_us
        with self._writing() as database:
            database.execute(
                "INSERT INTO worlds (job, rtt_us_asked, rtt_us_measured, record_zlib)"
                " SELECT number, ?, ?, ? FROM jobs WHERE id = ?",
                (rtt.asked, rtt.net, zlib.compress(raw.encode()), record.job),
            )

    def add_load(
        self, planned: PlannedJob, record: LoadRecord, raw: str, packets: PacketFile | None = None
    ) -> None:
        """Store a finished load. Once the method has returned, the load is not lost if this process ends.

        `planned` is the job of the load, and `raw` is the record as JSON. `packets` are written into a
        separate file, if the run has a folder. Raises MachineError if the load cannot be written."""
        reasons = json.dumps([[reason.kind, reason.detail] for reason in record.invalid])
        row = (
            *(record.id, record.id, planned.cells[record.id], planned.repeat, record.valid),
            *(record.plt_ns, len(record.requests), record.connection_count, record.syn_data_connections),
            *(handshakes_in_a_row_ns(planned.job.page, record), record.retransmitted),
            *(record.started_unix_ms, reasons, record.job),
        )
        with self._writing() as database:
            added = database.execute(
                "INSERT INTO loads (job, id, attempt, cell, repeat, valid, plt_ns, requests, connections,"
                " syn_data_connections, handshakes_ns, retransmitted, started_unix_ms, invalid)"
                " SELECT number, ?, 1 + (SELECT count(*) FROM loads WHERE job = jobs.number AND id = ?),"
                " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM jobs WHERE jobs.id = ?",
                row,
            )
            database.execute(
                "INSERT INTO records VALUES (?, ?)", (added.lastrowid, zlib.compress(raw.encode()))
            )
            if packets is not None and self.folder is not None and added.lastrowid is not None:
                keep_packets(self.folder, added.lastrowid, record.job, record.id, packets.pcapng)

    def add_fault(self, job: str, fault: str) -> None:
        with self._writing() as database:
            database.execute("INSERT INTO faults SELECT number, ? FROM jobs WHERE id = ?", (fault, job))

    def add_jobs(self, jobs: Iterable[PlannedJob]) -> None:
        """Append jobs to the stored plan, and set the run's status to `running`."""
        with self._writing() as database:
            _write_jobs(database, jobs)
            set_fact(database, "status", "running")

    def drop_undone(self) -> None:
        """Remove unfinished page loads from the stored plan, because the run has reached its time limit. Keep
        jobs of the first repeat that have no finished load: resuming the run executes them."""
        with self._writing() as database:
            rows = database.execute(
                "SELECT number, repeat, loads, (SELECT json_group_array(DISTINCT loads.id) FROM loads"
                " WHERE loads.job = jobs.number) FROM jobs"
            ).fetchall()
            for number, repeat, loads, done in rows:
                left = [load for load in json.loads(loads) if load in json.loads(done)]
                if left:
                    database.execute("UPDATE jobs SET loads = ? WHERE number = ?", (json.dumps(left), number))
                elif repeat > 0:
                    database.execute("DELETE FROM worlds WHERE job = ?", (number,))
                    database.execute("DELETE FROM faults WHERE job = ?", (number,))
                    database.execute("DELETE FROM jobs WHERE number = ?", (number,))

    def add_environment(self, environment: dict[str, Any]) -> None:
        """Store the environment in which the run is resumed, and set the run's status to `running`."""
        first = self.environment
        with self._writing() as database:
            resumed = [*first.get("resumed", []), environment]
            set_fact(database, "environment", {**first, "resumed": resumed})
            set_fact(database, "status", "running")

    def set_label(self, text: str) -> None:
        with self._writing() as database:
            set_fact(database, "label", text)

    def set_status(self, status: str) -> None:
        with self._writing() as database:
            set_fact(database, "status", status)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with files.writing(self.place), self._database as database:
                yield database
        finally:
            # Writing into a removed file may succeed. If writing fails, report the removal as the reason.
            if self._opened is not None and self.folder is not None:
                files.check_in_place(self.folder, self._opened)
        if self._disk is not None:
            self._disk.wake()
        elif self.folder is not None and (log := self.folder / f"{FILE}-wal").exists():
            self._disk = DiskSync(log)  # the log exists after the first commit


def attempts_for(kinds: Iterable[str], *, exact: bool) -> int:
    """Return the permitted number of attempts at a page load that is invalid for reasons of these `kinds`.

    It is 3 or 10, depending on the kinds, if the machine caused all these reasons, for example because it was
    busy; otherwise 1. For deterministic loads (`exact`), it is 3 if all are faults of the network, else 1."""
    again = {InvalidKind.FAULT: ATTEMPTS_BY_KIND[InvalidKind.FAULT]} if exact else ATTEMPTS_BY_KIND
    return min((again.get(kind, 1) for kind in map(InvalidKind, kinds)), default=1)


def write_plan(
    database: sqlite3.Connection, plan: Plan, environment: dict[str, Any], options: dict[str, Any]
) -> None:
    """Write the plan, environment and options of a new run into its database. Set its status to `running`."""
    set_fact(database, "experiment", plan.experiment.model_dump(mode="json"))
    set_fact(database, "status", "running")
    set_fact(database, "environment", environment)
    set_fact(database, "options", options)
    database.executemany(
        "INSERT INTO pages VALUES (?, ?, ?, ?)",
        ((page.name, n, page.digest(), page.model_dump_json()) for n, page in enumerate(plan.pages)),
    )
    database.executemany(
        "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?)",
        ((c.index, c.page, c.network, c.setup, c.arm.name, c.engine) for c in plan.cells),
    )
    _write_jobs(database, plan.jobs)


def _write_jobs(database: sqlite3.Connection, jobs: Iterable[PlannedJob]) -> None:
    database.executemany(
        "INSERT INTO jobs (id, page, network, setup, engine, repeat, seed, loads)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                *(p.job.id, p.comparison.page, p.comparison.network, p.comparison.setup),
                *(p.comparison.engine, p.repeat, p.job.seed, json.dumps([load.id for load in p.job.loads])),
            )
            for p in jobs
        ),
    )


def set_fact(database: sqlite3.Connection, name: str, value: object) -> None:
    """Store a JSON value under `name` in the table `facts`. Replace an earlier value."""
    database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))
