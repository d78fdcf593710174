"""Read the progress of a run, and single page loads with the kernels' reports about them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastopen.analysis.attribution import Shown, critical_path
from fastopen.apps.browse.kept import Outline
from fastopen.common.errors import InputError
from fastopen.common.grid import Column, Entry, Grid, Kind
from fastopen.experiments import Cell, draw_of
from fastopen.pages import Page
from fastopen.runs import Listing, LoadRow, RunReader
from fastopen.runs.flat_tables import TABLES, Flattener

LATEST: Final = 5
# The number of latest loads whose start times give the estimate of the time left.
PACE_OF: Final = 200
TITLES: Final = {"connections": "Connections", "requests": "Requests", "evidence": "Counters and link"}


@dataclass(frozen=True)
class Progress:
    """The progress of a run, read from its file. `status` is a word such as `running`. `done` of `asked`
    loads are finished, after `attempts` attempts in total. `faults` is the number of job failures. `latest`
    has the last loads, newest first. `left` is the estimated time to the end of the run, such as `3 min
    left`; empty if it is unknown or if the run is over."""

    status: str
    done: int
    asked: int
    attempts: int
    faults: int
    latest: tuple[LoadRow, ...]
    left: str


def read_progress(run: RunReader) -> Progress:
    """Read the progress of a run from its file. During the run, the numbers may be off by one page load."""
    status, done, asked = run.status, run.loads_done(), run.loads_asked()
    attempts = run.attempts_done()
    recent = run.listed(Listing(), max(0, attempts - PACE_OF))
    return Progress(
        status=status,
        done=done,
        asked=max(asked, done),
        attempts=attempts,
        faults=len(run.faults()),
        latest=tuple(reversed(recent[-LATEST:])),
        left=_left(recent, asked - done) if status == "running" else "",
    )


def _left(recent: list[LoadRow], missing: int) -> str:
    started = [row.started_unix_ms for row in recent if row.started_unix_ms]
    took_ms = max(started, default=0) - min(started, default=0)
    # If no load is missing, only repetitions of invalid loads remain, whose number is unknown. In virtual
    # time all worlds begin at the same moment, so the pace is unknown.
    if missing <= 0 or took_ms == 0:
        return ""
    seconds = round(missing * took_ms / 1000 / (len(started) - 1))
    return f"{seconds} s left" if seconds < 120 else f"{seconds // 60} min left"


@dataclass(frozen=True)
class OneLoad:
    """A page load, as `fastopen browse` shows it. `shown` contains the load's record and critical path;
    None if there is no critical path. `tables` shows the load's connections, requests and kernel counters.
    `others` lists the names and numbers of related loads: other attempts, and the same load with other arms.
    `neighbours` are the numbers of the previous and the next load, each None if there is no such load."""

    row: LoadRow
    cell: Cell
    name: str
    """The name of the load, such as `wikipedia-2018 at 20 ms, warm, repeat 3`."""
    page: Page
    shown: Shown | None
    tables: dict[str, Grid]
    others: tuple[tuple[str, int], ...]
    neighbours: tuple[int | None, int | None]


def read_load(run: RunReader, outline: Outline, number: int) -> OneLoad:
    """Read load `number` of a run, with its critical path and tables. `outline` is the plan of this run.
    Raises InputError if the run has no such load or cannot be read."""
    row = _required(run, number)
    record = run.load_record(row.job, row.load, row.attempt)
    flattener = Flattener(run)
    before, after = _row(run, number - 1), _row(run, number + 1)
    cell, experiment = outline.cells[row.cell], outline.experiment
    client = experiment.setups[cell.setup].client
    drawn = draw_of(experiment, cell.comparison, row.repeat)
    page = flattener.pages[cell.page]
    path = critical_path(page, record, client if drawn is None else drawn.client(client))
    document = json.loads(run.load_json(row.job, row.load, row.attempt))
    rows = {name: list(flattener.rows(name, row, document)) for name in TITLES}
    return OneLoad(
        row=row,
        cell=cell,
        name=load_name(outline, row),
        page=page,
        shown=None if path is None else Shown(record, path),
        tables={
            **{name: _table(name, rows[name]) for name in ("connections", "requests")},
            "evidence": _facts("evidence", rows["evidence"][0]),
        },
        others=tuple(
            (f"{outline.cells[other.cell].arm.short_label}{_attempt(other)}", other.number)
            for other in run.listed(Listing(job=row.job))
            if other.number != row.number
        ),
        neighbours=(before and before.number, after and after.number),
    )


def load_json(run: RunReader, number: int) -> bytes:
    """Return the JSON record of load `number`, byte for byte as it was stored. Raises InputError if the run
    has no such load or cannot be read."""
    row = _required(run, number)
    return run.load_json(row.job, row.load, row.attempt)


def load_name(outline: Outline, row: LoadRow) -> str:
    """Return the name of a load: its page and conditions, the number of its repeat and, if there was more
    than one attempt at this repeat, the number of the attempt."""
    return f"{outline.cell_name(outline.cells[row.cell])}, repeat {row.repeat + 1}{_attempt(row)}"


def _attempt(row: LoadRow) -> str:
    return f", attempt {row.attempt}" if row.attempt > 1 or row.superseded else ""


def _row(run: RunReader, number: int) -> LoadRow | None:
    return next(iter(run.listed(Listing(number=number))), None)


def _required(run: RunReader, number: int) -> LoadRow:
    row = _row(run, number)
    if row is None:
        raise InputError(f"has no load {number}", run.place)
    return row


def _table(table: str, rows: Sequence[tuple[Any, ...]]) -> Grid:
    """Return rows of the export table `table` for display. Omit the load's number and empty columns."""
    columns = []
    kept = []
    for at, (name, kind) in enumerate(TABLES[table].items()):
        if at and any(row[at] is not None for row in rows):
            words: Kind = "words" if kind in ("text", "flag") else "figure"
            columns.append(Column(name.replace("_", " "), "key" if at == 1 else words))
            kept.append(at)
    return Grid(TITLES[table], tuple(columns), tuple(tuple(_entry(row[at]) for at in kept) for row in rows))


def _facts(table: str, row: tuple[Any, ...]) -> Grid:
    """Return a row of the export table `table` as names and values, without load number and empty values."""
    facts = [*zip(TABLES[table], row, strict=True)][1:]
    entries = ((Entry(name.replace("_", " ")), _entry(value)) for name, value in facts if value is not None)
    return Grid(TITLES[table], (Column("what", "key"), Column("value", "words")), tuple(entries))


def _entry(value: Any) -> Entry:
    if value is None:
        text = "-"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    else:
        text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return Entry(text, value=value)


def loads_grid(outline: Outline, rows: Iterable[LoadRow]) -> Grid:
    names = (
        *("load", "job", "attempt", "cell", "repeat", "valid", "invalid", "plt_ms", "requests"),
        *("connections", "syn_data_connections", "retransmitted_segments", "started_unix_ms"),
    )
    entries = []
    for row in rows:
        values = (
            *(row.number, row.job, row.attempt, outline.cell_name(outline.cells[row.cell]), row.repeat),
            *(row.valid, "; ".join(f"{kind}: {detail}" for kind, detail in row.invalid) or None),
            *(None if row.plt_ns is None else row.plt_ns / 1e6, row.requests, row.connections),
            *(row.syn_data_connections, row.retransmitted, row.started_unix_ms),
        )
        entries.append(tuple(map(_entry, values)))
    return Grid("loads", tuple(map(Column, names)), tuple(entries))
