"""Folders of runs: two writers in one folder, a folder that disappears, and malicious files."""

import csv
import gzip
import json
import re
import resource
import shutil
import signal
import sqlite3
import struct
import tempfile
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from pydantic import ValidationError

from command_line import fastopen
from fastopen.common.errors import InputError, MachineError
from fastopen.contract import LoadRecord
from fastopen.engines import HostEngine
from fastopen.experiments import Experiment, Plan
from fastopen.pages import load_pages
from fastopen.pages.model import MAX_RESOURCES
from fastopen.runs import RunProgress, RunStore, execute
from fastopen.runs import database as run_limits
from fastopen.runs.database import MAX_RECORD_BYTES, Limits
from made_up_run import made_up_run
from places import GOLDEN, ROOT
from security.fuzzer import Memory, open_bytes, schemas, with_schema

TRACE = ROOT / "crates/world/src/capture/tcp_trace.rs"
SAMPLES = int(re.findall(r"const MOST: usize = ([0-9_]+);", TRACE.read_text())[0])
MakePlan = Callable[..., Plan]
FakeWorld = Callable[..., Path]
PAGE_SIZE = 4096


@pytest.fixture(name="run")
def _run(small_plan: MakePlan, tmp_path: Path) -> Path:
    return made_up_run(tmp_path / "run", small_plan())


def test_of_those_who_make_a_run_in_one_folder_at_once_one_does(small_plan: MakePlan, tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def attempt(folder: Path) -> str:
        together.wait()
        try:
            with RunStore.create(folder, small_plan(), {}) as store:
                made = len(store.jobs())
                together.wait()
        except InputError as error:
            together.wait()
            return error.message
        return f"made {made}"

    with ThreadPoolExecutor(4) as pool:
        for number in range(20):
            said = sorted(pool.map(attempt, [tmp_path / str(number)] * 4))
            assert said == ["another process is executing this run"] * 3 + ["made 2"]


def test_a_run_whose_folder_is_removed_ends_and_says_so(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path
) -> None:
    def remove(progress: RunProgress) -> None:
        if progress.finished is not None:
            shutil.rmtree(tmp_path / "kept")

    plan = small_plan()
    with (
        RunStore.create(tmp_path / "kept", plan, {}) as store,
        pytest.raises(MachineError, match=r"kept: the run was moved or removed while it was written"),
    ):
        execute(plan, HostEngine(fake_world(), 1), {}, store, remove)


def test_a_run_whose_file_is_replaced_ends_and_says_so(
    small_plan: MakePlan, fake_world: FakeWorld, run: Path, tmp_path: Path
) -> None:
    def replace(progress: RunProgress) -> None:
        if progress.finished is not None:
            shutil.copy(run / "run.sqlite", tmp_path / "other")
            (tmp_path / "other").rename(tmp_path / "kept" / "run.sqlite")

    plan = small_plan()
    with (
        RunStore.create(tmp_path / "kept", plan, {}) as store,
        pytest.raises(MachineError, match="moved or removed"),
    ):
        execute(plan, HostEngine(fake_world(), 1), {}, store, replace)


def test_a_folder_for_temporary_files_that_is_full_is_called_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = b"WARC/1.0\r\nWARC-Type: metadata\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    (tmp_path / "one.warc.gz").write_bytes(gzip.compress(head + head))

    def full(**_: object) -> BinaryIO:
        return open("/dev/full", "r+b", buffering=0)

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(MachineError, match=r"temporary file cannot be written: No space left.*TMPDIR"):
        load_pages([tmp_path / "one.warc.gz"])


def test_a_file_for_which_there_is_no_room_is_the_machines_fault(run: Path, tmp_path: Path) -> None:
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, usual[1]))
    try:
        done = fastopen("show", run, "--svg", tmp_path / "table.svg")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert (done.returncode, "table.svg: cannot be written: File too large" in done.stderr) == (3, True), done
    assert not (tmp_path / "table.svg").exists()


def test_no_cell_of_an_export_is_a_formula(run: Path, tmp_path: Path) -> None:
    change(run, "UPDATE jobs SET id = '=' || id")
    change(run, """UPDATE loads SET valid = 0, invalid = '[["@SUM(1)", "x"]]'""")
    assert fastopen("export", run, "-f", "csv", "-o", tmp_path / "csv").returncode == 0
    cells = set()
    for file in (tmp_path / "csv").glob("*.csv"):
        with file.open(newline="") as lines:
            cells |= {cell for row in csv.reader(lines) for cell in row}
    assert {"'=small@20ms#0", "'@SUM(1): x"} < cells
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "@")]


