"""Listing runs with the facts that distinguish them, and removing a run but no other file."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fastopen.common.errors import InputError
from fastopen.runs import find_run, list_runs, remove_run, run_folders
from fastopen.runs.database import FolderLock
from made_up_run import made_up_page, made_up_plan, made_up_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    plan = made_up_plan([made_up_page("small")], rtts_ms=(20, 100), repeats=1)
    return made_up_run(tmp_path / "kept", plan)


def test_a_list_of_runs_says_page_network_and_client(run: Path) -> None:
    (listed,) = list_runs(run.parent)
    assert (listed.pages, listed.networks, listed.clients) == (("small",), "20, 100 ms", ("loader",))


def test_a_list_of_runs_ends_with_folders_that_may_not_be_read(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = shutil.copytree(run, run.parent / "closed")
    iterdir = Path.iterdir

    def refused(path: Path) -> Iterator[Path]:
        if path == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", refused)
    listed = [(one.folder, one.status) for one in list_runs(run.parent)]
    assert listed == [(run, "finished"), (closed, "cannot be read: Permission denied")]


def test_a_run_is_removed_with_its_exports_and_report(run: Path) -> None:
    (run / "report.html").write_text("report")
    (run / "csv").mkdir()
    (run / "csv" / "loads.csv").write_text("loads")
    (run / "har").mkdir()
    (run / "har" / "000001-small@20ms#0-tcp.har").write_text("load")
    assert remove_run(run) > 0
    assert not run.exists()


@pytest.mark.parametrize(
    "own",
    [
        "notes/thesis.tex",
        "thesis/book.html",
        "data.csv",
        "csv/notes.txt",
        "csv/mine.csv",
        "csv/a/loads.csv",
        "run.sqlite-notes",
    ],
)
def test_a_folder_with_something_else_in_it_is_not_removed(run: Path, own: str) -> None:
    (run / own).parent.mkdir(parents=True, exist_ok=True)
    (run / own).write_text("mine")
    with pytest.raises(InputError, match=f"contains {own}, which is not part of a run"):
        remove_run(run)
    assert (run / own).read_text() == "mine"


@pytest.mark.parametrize("make", [lambda path: path.write_text("mine"), Path.mkdir, os.mkfifo])
def test_what_only_has_the_name_of_a_run_is_not_removed(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "run.sqlite")
    with pytest.raises(InputError, match="is not a run's file"):
        remove_run(tmp_path)
    assert (tmp_path / "run.sqlite").exists()


def test_a_pipe_beside_a_run_is_not_waited_for(run: Path) -> None:
    (run / "run.sqlite-notes").mkdir()
    (listed,) = list_runs(run)
    assert listed.status == "finished"
    os.mkfifo(run / "run.sqlite-journal")
    (listed,) = list_runs(run)
    assert listed.status == "run.sqlite-journal is not a file"


def test_a_name_that_no_file_can_have_is_the_users_error() -> None:
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        find_run("a" * 300)


def test_neither_is_a_run_that_is_being_written_nor_a_folder_without_one(run: Path, tmp_path: Path) -> None:
    lock = FolderLock(run)
    with pytest.raises(InputError, match="another process is executing this run"):
        remove_run(run)
    lock.close()
    with pytest.raises(InputError, match="not a kept run"):
        remove_run(tmp_path)


def test_a_hidden_folder_is_a_copy_under_way_and_no_run(run: Path) -> None:
    shutil.copytree(run, run.parent / f".{run.name}")
    assert run_folders(run.parent) == [run]
