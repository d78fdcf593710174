"""Importing mirrors of sites on disk: hosts and paths from file names, references from the files' text."""

from __future__ import annotations

import gzip
import hashlib
import time
from pathlib import Path

import pytest

from fastopen.common.errors import InputError
from fastopen.pages import ImportedPage, load_pages
from fastopen.pages.importers.mirror import holds
from pages.hars import noted
from pages.sites import INITIATORS, ROOT, initiators, site
from places import SHARED

SNAPSHOT = SHARED / "inputs" / "snapshot2013"
EXPECTED = {url: by for url, by in INITIATORS.items() if url != "http://a.test/old"} | {
    "http://a.test/": None
}


def write(folder: Path, name: str, body: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)


def mirror(folder: Path) -> Path:
    """Write the small site to a folder, in the layout of `wget -p -H`. Return the folder."""
    for answer in site():
        if answer.status == 200:
            name = answer.url.removeprefix("http://")
            body = gzip.decompress(answer.body) if answer.coding else answer.body
            write(folder, name + "index.html" if name.endswith("/") else name, body)
    return folder


def only(folder: Path) -> ImportedPage:
    (page,) = load_pages([folder])
    return page


def test_each_file_is_asked_for_by_what_names_it(tmp_path: Path) -> None:
    found = only(mirror(tmp_path / "my"))
    assert initiators(found) == EXPECTED
    assert found.page.name == "my"
    assert found.page.resources[0].type == "document"


def test_types_come_from_the_place_that_names_a_file(tmp_path: Path) -> None:
    types = {r.url.rpartition("/")[2]: r.type for r in only(mirror(tmp_path)).page.resources}
    assert types["a.woff2"] == "font"
    assert types["s.css?v=1"] == "stylesheet"
    assert types["f.html"] == "document"
    assert types["some-numbers.json"] == "xhr"


def test_what_nothing_names_is_left_out_and_counted(tmp_path: Path) -> None:
    write(mirror(tmp_path), "a.test/forgotten.png", b"...")
    found = only(tmp_path)
    assert initiators(found) == EXPECTED
    assert noted(found.page)["elsewhere"] == 1


def test_scripts_for_browsers_without_modules_are_left_out(tmp_path: Path) -> None:
    """wget fetches scripts with `nomodule`, but browsers that support modules do not."""
    page = b"<!doctype html><script nomodule src=/old.js></script><script type=module src=/new.js></script>"
    for name, body in (("index.html", page), ("old.js", b"1"), ("new.js", b"2")):
        write(tmp_path, f"a.test/{name}", body)
    assert initiators(only(tmp_path)) == {"http://a.test/": None, "http://a.test/new.js": "http://a.test/"}


def test_texts_are_served_as_gzip_makes_them(tmp_path: Path) -> None:
    words = ROOT + b"<p>" + b"so many words " * 200
    write(mirror(tmp_path), "a.test/index.html", words)
    found = only(tmp_path)
    assert gzip.decompress(found.bodies[0]) == words
    assert found.page.resources[0].body_bytes == len(found.bodies[0]) < len(words) / 2
    sheet = found.page.resources[1]
    assert sheet.initiator_at_bytes is not None
    assert sheet.initiator_at_bytes < found.page.resources[0].body_bytes / 5


def test_names_for_windows_and_adjusted_names_are_found(tmp_path: Path) -> None:
    page = b'<link rel=stylesheet href="s.css?v=1"><script src="http://b.test:8080/go.php?x=1"></script>'
    write(tmp_path, "a.test/index.html", page + b'<iframe src="frame?id=2"></iframe><img src="a%20b.png">')
    write(tmp_path, "a.test/s.css@v=1.css", b"p { color: red }")
    write(tmp_path, "a.test/frame@id=2.html", b"<p>framed")
    write(tmp_path, "a.test/a b.png", b"...")
    write(tmp_path, "b.test+8080/go.php@x=1", b"var x = 1")
    hosts = {r.url: r.host for r in only(tmp_path).page.resources}
    assert len(hosts) == 5
    assert "http://b.test:8080/go.php?x=1" in hosts


def test_links_that_wget_converted_to_paths_are_followed(tmp_path: Path) -> None:
    page = b'<img src="../../b.test/one.png%3Fa=1"><script src="js/x.js"></script><link rel=icon href=no>'
    write(tmp_path, "a.test/deep/index.html", page)
    write(tmp_path, "a.test/deep/js/x.js", b"var x")
    write(tmp_path, "b.test/one.png?a=1", b"...")
    resources = only(tmp_path).page.resources
    # The URL that a browser requests because of the link as wget has converted it.
    assert resources[1].alternatives == ("http://a.test/b.test/one.png%3Fa=1",)
    assert [r.url for r in resources] == [
        "http://a.test/deep/",
        "http://b.test/one.png?a=1",
        "http://a.test/deep/js/x.js",
    ]


def test_copies_from_before_wget_converted_links_are_contents_and_no_pages(tmp_path: Path) -> None:
    served = b"<!doctype html>" + b"".join(b'<img src="http://a.test/%d.png">' % n for n in range(6))
    for name, copy in (("index.html", "index.html.orig"), ("b.php?x=1.html", "b.php?x=1.orig")):
        write(tmp_path, f"a.test/{name}", served.replace(b"http://a.test/", b""))
        write(tmp_path, f"a.test/{copy}", served)
    for number in range(6):
        write(tmp_path, f"a.test/{number}.png", b"\x89PNG")
    found = load_pages([tmp_path])
    assert [one.page.url for one in found] == ["http://a.test/", "http://a.test/b.php?x=1.html"]
    assert [(one.bodies[0], len(one.page.resources)) for one in found] == [(served, 7)] * 2


