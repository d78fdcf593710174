"""Read a run: its experiment and pages, a row of main results for each load, and full records one by one."""

import json
import shlex
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import ValidationError

from fastopen.common.closing import Closing, collector_paused, on_error
from fastopen.common.errors import InputError, collected
from fastopen.common.pydantic_errors import input_errors
from fastopen.contract import LoadRecord, WorldRecord
from fastopen.experiments import ARMS, Cell, Comparison, EngineName, Experiment, Shard
from fastopen.pages import Page
from fastopen.runs import database as files
from fastopen.runs.database import Limits, damaged
from fastopen.runs.facts import Environment, Facts, Options
from fastopen.runs.rows import SQL_ORDERS, Listing, LoadRow

_PAGES = "SELECT name, page FROM pages ORDER BY position"
_CELLS = "SELECT id, page, network, setup, arm, engine FROM cells ORDER BY id"
_LOADS = """
SELECT jobs.id, cell, loads.repeat, valid, plt_ns, connections, syn_data_connections, handshakes_ns,
    retransmitted, invalid, loads.id, attempt,
    (loads.job, loads.id, attempt + 1) IN (SELECT job, id, attempt FROM loads WHERE attempt > 1),
    requests, started_unix_ms, loads.number{record}
FROM loads JOIN jobs ON jobs.number = loads.job {more} ORDER BY {order}
"""
_WORLDS = """
SELECT record_zlib FROM worlds JOIN jobs ON jobs.number = worlds.job WHERE jobs.id = ? ORDER BY worlds.number
"""
_RECORD = """
SELECT record_zlib FROM loads JOIN jobs ON jobs.number = loads.job LEFT JOIN records ON load = loads.number
WHERE jobs.id = ? AND loads.id = ? AND attempt = coalesce(?, attempt) ORDER BY attempt DESC
"""

_WITHOUT_CELL = """
SELECT id, page FROM jobs
WHERE (page, network, setup, engine) NOT IN (SELECT page, network, setup, engine FROM cells) LIMIT 1
"""


