"""The index of a corpus: a row for each page, and the names of damaged files."""

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from command_line import fastopen
from fastopen.common.errors import InputError
from fastopen.pages.corpus import COLUMNS, corpus_files, index_file, index_pages
from pages.hars import entry, har


def corpus(folder: Path) -> Path:
    """Make a corpus of three HARs in nested folders, one of them damaged, and a file that is not a page."""
    (folder / "deep" / "er").mkdir(parents=True)
    entries = [
        entry("http://a.test/"),
        entry("http://b.other/1.png", 100),
        entry("http://=c.test/2.png", 100),
    ]
    whole = json.dumps(har(*entries[:2]))
    (folder / "b.har").write_text(whole)
    with gzip.open(folder / "deep" / "er" / "a.HAR.gz", "wt") as file:
        file.write(whole)
    (folder / "deep" / "torn.har").write_text(whole[: len(whole) // 2])
    (folder / "notes.txt").write_text("none")
    return folder


def test_files_of_a_corpus_are_found_at_any_depth_in_order(tmp_path: Path) -> None:
    found = [str(path.relative_to(tmp_path)) for path in corpus_files([corpus(tmp_path)])]
    assert found == ["b.har", "deep/torn.har", "deep/er/a.HAR.gz"]
    with pytest.raises(InputError, match="no such folder"):
        list(corpus_files([tmp_path / "nothing"]))


def test_a_row_has_the_facts_of_a_page(tmp_path: Path) -> None:
    indexed = index_file(corpus(tmp_path) / "b.har", False, 10**9)
    (row,) = indexed.rows
    assert tuple(row) == COLUMNS
    wanted = {"url": "http://a.test/", "requests": 2, "hosts": 2, "third_parties": 1, "depth": 2}
    assert {name: row[name] for name in wanted} == wanted


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    indexed = index_file(corpus(tmp_path) / "deep" / "torn.har", False, 10**9)
    assert indexed.rows == ()
    assert "torn.har" in indexed.error


def test_processes_give_rows_in_the_order_of_files(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.har").write_text(json.dumps(har(entry("http://a.test/"))))
    files = list(corpus_files([tmp_path]))
    found = list(index_pages(iter(files), lenient=False, max_unpacked=10**9, processes=2))
    assert [one.file for one in found] == files
    assert all(len(one.rows) == 1 for one in found)


def test_the_command_writes_csv_and_names_what_is_damaged(tmp_path: Path) -> None:
    done = fastopen("page", "index", corpus(tmp_path), "--jobs", "1")
    assert done.returncode == 1
    assert len(list(csv.DictReader(io.StringIO(done.stdout)))) == 2
    assert "torn.har" in done.stderr
    assert done.stderr.endswith("2 pages in 3 files, 1 of them damaged\n")
    for path in corpus_files([tmp_path]):
        if path.name != "torn.har":
            path.unlink()
    done = fastopen("page", "index", tmp_path)
    assert done.stderr.endswith("0 pages in 1 file, 1 of them damaged\n")
