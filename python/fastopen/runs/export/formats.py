"""Write the files of an export, one load at a time: tables (Parquet, CSV), HARs or screenshots (PNG)."""

import csv
import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, Literal

from fastopen.common.errors import InputError
from fastopen.common.grid import escape_formula
from fastopen.experiments.quantities import Kind
from fastopen.runs.database import damaged
from fastopen.runs.export.folder import atomic_folder
from fastopen.runs.export.har import har_document
from fastopen.runs.flat_tables import TABLES, Flattener, Row
from fastopen.runs.reader import RunReader
from fastopen.runs.rows import LoadRow, file_name

Format = Literal["parquet", "csv", "har", "png"]
# The number of rows in a row group of Parquet. Writers and readers hold a whole group in memory.
BATCH: Final = 50_000


def export(
    run: RunReader,
    folder: Path,
    form: Format,
    *,
    job: str | None = None,
    replace: bool = False,
    watch: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the page loads of a run into a new folder, in the file format `form`, and return their number.

    With `job`, write only the loads of the job with this id. With `replace`, replace an earlier export in the
    folder. `watch` is called after each load with the number of loads written so far. Raises InputError if
    the run has no such job, or no screenshots for PNG, and the errors of `atomic_folder`. If some loads are
    damaged, write the readable ones before raising InputError."""
    run.check_job(job)
    count, at = 0, ""
    lost: list[InputError] = []
    try:
        with atomic_folder(folder, replace=replace) as place, _writing(run, place, form) as write:
            for count, (row, record) in enumerate(run.documents(job, lost), 1):
                at = f"{row.job} {row.load}"
                write(row, record)
                watch(count)
            if lost and not count:
                raise lost[0]
    except _UNLIKE_A_RECORD as error:
        raise damaged(f"the record of {at}: {error!r}", run.place) from None
    if lost:
        raise InputError(f"{lost[0].message}; readable loads exported: {count:,}", run.place, lost[0].remedy)
    return count


# Errors from converting a record that the world program did not write. The Parquet writer reports values of a
# wrong type only at the end of a batch.
_UNLIKE_A_RECORD: Final = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError)
Write = Callable[[LoadRow, dict[str, Any]], None]
"""A function that writes one load to the export, from its main results and its decoded record."""
Add = Callable[[Row], object]
"""A function that writes the next row of a table."""


@contextmanager
def _writing(run: RunReader, place: Path, form: Format) -> Iterator[Write]:
    if form == "har":
        yield _hars(run, place)
        return
    if form == "png":
        if not any(setup.client.screenshot for setup in run.experiment().setups):
            remedy = "load again with fastopen run PAGE --client chromium --screenshots"
            raise InputError("has no screenshots", run.place, remedy)
        yield partial(_write_screenshot, place)
        return
    table = _csv if form == "csv" else _parquet
    with ExitStack() as files:
        tables = {
            name: files.enter_context(table(place / f"{name}.{form}", columns))
            for name, columns in TABLES.items()
        }
        flat = Flattener(run)

        def write(row: LoadRow, record: dict[str, Any]) -> None:
            for name, add in tables.items():
                for one in flat.rows(name, row, record):
                    add(one)

        yield write


def _hars(run: RunReader, place: Path) -> Write:
    experiment, cells, pages = run.experiment(), run.cells(), run.pages()

    @lru_cache(maxsize=1)  # the loads of a job come one after another
    def addresses(job: str) -> dict[str, str]:
        worlds = run.world_records(job)
        return worlds[-1].hosts if worlds else {}

    def write(row: LoadRow, record: dict[str, Any]) -> None:
        cell = cells[row.cell]
        document = har_document(experiment, cell, pages[cell.page], row, record, addresses(row.job))
        with (place / file_name(row.number, row.job, row.load, "har")).open("x", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, indent=1, allow_nan=False)

    return write


def _write_screenshot(place: Path, row: LoadRow, record: dict[str, Any]) -> None:
    shown = (record.get("browser") or {}).get("screenshot_png")
    if shown is not None:
        (place / file_name(row.number, row.job, row.load, "png")).write_bytes(b64decode(shown))


@contextmanager
def _csv(path: Path, columns: Mapping[str, Kind]) -> Iterator[Add]:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        yield lambda row: writer.writerow([escape_formula(value) for value in row])


@contextmanager
def _parquet(path: Path, columns: Mapping[str, Kind]) -> Iterator[Add]:
    # Import pyarrow only here: the import takes a third of a second.
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"int": pa.int64(), "float": pa.float64(), "text": pa.string(), "flag": pa.bool_()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
    rows: list[Row] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:

        def flush() -> None:
            if rows:
                arrays = [pa.array(one, schema.types[n]) for n, one in enumerate(zip(*rows, strict=True))]
                writer.write_batch(pa.record_batch(arrays, schema=schema))
                rows.clear()

        def add(row: Row) -> None:
            rows.append(row)
            if len(rows) >= BATCH:
                flush()

        yield add
        flush()
