"""Listing kept runs with the facts that distinguish them, and removing a run without any other file."""

import shutil
from pathlib import Path

import pytest

from fastopen.common.errors import InputError
from fastopen.runs import list_runs, remove_run, run_folders
from fastopen.runs.database import FolderLock
from made_up_run import made_up_page, made_up_plan, made_up_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    plan = made_up_plan([made_up_page("small")], rtts_ms=(20, 100), repeats=1)
    return made_up_run(tmp_path / "kept", plan)


def test_a_list_of_runs_says_page_network_and_client(run: Path) -> None:
    (listed,) = list_runs(run.parent)
    assert (listed.pages, listed.networks, listed.clients) == (("small",), "20, 100 ms", ("loader",))


def test_a_run_is_removed_with_its_exports_and_report(run: Path) -> None:
    (run / "report.html").write_text("report")
    (run / "csv").mkdir()
    (run / "csv" / "loads.csv").write_text("loads")
    assert remove_run(run) > 0
    assert not run.exists()


def test_a_folder_with_something_else_in_it_is_not_removed(run: Path) -> None:
    (run / "notes").mkdir()
    (run / "notes" / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"contains notes/thesis.tex, which is not part of a run"):
        remove_run(run)
    assert (run / "notes" / "thesis.tex").exists()


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
