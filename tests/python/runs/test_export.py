"""Exports of runs for other programs: written completely or not at all."""

import csv
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema_rs
import pyarrow.parquet as pq
import pytest

from fastopen.common.errors import InputError, MachineError
from fastopen.contract import LoadRecord
from fastopen.pages import load_pages
from fastopen.runs import RunStore
from fastopen.runs.database import FILE
from fastopen.runs.export import Format, export
from fastopen.runs.export import formats as export_formats
from fastopen.runs.export.har import _connection as har_connection
from fastopen.runs.flat_tables import TABLES
from made_up_run import load_data, made_up_page, made_up_plan, made_up_run
from places import GOLDEN
from runs.har_schema import SCHEMA


@pytest.fixture(name="kept")
def _kept(tmp_path: Path) -> Path:
    """Write a run of twelve loads of a page with twelve requests. The warm load of one job is invalid."""
    plan = made_up_plan([made_up_page("news, \N{SNOWMAN}")], rtts_ms=(20,), repeats=4)
    return made_up_run(tmp_path / "kept", plan, late=[plan.jobs[1].job.id])


def exported(kept: Path, form: Format, **options: Any) -> Path:
    place: Path = kept.parent / form
    with RunStore.open(kept) as run:
        export(run, place, form, **options)
    return place