@pytest.mark.parametrize(
    ("change_of", "named"),
    [
        (
            """ALTER TABLE facts RENAME TO old; CREATE VIEW facts AS WITH RECURSIVE n(i) AS
                (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS name, '{}' AS value FROM n""",
            "facts",
        ),
        ("CREATE TRIGGER grow AFTER UPDATE ON facts BEGIN DELETE FROM loads; END", "grow"),
        ("DROP TABLE faults; CREATE TABLE faults (job AS (zeroblob(1000000000)), fault)", "faults"),
        ("CREATE VIRTUAL TABLE text USING fts5(body)", "text"),
    ],
)
def test_a_run_with_anything_but_its_tables_is_refused(run: Path, change_of: str, named: str) -> None:
    change(run, change_of)
    for command in ("show", "export", "resume"):
        done = fastopen(command, run)
        assert done.returncode == 2, command
        assert f"damaged: {named} is not the table that fastopen writes" in done.stderr, command
    assert f"damaged: {named}" in " ".join(fastopen("ls", run.parent, columns=300).stdout.split())


def change(run: Path, script: str) -> None:
    database = sqlite3.connect(run / "run.sqlite")
    database.executescript(script)
    database.close()


def make_endless(run: Path, table: str, depth: int = 4) -> None:
    """Damage a table: link each inner page of its B-tree to one child 400 times, for almost endless rows."""
    file = run / "run.sqlite"
    change(run, f"PRAGMA page_size = {PAGE_SIZE}; VACUUM")
    database = sqlite3.connect(file)
    ((root,),) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))
    database.close()
    data = bytearray(file.read_bytes())
    pages = len(data) // PAGE_SIZE
    # Copy the root to the end of the file and add the inner pages after it. The topmost one replaces the
    # root.
    data += data[(root - 1) * PAGE_SIZE : root * PAGE_SIZE]
    child = pages + 1
    for level in range(depth):
        cells = [PAGE_SIZE - 5 * (number + 1) for number in range(400)]
        page = bytearray(PAGE_SIZE)
        page[:12] = struct.pack(">BHHHBI", 5, 0, len(cells), cells[-1], 0, child)
        page[12 : 12 + 2 * len(cells)] = struct.pack(f">{len(cells)}H", *cells)
        for cell in cells:
            page[cell : cell + 5] = struct.pack(">IB", child, 1)
        if level == depth - 1:
            data[(root - 1) * PAGE_SIZE : root * PAGE_SIZE] = page
        else:
            data += page
            child = len(data) // PAGE_SIZE
    data[28:32] = struct.pack(">I", len(data) // PAGE_SIZE)
    file.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["loads", "jobs", "cells", "pages", "records", "facts"])
def test_a_run_of_endless_rows_is_damaged_whoever_reads_it(run: Path, table: str) -> None:
    make_endless(run, table)
    for command in ("show", "export", "resume"):
        done = fastopen(command, run)
        # A command that does not read this table succeeds.
        assert (done.returncode, "damaged" in done.stderr) in ((2, True), (0, False)), (command, done)
        assert done.returncode == 2 or table != "loads", command


@pytest.mark.slow
@pytest.mark.parametrize("size", [MAX_RECORD_BYTES + 1, 12 * 2**20])
def test_records_that_unpack_to_more_than_loads_have_are_refused(run: Path, size: int) -> None:
    database = sqlite3.connect(run / "run.sqlite")
    database.execute("UPDATE records SET record_zlib = ?", (zlib.compress(b" " * size),))
    ((count,),) = database.execute("SELECT count(*) FROM records")
    database.executemany(
        "INSERT INTO loads SELECT ?, job, id, ?, cell, repeat, valid, plt_ns, requests, connections,"
        " syn_data_connections, handshakes_ns, retransmitted, started_unix_ms, invalid FROM loads"
        " WHERE number = 1",
        [(number, number) for number in range(count + 1, 60)],
    )
    database.execute(
        "INSERT INTO records SELECT number, record_zlib FROM loads, (SELECT record_zlib FROM"
        " records LIMIT 1) WHERE number > ?",
        (count,),
    )
    database.commit()
    database.close()
    with RunStore.open(run) as store, pytest.raises(InputError, match="a record is larger than"):
        [store.load_json(row.job, row.load, row.attempt) for row in store.loads()]


LISTS = "[" + "[]," * 1_200_000 + "[]]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("UPDATE facts SET value = ? WHERE name = 'experiment'", f'{{"networks": {LISTS}}}'),
        ("UPDATE pages SET page = ?", f'{{"resources": {LISTS}}}'),
        ("UPDATE records SET record_zlib = ?", zlib.compress(f'{{"requests": {LISTS}}}'.encode())),
        ("UPDATE loads SET invalid = ?", LISTS),
    ],
)
def test_values_that_would_fill_the_memory_are_damage(run: Path, query: str, value: object) -> None:
    database = sqlite3.connect(run / "run.sqlite")
    database.execute(query, (value,))
    database.commit()
    database.close()
    memory = Memory()
    done = fastopen("show", run)
    assert (done.returncode, "damaged: " in done.stderr) == (2, True), done
    memory.check()