class RunReader(Closing):
    """A run (an executed experiment in an SQLite file), open for reading. Damaged data raises InputError."""

    def __init__(self, database: sqlite3.Connection, folder: Path | None) -> None:
        """Read a run from an open database. `folder` is the run's folder, or None for a run in memory."""
        self._database = database
        self.folder = folder
        self.place = "memory" if folder is None else str(folder)
        self._limits: Limits | None = None
        self._lock: files.FolderLock | None = None

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a stored run without changing it. Raises InputError if the run cannot be read."""
        database, limits = files.open_for_reading(folder)
        run = cls(database, folder)
        run._limits = limits
        with on_error(run.close):
            for job, page in run.rows_of(_WITHOUT_CELL):
                raise damaged(f"job {job} of {page} belongs to no cell", run.place)
        return run

    def close(self) -> None:
        self._database.close()

    @property
    def status(self) -> str:
        """Return the state of the run: `running`, `finished`, `interrupted`, `stopped` (by an error or a
        kill) or `out of time` (the time limit ended the run before the first repeat was complete)."""
        status = str(self._fact("status"))
        if status == "running" and self.folder is not None and self._lock is None:
            # If no process has locked the run, its writer was killed, or the power failed.
            with suppress(InputError):
                files.FolderLock(self.folder).close()
                return "stopped"
        return status

    @property
    def environment(self) -> dict[str, Any]:
        """Return facts about the machine and the versions of programs at the start of the run, as JSON."""
        return self._document("environment", Environment)

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of the run's command that are needed to resume it, such as input files."""
        return self._document("options", Options)

    @property
    def label(self) -> str:
        """Return the label that the user gave to the run with `--label`; empty without a label."""
        rows = self.rows_of("SELECT value FROM facts WHERE name = 'label'")
        with self._parsing("the label"):
            return next((str(json.loads(value)) for (value,) in rows), "")

    def experiment(self) -> Experiment:
        with self._parsing("the experiment"):
            return Experiment.model_validate_json(json.dumps(_upgraded(self._fact("experiment"))))

    def cells(self) -> list[Cell]:
        experiment, pages = self.experiment(), {*self.page_names()}
        cells: list[Cell] = []
        for index, page, network, setup, arm, engine in self.rows_of(_CELLS):
            known = index == len(cells) and page in pages and engine in get_args(EngineName) and arm in ARMS
            planned = 0 <= network < len(experiment.networks) and 0 <= setup < len(experiment.setups)
            if not (known and planned):
                raise damaged(f"cell {index} is not in the experiment", self.place)
            tls = experiment.setups[setup].tls
            cells.append(Cell(page, network, setup, engine, index, ARMS[arm].over(tls)))
        return cells

    def pages(self) -> dict[str, Page]:
        with self._parsing("a page"):
            return {name: Page.model_validate_json(page) for name, page in self.rows_of(_PAGES)}

    def unparsed_plan(self) -> tuple[Any, ...]:
        """Return the stored experiment, pages and cells without validation, to compare runs for equality."""
        return self._fact("experiment"), list(self.rows_of(_PAGES)), list(self.rows_of(_CELLS))

    def auto_engine(self) -> EngineName:
        """Return the engine that `--engine auto` chose, or otherwise the engine of the first cell."""
        engines, named = [cell.engine for cell in self.cells()], self.experiment().engines
        return next((engine for engine in engines if engine not in named), engines[0])

    def page_names(self) -> list[str]:
        """Return the names of the pages, in planned order. This is faster than `pages`, which parses them."""
        return [name for (name,) in self.rows_of("SELECT name FROM pages ORDER BY position")]

    def planned_repeats(self) -> dict[Comparison, int]:
        """Map each comparison to its planned number of repeats. A comparison consists of the page loads,
        with and without TFO, of one page on one network with one setup and engine."""
        rows = self.rows_of(
            "SELECT page, network, setup, engine, count(*) FROM jobs GROUP BY page, network, setup, engine"
        )
        return {Comparison(*comparison): repeats for *comparison, repeats in rows}

    def repeats(self) -> int:
        """Return the largest number of repeats that is planned for a page; 0 if the run has no jobs."""
        return self._number("SELECT max(repeat) + 1 FROM jobs")

    @property
    def shard(self) -> Shard | None:
        """Return the part of the experiment that this run executes, such as 2 of 10; None for all of it."""
        text = self.options.get("shard")
        with self._parsing("which shard it is"):
            return None if text is None else Shard.parse(str(text))

    def jobs(self) -> dict[str, int]:
        """Map the id of each planned job (loads in one emulated network) to its seed, in planned order."""
        return dict(self.rows_of("SELECT id, seed FROM jobs ORDER BY number"))

    def check_job(self, job: str | None) -> None:
        """Raise InputError if the run has no job with this id. Do nothing for None, which means all jobs."""
        if job is not None and job not in self.jobs():
            export = f"fastopen export {shlex.quote(self.place)} --format csv"
            remedy = f"run {export} and see the job column of loads.csv"
            raise InputError(f"no job {job!r}", self.place, remedy)

    def loads_asked(self) -> int:
        return self._number("SELECT sum(json_array_length(loads)) FROM jobs")

    def loads_done(self) -> int:
        """Return the number of loads that were run. A load with several attempts is counted once."""
        return self._number("SELECT count(*) FROM loads WHERE attempt = 1")

    def attempts_done(self) -> int:
        """Return the number of rows that `loads` returns: one for each attempt at a load."""
        return self._number("SELECT count(*) FROM loads")

    def loads(self) -> list[LoadRow]:
        """Return the main results of all attempts at loads, sorted by `LoadRow.number`."""
        with collector_paused():
            return self.listed(Listing())

    def listed(self, listing: Listing, start: int = 0, count: int = -1) -> list[LoadRow]:
        """Return at most `count` (-1: all) rows that `listing` selects and sorts, from index `start` on."""
        where, values = listing.condition
        query = _LOADS.format(record="", more=where, order=f"{SQL_ORDERS[listing.order]} LIMIT ? OFFSET ?")
        with self._parsing("a load"):
            return [self._load_row(row) for row in self.rows_of(query, (*values, count, start))]

    def listed_count(self, listing: Listing) -> int:
        where, values = listing.condition
        query = f"SELECT count(*) FROM loads JOIN jobs ON jobs.number = loads.job {where}"  # noqa: S608
        return self._number(query, values)

    def counts(self) -> dict[int, tuple[int, int]]:
        """Map the index of each cell that has results to its number of finished loads and its number of valid
        loads. Only the last attempt at a load is counted."""
        # With max(), SQLite takes the other columns from the row with the maximum.
        rows = self.rows_of(
            "SELECT cell, count(*), sum(valid) FROM"
            " (SELECT cell, valid, max(attempt) FROM loads GROUP BY job, id) GROUP BY cell"
        )
        return {cell: (done, valid) for cell, done, valid in rows}

    def documents(
        self, job: str | None = None, lost: list[InputError] | None = None
    ) -> Iterator[tuple[LoadRow, dict[str, Any]]]:
        """Yield the row and the record of each load, of all jobs or of the job with the id `job`. Records are
        decoded JSON that is not validated, so this is five times as fast as `load_records`. If `lost` is
        given, append errors from damaged records to it instead of raising them, and continue if possible."""
        where, values = Listing(job=job).condition
        more = f"JOIN records ON records.load = loads.number {where}"
        query = _LOADS.format(record=", record_zlib", more=more, order="loads.number")
        guarded = nullcontext if lost is None else partial(collected, lost)
        with guarded():
            for *row, record in self.rows_of(query, values):
                with guarded(), self._parsing("a record"):
                    yield self._load_row(row), dict(json.loads(self._text(record)))

    def rtt_deviations(self) -> Iterator[tuple[str, int, int]]:
        """Yield (page, network's index, measured minus requested RTT in us) for each emulated network."""
        return self.rows_of(
            "SELECT page, network, rtt_us_measured - rtt_us_asked"
            " FROM worlds JOIN jobs ON jobs.number = worlds.job ORDER BY worlds.number"
        )

    def world_records(self, job: str) -> list[WorldRecord]:
        """Return the records of all networks emulated for the job with this id, in the order of emulation."""
        rows = self.rows_of(_WORLDS, (job,), lookup=True)
        with self._parsing("the record of a world"):
            return [WorldRecord.model_validate_json(self._text(record)) for (record,) in rows]

    def load_json(self, job: str, load: str, attempt: int | None = None) -> bytes:
        """Return the JSON record of a load, encoded in UTF-8. `job` and `load` are ids. `attempt` counts from
        1, by default the last attempt. Raises KeyError if the run has no such load or attempt."""
        for (compressed,) in self.rows_of(_RECORD, (job, load, attempt), lookup=True):
            if compressed is None:
                raise damaged(f"{job} {load} has no record", self.place)
            return self._text(compressed)
        raise KeyError(job, load)

    def load_record(self, job: str, load: str, attempt: int | None = None) -> LoadRecord:
        """Return the validated record of a load, with the parameters and KeyError of `load_json`."""
        text = self.load_json(job, load, attempt)
        with self._parsing("a record"):
            record = LoadRecord.model_validate_json(text)
        pages = self.rows_of("SELECT page FROM jobs WHERE id = ?", (job,), lookup=True)
        resources = next((self._sizes.get(page, 0) for (page,) in pages), 0)
        if any(request.resource >= resources for request in record.requests):
            raise damaged(f"the record of {job} {load} has requests of another page", self.place)
        return record

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {name: len(page.resources) for name, page in self.pages().items()}

    def load_records(self, rows: Iterable[LoadRow]) -> Iterator[tuple[LoadRow, LoadRecord]]:
        """Yield each row with the validated record of its load. Only one record is in memory at a time."""
        for row in rows:
            with self._parsing("a record"):  # KeyError: an index of the database is damaged
                record = self.load_record(row.job, row.load, row.attempt)
            yield row, record

    def faults(self) -> list[tuple[str, str]]:
        """Return (job id, fault) for each fault of an emulated network during the run."""
        return list(self.rows_of("SELECT jobs.id, fault FROM faults JOIN jobs ON jobs.number = faults.job"))

    def rows_of(self, query: str, values: tuple[object, ...] = (), *, lookup: bool = False) -> Iterator[Any]:
        """Yield the rows of an SQL query with the parameters `values`. Set `lookup` to lower the time limit
        of a query for one load or job. Raises InputError if the query takes too long."""
        if self._limits is None:
            with files.reading(self.place):
                yield from self._database.execute(query, values)
        else:
            yield from self._limits.rows(query, values, lookup=lookup)

    def _number(self, query: str, values: tuple[object, ...] = ()) -> int:
        ((value,),) = self.rows_of(query, values)
        return int(value or 0)

    def _fact(self, name: str) -> Any:
        for (value,) in self.rows_of("SELECT value FROM facts WHERE name = ?", (name,)):
            with self._parsing(name):
                return json.loads(value)
        raise damaged(f"it has no {name}", self.place)

    def _document(self, name: str, shape: type[Facts]) -> dict[str, Any]:
        with self._parsing(name):
            document = dict(self._fact(name))
            shape.model_validate(document)
            return document

    @contextmanager
    def _parsing(self, what: str) -> Iterator[None]:
        """Convert errors from parsing stored text into InputError. `what` names the text in the message."""
        try:
            yield
        except ValidationError as error:
            raise damaged(f"{what}: {input_errors(error, '')[0]}", self.place) from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise damaged(f"{what}: {error!r}", self.place) from None

    @cached_property
    def _cell_count(self) -> int:
        return len(self.cells())

    def _load_row(self, row: Sequence[Any]) -> LoadRow:
        job, cell, repeat, valid, plt, opened, syn, handshakes, again, invalid, load, nth, later, *rest = row
        if not 0 <= cell < self._cell_count:
            raise damaged(f"{job} {load} belongs to a missing cell", self.place)
        # Convert the values, because SQLite has neither booleans nor lists.
        valid, later, invalid = valid != 0, later != 0, _reasons(invalid)
        return LoadRow(
            job, cell, repeat, valid, plt, opened, syn, handshakes, again, invalid, load, nth, later, *rest
        )

    def _text(self, compressed: bytes) -> bytes:
        return zlib.decompress(compressed) if self._limits is None else self._limits.unpacked(compressed)


def _upgraded(experiment: Any) -> Any:
    """Adapt an experiment that an older version stored: delete each network's `path_share` if it is null."""
    match experiment:
        case {"networks": [*networks]}:
            for network in networks:
                match network:
                    case {"path_share": None}:
                        del network["path_share"]
    return experiment


def _reasons(text: str) -> tuple[tuple[str, str], ...]:
    return () if text == "[]" else tuple((kind, detail) for kind, detail in json.loads(text))