def hars(folder: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.har"))]


def test_the_tables_hold_every_load_request_and_connection(kept: Path) -> None:
    place = exported(kept, "parquet")
    tables = {name: pq.read_table(place / f"{name}.parquet").to_pylist() for name in TABLES}
    assert {name: len(rows) for name, rows in tables.items()} == {
        "loads": 12,
        "requests": 144,
        "connections": 72,
        "evidence": 12,
        "tcp_samples": 0,
    }
    with RunStore.open(kept) as run:
        for row, flat in zip(run.loads(), tables["loads"], strict=True):
            record = run.load_record(row.job, row.load)
            assert (flat["job"], flat["id"], flat["valid"]) == (row.job, row.load, row.valid)
            assert flat["plt_ms"] == (record.plt_ns or 0) / 1e6
            requests = [one for one in tables["requests"] if one["load"] == flat["load"]]
            assert [one["end_ms"] for one in requests] == [(r.end_ns or 0) / 1e6 for r in record.requests]
            connections = [one for one in tables["connections"] if one["load"] == flat["load"]]
            carried = [one["client_syn_data_acked"] or one["origin_syn_data_acked"] for one in connections]
            assert [one["address"] for one in connections] == [one.address for one in record.connections]
            assert sum(carried) == flat["syn_data_connections"] == record.syn_data_connections
    (late,) = [one for one in tables["loads"] if not one["valid"]]
    assert late["invalid"] == "link_late: a packet left the link down 9.1 ms later than due"


def test_a_har_has_the_address_that_the_client_chose() -> None:
    hosts = {"a.test": "2001:2:0:19::1"}
    chosen = har_connection({"id": 1, "host": "a.test", "address": "198.19.0.1"}, hosts)
    assert chosen["serverIPAddress"] == "198.19.0.1"
    earlier = har_connection({"id": 1, "host": "a.test"}, hosts)
    assert earlier["serverIPAddress"] == hosts["a.test"], "runs of earlier versions"


def test_csv_says_the_same_as_parquet(kept: Path) -> None:
    parquet, plain = exported(kept, "parquet"), exported(kept, "csv")
    for name in TABLES:
        rows = pq.read_table(parquet / f"{name}.parquet").to_pylist()
        with (plain / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            read = list(csv.DictReader(file))
        assert read == [{key: "" if v is None else str(v) for key, v in row.items()} for row in rows]


def test_rows_go_to_the_disk_in_batches(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_formats, "BATCH", 50)
    file = pq.ParquetFile(exported(kept, "parquet") / "requests.parquet")
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [50, 50, 44]


@pytest.mark.slow
def test_each_load_is_a_har_that_keeps_to_the_format(kept: Path) -> None:
    documents = hars(exported(kept, "har"))
    assert len(documents) == 12
    for document in documents:
        jsonschema_rs.validate(SCHEMA, document)


def test_the_timings_of_a_har_add_up_to_the_load(kept: Path) -> None:
    place = exported(kept, "har")
    with RunStore.open(kept) as run:
        rows = run.loads()
        records = [run.load_record(row.job, row.load) for row in rows]
    for document, record in zip(hars(place), records, strict=True):
        (page,), entries = document["log"]["pages"], document["log"]["entries"]
        assert page["pageTimings"]["onLoad"] == (record.plt_ns or 0) / 1e6
        assert page["_fastopen"]["counters"] == record.counters.model_dump()
        for entry, request in zip(entries, record.requests, strict=True):
            assert request.queued_ns is not None
            assert request.end_ns is not None
            took_ms = (request.end_ns - request.queued_ns) / 1e6
            assert entry["time"] == pytest.approx(took_ms)
            spent = sum(value for value in entry["timings"].values() if value > 0)
            assert spent == pytest.approx(took_ms)
            carried = entry["_connection"]["client"]["syn_data_acked"]
            assert carried == record.connections[request.connection or 0].carried_syn_data


def test_a_handshake_that_began_before_its_request_was_queued_is_waiting(tmp_path: Path) -> None:
    plan = made_up_plan([made_up_page("page")], rtts_ms=[20], repeats=1)
    (planned,) = plan.jobs
    with RunStore.create(tmp_path / "run", plan, {}) as store:
        for number, load in enumerate(planned.job.loads):
            data = load_data(planned, load.cookies, number)
            data.update(id=load.id, transport=load.transport, cookies=load.cookies)
            late = data["requests"][1]
            late["connect_start_ns"] = late["queued_ns"] - 5_000_000
            late["connected_ns"] = late["sent_ns"] = late["queued_ns"] + 10_000_000
            raw = json.dumps(data)
            store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
        store.set_status("finished")
        export(store, tmp_path / "har", "har")
    for path in (tmp_path / "har").rglob("*.har"):
        timings = json.loads(path.read_text())["log"]["entries"][1]["timings"]
        assert (timings["blocked"], timings["connect"], timings["send"]) == (10, -1, 0)


def test_a_request_that_went_as_early_data_did_not_wait_for_tls(tmp_path: Path) -> None:
    plan = made_up_plan([made_up_page("page")], rtts_ms=[20], repeats=1)
    (planned,) = plan.jobs
    session = json.loads((GOLDEN / "load.json").read_text())["connections"][-1]["tls"]
    with RunStore.create(tmp_path / "run", plan, {}) as store:
        for number, load in enumerate(planned.job.loads):
            data = load_data(planned, load.cookies, number)
            data.update(id=load.id, transport=load.transport, cookies=load.cookies)
            first = data["requests"][0]
            data["connections"][0]["tls"] = {**session, "secured_ns": first["first_byte_ns"] - 1000}
            raw = json.dumps(data)
            store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
        store.set_status("finished")
        export(store, tmp_path / "har", "har")
    hars = [json.loads(path.read_text()) for path in (tmp_path / "har").rglob("*.har")]
    assert len(hars) == len(planned.job.loads)
    for har in hars:
        entry = har["log"]["entries"][0]
        timings = entry["timings"]
        assert (timings["ssl"], timings["send"]) == (0, 0)
        assert timings["wait"] == pytest.approx(20, abs=1.1)
        assert sum(value for key, value in timings.items() if key != "ssl" and value > 0) == pytest.approx(
            entry["time"]
        )


def test_a_har_that_was_written_can_be_loaded_again_as_the_same_page(kept: Path) -> None:
    place = exported(kept, "har")
    with RunStore.open(kept) as run:
        (page,) = run.pages().values()
    (imported,) = load_pages([str(sorted(place.glob("*.har"))[0])])
    asked = [(r.url, r.type, r.status, r.body_bytes, r.initiator) for r in page.resources]
    again = [(r.url, r.type, r.status, r.body_bytes, r.initiator) for r in imported.page.resources]
    assert sorted(again) == sorted(asked)


def test_what_no_load_event_waits_for_is_told_as_browsers_tell_it(tmp_path: Path) -> None:
    page = made_up_page("p", requests=4)
    late = page.resources[2].model_copy(update={"phase": "async"})
    page = page.model_copy(update={"resources": (*page.resources[:2], late, page.resources[3])})
    kept = made_up_run(tmp_path / "kept", made_up_plan([page], rtts_ms=(20,), repeats=1))
    of_url = {
        e["request"]["url"]: e["_resourceType"] for e in hars(exported(kept, "har"))[0]["log"]["entries"]
    }
    assert [of_url[resource.url] for resource in page.resources] == ["document", "image", "fetch", "image"]


def test_what_failed_or_never_began_is_told_as_such(tmp_path: Path) -> None:
    plan = made_up_plan([made_up_page("p", requests=4)], rtts_ms=(20,), repeats=1)
    planned = plan.jobs[0]
    data = load_data(planned, None, 0)
    data.update(id="tcp", transport="tcp", cookies=None, valid=False, plt_ns=None)
    data["invalid"] = [{"kind": "incomplete", "detail": "a request failed"}]
    none = ("sent_ns", "first_byte_ns", "end_ns", "status")
    data["requests"][1] |= {**dict.fromkeys(none), "error": "connection reset", "connected_ns": None}
    data["requests"][2] |= {**dict.fromkeys(none), "error": "timed out", "connect_start_ns": None}
    data["requests"][2] |= {"connection": None, "connected_ns": None}
    data["requests"][3] |= {**dict.fromkeys((*none, "queued_ns", "connect_start_ns")), "connection": None}
    raw = json.dumps(data)
    with RunStore.create(tmp_path / "kept", plan, {}) as store:
        store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
    (document,) = hars(exported(tmp_path / "kept", "har"))
    jsonschema_rs.validate(SCHEMA, document)
    log = document["log"]
    assert log["pages"][0]["pageTimings"]["onLoad"] == -1
    assert [entry["response"]["status"] for entry in log["entries"]] == [200, 0, 0]
    assert [entry["response"].get("_error") for entry in log["entries"]][1:] == [
        "connection reset",
        "timed out",
    ]
    assert exported(tmp_path / "kept", "parquet")


def test_the_loads_of_one_job_can_be_had_alone(kept: Path) -> None:
    with RunStore.open(kept) as run:
        job = list(run.jobs())[2]
        with pytest.raises(InputError, match="no job 'nonsense'"):
            export(run, kept.parent / "none", "har", job="nonsense")
    assert not (kept.parent / "none").exists()
    titles = [
        document["log"]["pages"][0]["_fastopen"]["job"] for document in hars(exported(kept, "har", job=job))
    ]
    assert titles == [job] * 3


def test_names_of_files_are_safe_whatever_a_page_is_called(tmp_path: Path) -> None:
    plan = made_up_plan([made_up_page("../../<b>\N{SNOWMAN}/" + "x" * 300)], rtts_ms=(20,), repeats=1)
    place = exported(made_up_run(tmp_path / "kept", plan), "har")
    assert len(list(place.iterdir())) == 3
    for path in place.iterdir():
        assert "/" not in path.name
        assert path.name.isascii()
        assert len(path.name) < 150


def test_an_export_that_breaks_off_leaves_nothing(kept: Path) -> None:
    def stop(done: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    forms: list[Format] = ["parquet", "csv", "har"]
    for form in forms:
        with pytest.raises(KeyboardInterrupt):
            exported(kept, form, watch=stop)
    assert sorted(path.name for path in kept.parent.iterdir() if path.name.startswith(("p", "c", "h"))) == []


@pytest.mark.parametrize("form", ["parquet", "csv", "har"])
def test_the_readable_loads_of_a_damaged_run_are_exported(kept: Path, form: Format) -> None:
    with closing(sqlite3.connect(kept / FILE)) as database, database:
        database.execute("UPDATE records SET record_zlib = x'00' WHERE load IN (2, 5)")
    with pytest.raises(InputError, match=r"kept: damaged: .*; readable loads exported: 10; run "):
        exported(kept, form)
    place = kept.parent / form
    assert len(hars(place) if form == "har" else rows_of(place / f"loads.{form}")) == 10
    with closing(sqlite3.connect(kept / FILE)) as database, database:
        database.execute("UPDATE records SET record_zlib = x'00'")
    with pytest.raises(InputError, match="kept: damaged"):
        exported(kept, form, replace=True)
    with RunStore.open(kept) as run, pytest.raises(InputError, match="kept: damaged"):
        export(run, kept.parent / "none", form)
    assert not (kept.parent / "none").exists()


def rows_of(table: Path) -> list[Any]:
    if table.suffix == ".parquet":
        return list(pq.read_table(table).to_pylist())
    return [*csv.DictReader(table.read_text().splitlines())]


def test_an_export_never_overwrites_and_clears_what_a_killed_one_left(kept: Path) -> None:
    left, own = kept.parent / ".csv.fastopen-unfinished", kept.parent / "csv.unfinished"
    for folder in (left, own):
        folder.mkdir()
        (folder / "loads.csv").write_text("half")
    place = exported(kept, "csv")
    assert not left.exists()
    assert (own / "loads.csv").read_text() == "half"
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(InputError, match="exists already"):
        exported(kept, "csv")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_force_replaces_an_export_and_nothing_else(kept: Path) -> None:
    place = exported(kept, "csv")
    (place / "loads.csv").write_text("old")
    exported(kept, "csv", replace=True)
    assert (place / "loads.csv").read_text() != "old"
    for own in ("thesis.tex", "holiday.png"):
        (place / own).write_text("mine")
        with pytest.raises(InputError, match="contains files that are not an export"):
            exported(kept, "csv", replace=True)
        assert (place / own).read_text() == "mine"
        (place / own).unlink()


LIMITED = """
import resource, signal, sys
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
sys.argv = ["fastopen", "export", *sys.argv[1:]]
from fastopen.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "csv", "har"])
def test_a_full_disk_is_told_and_leaves_nothing(kept: Path, form: str) -> None:
    place = kept.parent / "out"
    command = [sys.executable, "-c", LIMITED, str(kept), "--format", form, "--output", str(place)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.startswith(f"error: {place}: cannot be written: ")
    assert "free some space there" in ended.stderr
    assert sorted(path.name for path in kept.parent.iterdir() if path.name.startswith("out")) == []


def test_a_disk_that_fails_is_a_fault_of_the_machine(kept: Path) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(MachineError, match="No space left on device; nothing was"):
        exported(kept, "csv", watch=full)


def test_the_screenshots_of_loads_become_pictures_named_after_them(tmp_path: Path) -> None:
    client = {"kind": "chromium", "screenshot": True}
    plan = made_up_plan([made_up_page("p")], rtts_ms=(20,), repeats=1, setups=[{"client": client}])
    planned = plan.jobs[0]
    with RunStore.create(tmp_path / "kept", plan, {}) as store:
        for load, shown in ((planned.job.loads[0].id, "UE5H"), (planned.job.loads[1].id, None)):
            data = load_data(planned, None, 0) | {"id": load}
            times = dict.fromkeys(("load_event_ns", "dom_content_loaded_ns"), 1)
            paints = dict.fromkeys(("first_contentful_paint_ns", "largest_contentful_paint_ns"))
            data["browser"] = {"product": "Chrome/1", **times, **paints, "screenshot_png": shown}
            raw = json.dumps(data)
            store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
    place = exported(tmp_path / "kept", "png")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {
        f"000001-p@20ms#0-{planned.job.loads[0].id}.png": b"PNG"
    }


def test_a_run_without_screenshots_says_how_to_ask_for_them(kept: Path) -> None:
    with pytest.raises(InputError, match="has no screenshots"):
        exported(kept, "png")
    assert not (kept.parent / "png").exists()