def test_what_very_many_entries_of_a_list_lack_is_said_of_the_first() -> None:
    lacking = "[" + "{}," * 1000 + "{}]"
    for model, key in ((LoadRecord, "requests"), (Experiment, "networks")):
        with pytest.raises(ValidationError) as caught:
            model.model_validate_json(f'{{"{key}": {lacking}}}')
        assert {error["loc"][1] for error in caught.value.errors() if error["loc"][0] == key} == {0}


@pytest.mark.slow
def test_a_run_of_very_many_networks_is_read(small_plan: MakePlan, tmp_path: Path) -> None:
    plan = small_plan(rtts_ms=tuple(range(1, 4001)), repeats=1)
    done = replace(plan, jobs=plan.jobs[:1])
    with RunStore.open(made_up_run(tmp_path / "run", done)) as run:
        assert len(run.experiment().model_dump_json()) > 2**20
        assert len(run.loads()) == len(done.jobs[0].job.loads)


@pytest.mark.slow
def test_the_largest_record_that_a_load_can_write_is_read(run: Path) -> None:
    golden = json.loads((GOLDEN / "load.json").read_text())
    sample = {
        "at_ns": 10**11,
        "congestion_window_segments": 10**5,
        "in_flight_segments": 10**5,
        "segment_bytes": 1448,
        "rtt_us": 10**6,
    }
    request, connection = (
        max(golden[key], key=lambda one: len(str(one))) for key in ("requests", "connections")
    )
    with RunStore.open(run) as store:
        row = store.loads()[0]
    record = {
        **golden,
        "job": row.job,
        "id": row.load,
        "requests": [{**request, "resource": 0}] * MAX_RESOURCES,
        "connections": [
            {**connection, "id": number, "origin_samples": [] if number else [sample] * SAMPLES}
            for number in range(MAX_RESOURCES)
        ],
        "browser": {
            **golden["browser"],
            # A picture of noise takes three bytes for each pixel, which are four in base64.
            "screenshot_png": "A" * (1366 * 768 * 4),
            "frames": [{"at_ns": 0, "jpeg": "A" * 2**22}],
        },
    }
    database = sqlite3.connect(run / "run.sqlite")
    packed = zlib.compress(json.dumps(record, separators=(",", ":")).encode(), 1)
    database.execute("UPDATE records SET record_zlib = ? WHERE load = ?", (packed, row.number))
    database.commit()
    database.close()
    with RunStore.open(run) as store:
        read = store.load_record(row.job, row.load, row.attempt)
    assert len(read.requests) == MAX_RESOURCES
    assert len(read.connections[0].origin_samples) == SAMPLES


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE facts SET value = '{}' WHERE name = 'experiment'",
        "UPDATE facts SET value = '[' WHERE name = 'environment'",
        """UPDATE facts SET value = '{"networks": [true]}' WHERE name = 'experiment'""",
        """UPDATE facts SET value = '{"networks": {"rtt": 20}}' WHERE name = 'experiment'""",
        "UPDATE facts SET value = '[true]' WHERE name = 'experiment'",
        "UPDATE facts SET value = '7' WHERE name = 'options'",
        "UPDATE pages SET page = '{}'",
        "UPDATE cells SET arm = 'fast'",
        "UPDATE cells SET setup = 99",
        "UPDATE cells SET network = -99",
        "UPDATE cells SET page = 'other'",
        "UPDATE loads SET cell = 99",
        "UPDATE jobs SET repeat = 4611686018427387904",
        "UPDATE loads SET invalid = '{}'",
        "UPDATE loads SET invalid = '[1]'",
        "UPDATE jobs SET loads = '7'",
        "UPDATE jobs SET network = 99",
        "DELETE FROM records",
        "DELETE FROM loads; DELETE FROM worlds; DELETE FROM jobs",
        "UPDATE pages SET page = CAST(x'7bff' AS TEXT)",
        "UPDATE facts SET value = CAST(x'7bff' AS TEXT)",
        "UPDATE records SET record_zlib = x'789c030000000001'",
        "UPDATE worlds SET record_zlib = x'00'",
    ],
)
def test_values_that_make_no_run_are_named_as_damage(run: Path, damage: str) -> None:
    change(run, damage)
    for command in ("show", "export", "resume"):
        done = fastopen(command, run)
        assert "a bug" not in done.stderr, (command, done.stderr)
        assert str(run) in done.stderr or done.returncode == 0, (command, done.stderr)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("cells.network", None),
        ("jobs.repeat", "one"),
        ("worlds.rtt_us_measured", None),
        ("loads.plt_ns", b"1"),
        ("loads.requests", 0.5),
        ("records.record_zlib", "text"),
    ],
)
def test_values_of_a_wrong_type_are_named_as_damage(run: Path, place: str, value: object) -> None:
    file = run / "run.sqlite"
    database = open_bytes(file.read_bytes())
    table, column = place.split(".")
    schema, untyped = schemas(database)
    database = open_bytes(with_schema(database, untyped))
    database.execute(f"UPDATE {table} SET {column} = ?", (value,))
    file.write_bytes(with_schema(database, schema))
    for command in ("show", "export", "resume"):
        done = fastopen(command, run)
        assert "a bug" not in done.stderr, (command, done.stderr)
        assert str(run) in done.stderr or (command, table) == ("show", "records"), (command, done.stderr)


