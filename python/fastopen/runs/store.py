"""The run store: one SQLite file in the run's folder, or one in memory where nobody wants to keep it.

Each finished load is committed before anything else happens. What tables need is in columns; the whole record
is kept as the JSON that the world wrote.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from fastopen.contract import LoadRecord, WorldRecord
from fastopen.errors import InputError, MachineError
from fastopen.experiments import ARMS, Cell, Experiment, Plan, PlannedJob
from fastopen.pages import Page
from fastopen.runs.chain import handshakes_in_a_row_ns

FILE: Final = "run.sqlite"
APPLICATION_ID: Final = 0x66_6F_70_6E  # "fopn"
VERSION: Final = 2

_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE pages (
    name TEXT PRIMARY KEY, position INTEGER NOT NULL, digest TEXT NOT NULL, page TEXT NOT NULL
) STRICT;
CREATE TABLE cells (
    id INTEGER PRIMARY KEY, page TEXT NOT NULL REFERENCES pages, network INTEGER NOT NULL,
    setup INTEGER NOT NULL, arm TEXT NOT NULL, engine TEXT NOT NULL
) STRICT;
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, position INTEGER NOT NULL, page TEXT NOT NULL REFERENCES pages,
    network INTEGER NOT NULL, setup INTEGER NOT NULL, engine TEXT NOT NULL,
    repeat INTEGER NOT NULL, seed INTEGER NOT NULL, loads TEXT NOT NULL,
    fault TEXT, ended INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE worlds (
    job TEXT NOT NULL REFERENCES jobs, rtt_us_asked INTEGER NOT NULL, rtt_us_measured INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE TABLE loads (
    job TEXT NOT NULL REFERENCES jobs, id TEXT NOT NULL, cell INTEGER NOT NULL REFERENCES cells,
    repeat INTEGER NOT NULL, valid INTEGER NOT NULL, plt_ns INTEGER, connections INTEGER NOT NULL,
    syn_data_connections INTEGER NOT NULL, handshakes_ns INTEGER NOT NULL, retransmitted INTEGER NOT NULL,
    invalid TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (job, id)
) STRICT;
"""


@dataclass(frozen=True)
class LoadRow:
    """What tables need of a load. `invalid` are (kind, detail) pairs."""

    job: str
    cell: int
    repeat: int
    valid: bool
    plt_ns: int | None
    connections: int
    syn_data_connections: int
    handshakes_ns: int
    """The longest sum of handshake times in a row."""
    retransmitted: int
    """Segments, by both ends."""
    invalid: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class WorldRow:
    """A world's network: RTT in microseconds, as asked and as measured net of the probe itself."""

    page: str
    network: int
    rtt_us_asked: int
    rtt_us_measured: int


