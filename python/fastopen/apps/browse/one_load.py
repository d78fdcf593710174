"""Read one load of a run: its record, its critical path, and the reports of both kernels."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastopen.analysis.attribution import CriticalPath, Shown, critical_path
from fastopen.apps.browse.kept import Outline
from fastopen.common.errors import InputError
from fastopen.common.grid import Column, Entry, Grid
from fastopen.contract import LoadRecord
from fastopen.experiments import Cell, draw_of
from fastopen.pages import Page
from fastopen.runs import Listing, LoadRow, RunReader
from fastopen.runs.flat_tables import TABLES, Flattener

TITLES: Final = {"connections": "Connections", "requests": "Requests", "evidence": "Counters and link"}
MISSING: Final = "-"


@dataclass(frozen=True)
class OneLoad:
    """A load with everything that the run keeps about it."""

    row: LoadRow
    cell: Cell
    name: str
    """The name of the load, such as `wikipedia-2018 at 20 ms, warm, repeat 3`."""
    page: Page
    record: LoadRecord
    path: CriticalPath | None
    tables: dict[str, Grid]
    others: tuple[tuple[str, int], ...]
    """Names and numbers of the job's other loads: other arms of the same repeat, and other attempts."""
    neighbours: tuple[int | None, int | None]
    """Numbers of the loads that were written before and after this load; None if there are none."""

    @property
    def shown(self) -> Shown | None:
        """Return the load as figures need it; None if it has no critical path."""
        return None if self.path is None else Shown(self.record, self.path)


def read_load(folder: Path, outline: Outline, number: int) -> OneLoad:
    """Read the load. Raises InputError if the run has no load with this number, or it cannot be read."""
    with RunReader.open(folder) as run:
        row = _required(run, number)
        text = run.load_json(row.job, row.load, row.attempt)
        record = run.load_record(row.job, row.load, row.attempt)
        flattener = Flattener.of(run)
        near = run.listed(Listing(job=row.job))
        neighbours = [row and row.number for row in (_row(run, number - 1), _row(run, number + 1))]
    cell, experiment = outline.cells[row.cell], outline.experiment
    client = experiment.setups[cell.setup].client
    drawn = draw_of(experiment, cell.comparison, row.repeat)
    page = flattener.page(row)
    document = json.loads(text)
    tables = {name: list(flattener.rows(name, row, document)) for name in TITLES}
    return OneLoad(
        row=row,
        cell=cell,
        name=load_name(outline, row),
        page=page,
        record=record,
        path=critical_path(page, record, client if drawn is None else drawn.client(client)),
        tables={
            "connections": table_grid("connections", tables["connections"]),
            "requests": table_grid("requests", tables["requests"]),
            "evidence": _facts("evidence", tables["evidence"][0]),
        },
        others=tuple(
            (f"{outline.cells[other.cell].arm.short_label}{_attempt(other)}", other.number)
            for other in near
            if other.number != row.number
        ),
        neighbours=(neighbours[0], neighbours[1]),
    )


def load_json(folder: Path, number: int) -> bytes:
    """Return the record of a load as the world wrote it. Raises InputError."""
    with RunReader.open(folder) as run:
        row = _required(run, number)
        return run.load_json(row.job, row.load, row.attempt)


def load_name(outline: Outline, row: LoadRow) -> str:
    """Return the load's name: its cell, its repeat and, if it was repeated, its attempt."""
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


def table_grid(table: str, rows: Sequence[tuple[Any, ...]]) -> Grid:
    """Return a table of one load without the load's number and without columns that have no values."""
    names = list(TABLES[table])
    kept = [at for at in range(1, len(names)) if any(row[at] is not None for row in rows)]
    columns = tuple(
        Column(names[at].replace("_", " "), "key" if at == 1 else _kind(TABLES[table][names[at]]))
        for at in kept
    )
    return Grid(TITLES[table], columns, tuple(tuple(_entry(row[at]) for at in kept) for row in rows))


def _facts(table: str, row: tuple[Any, ...]) -> Grid:
    facts = [(name, value) for name, value in zip(TABLES[table], row, strict=True) if value is not None]
    entries = tuple(
        (Entry(name.replace("_", " ")), Entry(_text(value), value=value)) for name, value in facts[1:]
    )
    return Grid(TITLES[table], (Column("what", "key"), Column("value", "words")), entries)


def _kind(kind: str) -> Any:
    return "words" if kind in ("text", "flag") else "figure"


def _entry(value: Any) -> Entry:
    return Entry(_text(value), value=value)


def _text(value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def loads_grid(outline: Outline, rows: Iterable[LoadRow]) -> Grid:
    columns = (
        *("load", "job", "attempt", "cell", "repeat", "valid", "invalid", "plt_ms", "requests"),
        *("connections", "syn_data_connections", "retransmitted_segments", "started_unix_ms"),
    )
    entries = []
    for row in rows:
        invalid = "; ".join(f"{kind}: {detail}" for kind, detail in row.invalid) or None
        plt_ms = None if row.plt_ns is None else row.plt_ns / 1e6
        values: tuple[Any, ...] = (
            *(row.number, row.job, row.attempt, outline.cell_name(outline.cells[row.cell]), row.repeat),
            *(row.valid, invalid, plt_ms, row.requests, row.connections, row.syn_data_connections),
            *(row.retransmitted, row.started_unix_ms),
        )
        entries.append(tuple(_entry(value) for value in values))
    return Grid("loads", tuple(Column(name) for name in columns), tuple(entries))
