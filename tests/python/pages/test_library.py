"""Finding pages by file, by URL and by name."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zipfile
from pathlib import Path

import pytest
import zstandard

from fastopen.common.errors import InputError
from fastopen.pages import load_pages, packaged_pages, write_page
from fastopen.pages.importers.notes import SENTENCES
from fastopen.pages.library import MAX_LIST_CHARACTERS, LeftOutWarning, damage_notes
from fastopen.pages.model import Page, parse_page
from pages.hars import entry, har


def a_page(url: str, name: str = "a page") -> Page:
    root = {"url": url, "type": "document", "body_bytes": 10, "initiator": None}
    head = {"format": "fastopen-page/1", "name": name, "url": url, "source": "a test"}
    return parse_page(head | {"initiators": "declared", "resources": [root]}, "p")


def test_a_packaged_page_is_found_by_its_name() -> None:
    (found,) = load_pages(["example"])
    assert found.page.name == "example"
    assert "example" in packaged_pages()


def test_a_folder_of_recordings_is_a_page_each(tmp_path: Path) -> None:
    for name in ("b", "a"):
        text = json.dumps(har(entry("http://www.a.test/")))
        (tmp_path / f"{name}.har").write_text(text)
    (tmp_path / "notes.txt").write_text("not a page")
    assert [found.page.name for found in load_pages([tmp_path])] == ["a", "b"]


def test_a_folder_without_a_page_does_not_hide_the_packaged_page_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("example", "other"):
        Path(name).mkdir()
        (Path(name) / "run.sqlite").write_bytes(b"a run that is kept here")
    (found,) = load_pages(["example"])
    assert found.page.name == "example"
    with pytest.raises(InputError, match="other: the folder holds no HAR"):
        load_pages(["other"])


def test_a_damaged_file_of_a_folder_is_named_with_how_to_leave_it_out(tmp_path: Path) -> None:
    (tmp_path / "a.har").write_text(json.dumps(har(entry("http://www.a.test/"))))
    (tmp_path / "b.har").write_text('{"log":')
    with pytest.raises(InputError, match=r"b\.har: .*malformed JSON.*, or skip damaged files with --lenient"):
        load_pages([tmp_path])
    assert len(load_pages([tmp_path / "a.har"])) == 1


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match=r"exampel: no such file .*did you mean the packaged page example\?"):
        load_pages(["exampel"])


@pytest.mark.parametrize(
    "line", ["http://www.a.test", "www.a.test/", "HTTP://WWW.A.TEST:80/#top", "  http://www.a.test/  "]
)
def test_a_list_finds_its_pages_however_the_url_is_written(tmp_path: Path, line: str) -> None:
    write_page(a_page("http://www.a.test/"), tmp_path / "a.page.json")
    (tmp_path / "my.pages").write_text(f"# a comment\n\n{line}\n")
    (found,) = load_pages([tmp_path / "my.pages"])
    assert found.page.url == "http://www.a.test/"


def test_a_list_finds_the_packaged_pages_too(tmp_path: Path) -> None:
    (tmp_path / "my.pages").write_text("\ufeffexample.com\r\n")
    assert load_pages([tmp_path / "my.pages"])[0].page.name == "example"


def test_the_folder_of_the_list_goes_before_the_packaged_pages(tmp_path: Path) -> None:
    write_page(a_page("http://example.com/", "mine"), tmp_path / "x.page.json")
    (tmp_path / "my.pages").write_text("example.com")
    assert load_pages([tmp_path / "my.pages"])[0].page.name == "mine"


def test_a_url_that_is_not_there_is_named_with_line_and_near_matches(tmp_path: Path) -> None:
    write_page(a_page("http://www.a.test/"), tmp_path / "a.page.json")
    (tmp_path / "my.pages").write_text("http://www.a.test/\nhttp://a.test/\n")
    with pytest.raises(InputError) as caught:
        load_pages([tmp_path / "my.pages"])
    assert "my.pages: line 2: no recording of http://a.test/" in str(caught.value)
    assert "http://www.a.test" in caught.value.remedy


def test_an_unreadable_file_in_the_library_is_told_when_it_may_matter(tmp_path: Path) -> None:
    (tmp_path / "broken.har").write_text('{"log": ')
    (tmp_path / "my.pages").write_text("example.com\n")
    assert load_pages([tmp_path / "my.pages"])[0].page.name == "example"
    (tmp_path / "my.pages").write_text("http://b.test\n")
    with (
        pytest.warns(LeftOutWarning, match=r"left out: broken\.har"),
        pytest.raises(InputError, match="no recording"),
    ):
        load_pages([tmp_path / "my.pages"])


def test_a_list_in_a_library_is_not_read_as_a_page(tmp_path: Path) -> None:
    (tmp_path / "list.har").write_text("http://nowhere.test/\n")
    with pytest.warns(LeftOutWarning, match=r"left out: list\.har"), pytest.raises(InputError):
        load_pages([tmp_path / "list.har"])


def test_notes_say_what_was_counted_and_those_of_damage_are_known() -> None:
    assert SENTENCES["internal"].format(n=2) == (
        "redirects left out, because the browser made them without a request (HSTS): 2"
    )
    assert SENTENCES["revisit"].format(n=3) == "responses whose body is in an earlier record: 3"
    assert SENTENCES["cached"].format(n=4) == "entries left out, because the browser's cache answered them: 4"
    damage = ["broken entries left out: 2", "damaged records left out: 1"]
    noted = a_page("http://a.test/").model_copy(update={"notes": (*damage, "initiators recorded: 1")})
    assert damage_notes(noted) == damage


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08nonsense", "damaged gzip"),
        (gzip.compress(b"{}" * 999, mtime=0)[:-9], "damaged gzip"),
        (b"<html>", "looks like HTML"),
        (b'format = "fastopen-experiment/1"', "an experiment, not a page; run fastopen reproduce"),
        (b"WARC/1.0\r\n", "has no request that a page could start with"),
        (
            b'192.0.2.1 - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 1',
            "a server's access log, not a page",
        ),
        (b"PK\x00\x01", "is a binary file"),
        (zstandard.compress(b'{"log": {}}'), "run zstd -d"),
        (bz2.compress(b'{"log": {}}'), "run bunzip2"),
        (b"BZh" + bytes(MAX_LIST_CHARACTERS), "run bunzip2"),
        (lzma.compress(b'{"log": {}}'), "run xz -d"),
        (b"\x5d\x2a\x4d\x18" + bytes(9), "dictionary"),
        (b"<html><pre>\nWARC/1.0\n</pre>", "looks like HTML"),
        (b"\nWARC/1.0\r\nWARC-Type: warcinfo\r\n\r\n", "is a WARC"),
        (b"MIME-Version: 1.0\nContent-Type: multipart/related;\n", "is MHTML"),
        (b'onInputData({"log": {}});', "is JSONP"),
        (b"# nothing\n", "has no URL"),
        (b"two words\n", "line 1: 'two words' is not"),
        (b"0.5\n", "line 1: '0.5' is not"),
        (b'{"log": }', "line 1 column 9: malformed JSON"),
        (b'{"x": 1}', "not a HAR or page"),
    ],
)
def test_a_file_of_another_kind_gets_an_error_that_says_so(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "given"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_pages([file])
    assert said in str(caught.value)


def test_a_file_of_toml_is_an_experiment_also_where_it_names_no_format(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('pages = ["example"]\n')
    with pytest.raises(InputError, match="an experiment, not a page"):
        load_pages([file])


def test_a_file_that_cannot_be_read_is_an_error_of_the_input() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_pages(["/proc/self/mem"])


def test_a_compressed_page_file_reads_like_a_plain_one(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(packaged_pages()["example"].read_bytes()))
    assert load_pages([tmp_path / "x"]) == load_pages(["example"])


def test_a_file_of_a_folder_that_cannot_be_read_is_left_out_by_name_where_that_is_allowed(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.har").write_text('{"log": {"entries": [')
    (tmp_path / "b.har").write_text(json.dumps(har(entry("http://www.a.test/"))))
    with pytest.raises(InputError, match=r"a\.har"):
        load_pages([tmp_path])
    with pytest.warns(LeftOutWarning, match=r"left out: .*a\.har"):
        assert [one.page.name for one in load_pages([tmp_path], lenient=True)] == ["b"]
    (tmp_path / "b.har").unlink()
    with pytest.raises(InputError, match=r"a\.har"):
        load_pages([tmp_path], lenient=True)


def test_what_is_missing_of_a_list_is_named_line_by_line_and_left_out_if_that_is_allowed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "some.pages"
    path.write_text("http://www.gnu.org/ an-alias\nhttp://a.test/\nhttp://b.test/ another\n")
    with pytest.raises(InputError, match=r"2 of 3 .*http://a.test/ \(line 2\), http://b.test/ \(line 3\)"):
        load_pages([path])
    with pytest.warns(LeftOutWarning) as left_out:
        (found,) = load_pages([path], lenient=True)
    assert found.page.name == "gnu"
    assert len(left_out) == 2
    path.write_text("http://a.test/\n")
    with pytest.raises(InputError, match="line 1"):
        load_pages([path], lenient=True)


@pytest.mark.parametrize("packed", [False, True])
def test_an_archive_of_before_warc_is_named_with_its_remedy(tmp_path: Path, packed: bool) -> None:
    record = b"filedesc://old.arc 0.0.0.0 20040101000000 text/plain 76\n1 0 Archive\n"
    path = tmp_path / "old.arc"
    path.write_bytes(gzip.compress(record) if packed else record)
    with pytest.raises(InputError) as raised:
        load_pages([path])
    assert "warcio recompress" in raised.value.remedy


def test_entries_without_a_log_are_neither_a_har_nor_a_page(tmp_path: Path) -> None:
    path = tmp_path / "entries.json"
    path.write_text('{"entries": []}')
    with pytest.raises(InputError, match="not a HAR"):
        load_pages([path])


def test_a_har_that_its_recorder_zipped_is_read_under_the_zips_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.zip"
    with zipfile.ZipFile(path, "w") as container:
        container.writestr("har.har", json.dumps(har(entry("http://a.test/"), on_load=80)))
        container.writestr("0123.css", "a{}")
    (found,) = load_pages([path])
    assert (found.page.name, found.page.url) == ("mine", "http://a.test/")
    with zipfile.ZipFile(path, "w") as container:
        container.writestr("a.css", "a{}")
    with pytest.raises(InputError, match="holds no recording"):
        load_pages([path])


@pytest.mark.parametrize("names", [["a.har", "b.har"], ["a.wacz"], ["a.WACZ", "b.wacz"]])
def test_a_zip_of_recordings_is_to_be_unpacked(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "crawl.wacz"
    with zipfile.ZipFile(path, "w") as container:
        for name in names:
            container.writestr(name, "x")
    with pytest.raises(InputError) as raised:
        load_pages([path])
    assert "unpack it" in raised.value.remedy
