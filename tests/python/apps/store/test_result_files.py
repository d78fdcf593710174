"""A store of results in a folder or at a URL: both must give the same guarantees."""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from apps.store.test_results_store import DAY_S, MAKER, MadeUpEngine, executed, plan_of
from fastopen.apps.store.results import facts, open_store, prune, verify
from fastopen.common.errors import InputError, MachineError
from fastopen.contract import Job
from fastopen.engines import ResultsStore, StoredEngine, loads_in
from fastopen.engines.result_files import RemoteFiles, ResultFiles, files_at


@pytest.fixture(params=["folder", "file", "memory", "chained"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield a place for a store: a folder, a file URL, a URL of storage in memory, or a chained URL."""
    yield {
        "folder": str(tmp_path / "store"),
        "file": f"file://{tmp_path}/store",
        "memory": f"memory://{tmp_path.name}/a store",
        "chained": f"dir::memory://{tmp_path.name}/inner",
    }[request.param]
    fsspec.filesystem("memory").store.clear()


def jobs() -> list[Job]:
    return [one.job for one in plan_of(repeats=1).jobs]


def filled(place: str, engine: MadeUpEngine | None = None) -> ResultsStore:
    store = ResultsStore(place)
    list(StoredEngine(engine or MadeUpEngine(), store, MAKER).run(jobs(), {}))
    return store


def test_a_file_appears_whole_and_once(place: str) -> None:
    files = files_at(place)
    assert files.names() == []
    assert not files.exists("ab/abc")
    with pytest.raises(FileNotFoundError):
        files.read("ab/abc", 10)
    assert files.write("ab/abc", b"first")
    assert not files.write("ab/abc", b"second")
    assert files.exists("ab/abc")
    assert (files.read("ab/abc", 100), files.read("ab/abc", 3)) == (b"first", b"fir")
    files.write("ab/abc", b"third", replace=True)
    assert files.read("ab/abc", 100) == b"third"
    files.write("cd/cde", b"", replace=True)
    files.write("disputed/x.kept", b"x")
    files.write("mark", b"m")
    kept = [*files.kept()]
    assert [(file.name, file.bytes, file.unfinished) for file in kept] == [
        ("ab/abc", 5, False),
        ("cd/cde", 0, False),
    ]
    assert sorted(files.names()) == ["ab", "cd", "disputed", "mark"]
    assert files.names("disputed") == ["x.kept"]
    assert files.names("nothing") == []
    files.remove("ab/abc")
    files.remove("ab/abc")
    assert not files.exists("ab/abc")


def test_a_file_in_the_place_of_a_folder_is_an_error(place: str) -> None:
    files = files_at(place)
    files.write("disputed", b"a file")
    with pytest.raises(OSError, match="disputed"):
        files.write("disputed/x.kept", b"x", replace=True)


def test_of_writers_at_once_one_is_first(place: str) -> None:
    files = files_at(place)
    first: list[bool] = []
    threads = [
        threading.Thread(target=lambda: first.append(files.write("ab/abc", b"same"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(first) == 1
    assert files.read("ab/abc", 10) == b"same"


def test_a_run_is_the_same_wherever_the_store_is(place: str, tmp_path: Path) -> None:
    plan = plan_of()
    without = executed(tmp_path / "without", plan, MadeUpEngine())
    engine = StoredEngine(MadeUpEngine(), ResultsStore(place), MAKER)
    assert executed(tmp_path / "first", plan, engine) == without
    again = MadeUpEngine()
    engine = StoredEngine(again, ResultsStore(place), MAKER)
    assert executed(tmp_path / "second", plan, engine) == without
    assert (again.done, engine.store.found, engine.store.complaint) == ([], plan.loads(), "")


def test_a_store_is_looked_over_pruned_and_verified(place: str) -> None:
    with pytest.raises(InputError, match="not a store of results"):
        open_store(place)
    filled(place)
    store = open_store(place)
    found = facts(store)
    assert (found.results, found.damaged, found.disputed) == (len(jobs()), 0, 0)
    assert verify(store, MadeUpEngine(), MAKER, 1.0).same == len(jobs())
    again = verify(store, MadeUpEngine(late=1), MAKER, 0.0001)
    ((key, kept, _),) = again.disputed
    assert place.removeprefix("file://").removeprefix("dir::") in kept.removeprefix("dir::")
    assert not store.files.exists(store.name(key))
    assert facts(store).disputed == 1
    first, *_ = store.files.kept()
    store.files.write(first.name, b"torn", replace=True)
    assert facts(store).damaged == 1
    assert prune(store, 4e9) == (1, 4)
    left = len(jobs()) - 2
    assert prune(store, 4e9, older_than_s=DAY_S)[0] == left


def test_what_is_no_store_is_left_alone(place: str) -> None:
    files_at(place).write("my/file", b"mine")
    with pytest.raises(InputError, match="is not empty and not a store"):
        ResultsStore(place)


def test_storage_that_fails_costs_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreachable(Exception):  # noqa: N818  # as libraries of protocols have them
        """An error of a storage library that is not an OSError."""

    def fail(*_: object, **__: object) -> Any:
        raise Unreachable("the endpoint does not answer")

    store = ResultsStore("memory://failing")
    for name in ("cat_file", "pipe_file", "exists"):
        monkeypatch.setattr(type(fsspec.filesystem("memory")), name, fail)
    engine = MadeUpEngine()
    events = list(StoredEngine(engine, store, MAKER).run(jobs(), {}))
    assert len(list(loads_in(events))) == sum(len(job.loads) for job in jobs())
    assert store.complaint == "memory://failing: cannot be read: the endpoint does not answer"
    with pytest.raises(InputError, match="the endpoint does not answer"):
        open_store("memory://failing")


def test_folders_are_made_where_storage_has_them_but_no_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    memory = type(fsspec.filesystem("memory"))
    write = memory.pipe_file

    def strict(self: Any, path: str, value: bytes, mode: str) -> None:
        if path.rpartition("/")[0] not in made:
            raise FileNotFoundError(path)
        write(self, path, value, mode=mode)

    monkeypatch.setattr(memory, "pipe_file", strict)
    monkeypatch.setattr(memory, "mkdir", lambda _, path, **__: made.append(path))
    assert files_at("memory://bucket/a/store").write("ab/abc", b"x")
    assert made == ["/bucket/a", "/bucket/a/store", "/bucket/a/store/ab"]
    with pytest.raises(InputError, match="memory://misspelled: cannot be written"):
        ResultsStore("memory://misspelled")


def test_times_of_objects_are_read_however_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    files: ResultFiles = RemoteFiles("memory://times")
    given: dict[str, dict[str, Any]] = {
        "ab/a": {"LastModified": "2001-09-09T01:46:40+00:00"},
        "ab/b": {"mtime": 1e9},
        "ab/c": {},
    }

    def found(*_: object, **__: object) -> Any:
        return {f"/times/{name}": {"size": 1, **facts} for name, facts in given.items()}

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "find", found)
    assert [file.written_s for file in files.kept()] == [1e9, 1e9, float("inf")]


def test_a_url_that_cannot_be_used_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="nobody://there"):
        files_at("nobody://there")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MachineError, match="pip install fsspec"):
        files_at("memory://there")
    assert os.fspath("a/folder") == files_at("a/folder").place