class RunStore:
    """A run on disk or in memory. A context manager."""

    def __init__(self, database: sqlite3.Connection, place: str) -> None:
        self._database = database
        self._place = place

    @classmethod
    def create(cls, folder: Path | None, plan: Plan, environment: dict[str, Any]) -> Self:
        """A new run that holds the plan. Raises InputError where the folder is of no use."""
        if folder is not None:
            _claim(folder)
        store = cls(_connect(":memory:" if folder is None else folder / FILE), str(folder or "memory"))
        with store._database as database:
            database.executescript(
                f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + _SCHEMA
            )
            store._write_plan(plan)
            store._set_fact("environment", environment)
        return store

    @classmethod
    def open(cls, folder: Path) -> Self:
        """A run that was kept, to be read. Raises InputError where there is none that can be read."""
        path = folder / FILE
        if not path.is_file():
            raise InputError("not a kept run: it has no " + FILE, str(folder))
        try:
            database = _connect(path)
            marks = [
                database.execute(f"PRAGMA {mark}").fetchone()[0]
                for mark in ("application_id", "user_version")
            ]
        except sqlite3.DatabaseError as error:
            raise InputError(f"damaged: {error}", str(path)) from None
        if marks[0] != APPLICATION_ID:
            raise InputError("not a run of fastopen", str(path))
        if marks[1] != VERSION:
            raise InputError(f"version {marks[1]} of the run store; this is version {VERSION}", str(path))
        return cls(database, str(folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def add_world(self, record: WorldRecord, raw: str) -> None:
        """Keeps a world that was built. Raises MachineError where it cannot."""
        rtt = record.measured.rtt_us
        with self._writing() as database:
            database.execute("INSERT INTO worlds VALUES (?, ?, ?, ?)", (record.job, rtt.asked, rtt.net, raw))

    def add_load(self, planned: PlannedJob, record: LoadRecord, raw: str) -> None:
        """Keeps a finished load, on disk when this returns. Raises MachineError where it cannot."""
        reasons = json.dumps([[reason.kind, reason.detail] for reason in record.invalid])
        row = (
            *(record.job, record.id, planned.cells[record.id], planned.repeat, record.valid, record.plt_ns),
            *(len(record.connections), record.syn_data_connections),
            *(handshakes_in_a_row_ns(planned.job.page, record), record.retransmitted, reasons, raw),
        )
        with self._writing() as database:
            database.execute("INSERT INTO loads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def end_job(self, job: str, fault: str | None) -> None:
        """Notes that nothing more comes of a job, and what went wrong with it."""
        with self._writing() as database:
            database.execute("UPDATE jobs SET ended = 1, fault = ? WHERE id = ?", (fault, job))

    def set_status(self, status: str) -> None:
        """`running`, `finished`, `interrupted` or `stopped`."""
        with self._writing():
            self._set_fact("status", status)

    @property
    def status(self) -> str:
        """See set_status."""
        return str(self._fact("status"))

    @property
    def environment(self) -> dict[str, Any]:
        """What the run ran on."""
        environment: dict[str, Any] = self._fact("environment")
        return environment

    def experiment(self) -> Experiment:
        """What was asked."""
        return Experiment.model_validate_json(json.dumps(self._fact("experiment")))

    def cells(self) -> list[Cell]:
        """In the order of the table."""
        rows = self._database.execute("SELECT id, page, network, setup, arm, engine FROM cells ORDER BY id")
        return [
            Cell(index, page, network, setup, ARMS[arm], engine)
            for index, page, network, setup, arm, engine in rows
        ]

    def pages(self) -> dict[str, Page]:
        """Name to page, in the order in which they were given."""
        rows = self._database.execute("SELECT name, page FROM pages ORDER BY position")
        return {name: Page.model_validate_json(page) for name, page in rows}

    def loads(self) -> list[LoadRow]:
        """Every load, without its record, in the order in which they were written."""
        rows = self._database.execute(
            "SELECT job, cell, repeat, valid, plt_ns, connections, syn_data_connections, handshakes_ns,"
            " retransmitted, invalid"
            " FROM loads ORDER BY rowid"
        )
        return [
            LoadRow(job, cell, repeat, bool(valid), plt, total, syn, handshakes, again, _reasons(invalid))
            for job, cell, repeat, valid, plt, total, syn, handshakes, again, invalid in rows
        ]

    def worlds(self) -> list[WorldRow]:
        """Every world that was measured."""
        rows = self._database.execute(
            "SELECT page, network, rtt_us_asked, rtt_us_measured"
            " FROM worlds JOIN jobs ON jobs.id = worlds.job"
        )
        return [WorldRow(*row) for row in rows]

    def load_record(self, job: str, load: str) -> LoadRecord:
        """The whole record of one load. Raises KeyError."""
        row = self._database.execute(
            "SELECT record FROM loads WHERE job = ? AND id = ?", (job, load)
        ).fetchone()
        if row is None:
            raise KeyError(job, load)
        return LoadRecord.model_validate_json(row[0])

    def _write_plan(self, plan: Plan) -> None:
        self._set_fact("experiment", plan.experiment.model_dump(mode="json"))
        self._set_fact("status", "running")
        self._database.executemany(
            "INSERT INTO pages VALUES (?, ?, ?, ?)",
            ((page.name, n, page.digest(), page.model_dump_json()) for n, page in enumerate(plan.pages)),
        )
        self._database.executemany(
            "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?)",
            ((c.index, c.page, c.network, c.setup, c.arm.name, c.engine) for c in plan.cells),
        )
        self._database.executemany(
            "INSERT INTO jobs (id, position, page, network, setup, engine, repeat, seed, loads)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    p.job.id,
                    n,
                    p.comparison.page,
                    p.comparison.network,
                    p.comparison.setup,
                    p.comparison.engine,
                    p.repeat,
                    p.job.seed,
                    json.dumps([load.id for load in p.job.loads]),
                )
                for n, p in enumerate(plan.jobs)
            ),
        )

    def _set_fact(self, name: str, value: object) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def _fact(self, name: str) -> Any:
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise InputError(f"damaged: it has no {name}", self._place)
        return json.loads(row[0])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._database as database:
                yield database
        except sqlite3.OperationalError as error:
            message = f"{self._place}: the run cannot be written: {error}"
            raise MachineError(message, "make room there, or name another folder") from None


def _reasons(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((kind, detail) for kind, detail in json.loads(text))


def _connect(path: Path | str) -> sqlite3.Connection:
    return sqlite3.connect(path)


def _claim(folder: Path) -> None:
    """Makes the folder, which must be new or empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError("not empty", str(folder), "name a new folder for the run")
        (folder / FILE).touch()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(folder)) from None