def test_files_named_by_checksums_of_their_paths_are_found(tmp_path: Path) -> None:
    long = "/pictures.cgi?" + "x" * 300
    name = hashlib.md5(long.encode()).hexdigest()
    write(tmp_path, "a.test/index.html", f'<img src="http://b.test{long}">'.encode())
    write(tmp_path, f"b.test/{name}", b"GIF89a...")
    image = only(tmp_path).page.resources[1]
    assert (image.url, image.type, image.mime) == (f"http://b.test/{name}", "image", "image/gif")
    assert image.alternatives == (f"http://b.test{long}",)


def test_a_mirror_without_folders_of_hosts_is_one_host(tmp_path: Path) -> None:
    write(tmp_path / "site", "index.html", b'<img src="a.png">')
    write(tmp_path / "site", "a.png", b"...")
    assert [r.url for r in only(tmp_path / "site").page.resources] == [
        "http://mirror.example/",
        "http://mirror.example/a.png",
    ]


def test_a_mirror_of_several_pages_gives_each_of_them(tmp_path: Path) -> None:
    for host in ("a.test", "b.test"):
        images = "".join(f'<img src="{number}.png">' for number in range(6))
        write(tmp_path, f"{host}/index.html", images.encode())
        for number in range(6):
            write(tmp_path, f"{host}/{number}.png", b"...")
    assert [page.page.url for page in load_pages([tmp_path])] == ["http://a.test/", "http://b.test/"]


def test_a_url_is_found_in_a_mirror_that_is_given_as_library(tmp_path: Path) -> None:
    mirror(tmp_path / "my")
    (found,) = load_pages(["http://a.test/"], [tmp_path / "my"])
    assert initiators(found) == EXPECTED


def test_a_list_reads_a_mirror_only_once(tmp_path: Path) -> None:
    write(mirror(tmp_path / "my"), "a.test/large", b"." * 300_000)
    (tmp_path / "my.pages").write_text("a.test/\nframe.test/f.html\n" * 9)
    found = load_pages([tmp_path / "my.pages"], [tmp_path / "my"], max_unpacked=1_000_000)
    assert [one.page.url for one in found[:2]] == ["http://a.test/", "http://frame.test/f.html"]
    assert len(found) == 18


@pytest.mark.parametrize("name", ["b.test", "http/b.test"])
def test_a_symbolic_link_out_of_the_mirror_is_not_followed(tmp_path: Path, name: str) -> None:
    mirror(tmp_path / "my" / name.removesuffix("b.test"))
    write(tmp_path, "secret/one.png", b"...")
    for number in range(500):
        (tmp_path / "secret" / f"{number}").mkdir()
    (tmp_path / "my" / name).symlink_to(tmp_path / "secret")
    (found,) = load_pages([tmp_path / "my"], max_unpacked=2000 * 512)
    assert initiators(found) == EXPECTED


def test_a_folder_with_only_a_link_out_of_it_is_no_mirror(tmp_path: Path) -> None:
    write(tmp_path, "secret/b.test/one.png", b"...")
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "b.test").symlink_to(tmp_path / "secret" / "b.test")
    assert holds(tmp_path / "secret")
    assert not holds(tmp_path / "my")


def test_folders_of_a_mirror_cost_work(tmp_path: Path) -> None:
    write(tmp_path, "a.test/index.html", b"<p>")
    for number in range(500):
        (tmp_path / "a.test" / f"{number}").mkdir()
    with pytest.raises(InputError, match="takes more work"):
        load_pages([tmp_path], max_unpacked=1000 * 512)


def test_a_folder_of_something_else_is_an_error_that_says_what_was_looked_for(tmp_path: Path) -> None:
    write(tmp_path, "notes.txt", b"hello")
    with pytest.raises(InputError, match=r"holds no HAR.* website mirror or Mahimahi recording"):
        load_pages([tmp_path])


def test_the_snapshot_of_2013_holds_the_papers_four_pages() -> None:
    if not SNAPSHOT.is_dir():
        pytest.skip("no snapshot (../shared/inputs/snapshot2013)")
    found = {page.page.url: len(page.page.resources) for page in load_pages([SNAPSHOT])}
    assert set(found) == {
        "http://www.nytimes.com/",
        "http://www.wsj.com/",
        "http://www.amazon.com/",
        "http://en.wikipedia.org/wiki/Transmission_Control_Protocol",
    }
    assert min(found.values()) > 15


@pytest.mark.parametrize("start", [b"/**/" * 900, b"<!-- -->" * 400, b" " * 4000])
def test_what_a_file_is_is_told_quickly_whatever_it_begins_with(tmp_path: Path, start: bytes) -> None:
    write(tmp_path, "a.test/index.html", b"<p>")
    write(tmp_path, "a.test/odd", start + b"\x00")
    begun = time.process_time()
    load_pages([tmp_path])
    assert time.process_time() - begun < 5


def test_files_that_wget_left_compressed_are_served_so(tmp_path: Path) -> None:
    folder = mirror(tmp_path / "my")
    packed = gzip.compress(ROOT, mtime=0)
    write(folder, "a.test/index.html", packed)
    found = only(folder)
    assert initiators(found) == EXPECTED
    assert found.page.resources[0].body_bytes == len(packed)
    assert found.bodies[0] == packed
    assert "compressed" not in noted(found.page)