def test_a_load_without_a_record_is_damage_and_an_unknown_load_is_not(run: Path) -> None:
    change(run, "DELETE FROM records")
    with RunStore.open(run) as store:
        row = store.loads()[0]
        with pytest.raises(InputError, match="damaged"):
            store.load_record(row.job, row.load)
        with pytest.raises(KeyError):
            store.load_record(row.job, "unknown")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("environment", {"started": "yesterday"}),
        ("environment", {"started": 7}),
        ("environment", {"versions": ["fastopen"]}),
        ("environment", {"virtual_kernel": "linux"}),
        ("environment", {"virtual_kernel": {"name": 7}}),
        ("environment", {"clients": 7}),
        ("environment", {"memory_bytes": "much"}),
        ("environment", {"merged": 7}),
        ("environment", {"resumed": [7]}),
        ("options", {"until": "narrow"}),
        ("options", {"until": {"half_width_percent": 1.0, "max_repeats": 2, "more": 1}}),
        ("options", {"watched": {"more": True}}),
        ("options", {"inputs": 7}),
        ("options", {"bodies": None}),
        ("options", {"shard": 7}),
        ("options", {"shard": "9/2"}),
        ("label", {}),
        ("status", ["running"]),
        ("status", {"running": 1}),
    ],
)
def test_facts_of_another_shape_are_damage(run: Path, name: str, value: object) -> None:
    database = sqlite3.connect(run / "run.sqlite")
    database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))
    database.commit()
    database.close()
    for command in (
        ["show", run],
        ["ls", run.parent],
        ["compare", run, run],
        ["merge", run, "-q", "-o", run.with_name("merged")],
        ["resume", run, "-q"],
        ["report", run, "-f", "markdown"],
    ):
        done = fastopen(*command)
        assert "a bug" not in done.stderr, (command, done.stderr)


def test_a_label_that_is_no_json_is_damage(run: Path) -> None:
    change(run, "INSERT OR REPLACE INTO facts VALUES ('label', '[')")
    assert "damaged: the label" in " ".join(fastopen("ls", run.parent, columns=300).stdout.split())


ESCAPES = "\x1b[31m\x1b]0;title\x07\x9b31m\u202e"


def test_nothing_of_a_run_controls_the_terminal(run: Path) -> None:
    database = sqlite3.connect(run / "run.sqlite")
    ((text,),) = database.execute("SELECT value FROM facts WHERE name = 'experiment'")
    experiment = json.loads(text)
    experiment.update(title=ESCAPES, source=ESCAPES, notes=[ESCAPES], name=ESCAPES)
    experiment["setups"][0]["client"]["name"] = ESCAPES
    environment = {"versions": {"fastopen": ESCAPES}, "kernel": ESCAPES, "processor": ESCAPES}
    for name, value in (("experiment", experiment), ("environment", environment), ("label", ESCAPES)):
        database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))
    invalid = json.dumps([["incomplete", ESCAPES]])
    database.execute("UPDATE loads SET valid = 0, invalid = ? WHERE number = 1", (invalid,))
    database.execute("INSERT INTO faults SELECT number, ? FROM jobs", (ESCAPES,))
    database.commit()
    database.close()
    for command in (
        ["show", run],
        ["show", run, "--json"],
        ["ls", run.parent],
        ["ls", run.parent, "--json"],
        ["compare", run, run],
        ["report", run, "-f", "csv"],
        ["report", run, "-f", "markdown"],
        ["resume", run, "-q"],
        ["label", run, "other"],
        ["rm", run],
    ):
        done = fastopen(*command)
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", done.stdout + done.stderr), (
            command,
            done,
        )


def test_a_query_that_takes_long_gives_way_to_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_limits, "STEPS", 10**15)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    database = sqlite3.connect(":memory:")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    try:
        with pytest.raises(KeyboardInterrupt):
            list(Limits(database, tmp_path).rows(endless))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        database.close()
