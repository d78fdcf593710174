"""The paper's four pages, reproduced bit for bit from saved bodies and the browser's logs."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from fastopen.common.errors import InputError
from fastopen.pages import packaged_pages, read_page
from fastopen.pages.references import find_reference
from packaged_pages.handwritten import cs244_2015
from packaged_pages.shorter import shortened
from packaged_pages.snapshot.__main__ import PAGES, main, make_pages
from packaged_pages.snapshot.bodies import Body, file_of, never_compressed, url_of
from packaged_pages.snapshot.build import build_page
from packaged_pages.snapshot.fetchlog import parse_fetchlog
from places import SHARED

INPUTS = SHARED / "inputs"

LOG = """\
*** Renamed /s.js?long to /0123456789abcdef0123456789abcdef ***
<stats>
c:URLRequestCount:	4
t:tfo.page_load_timer:	900
c:tcp.write_bytes:	{written}
c:tcp.read_bytes:	{read}
</stats>

<transactions>
strt (ms) | end (ms)  | len (ms)  | url
  100.000 |   200.000 |   100.000 | http://a.test/
  210.000 |   400.000 |   190.000 | http://www.a.test/
  350.000 |   500.000 |   150.000 | http://b.test/s.js?long
  560.000 |   700.000 |   140.000 | http://b.test/pictures/one.png
</transactions>

<responses>
status       | mime_type       | charset | url -> redirect_url
Moved Permanently |  text/html |         | http://a.test/ -> http://www.a.test/
          OK |       text/html |   utf-8 | http://www.a.test/ -> nil
          OK | text/javascript |         | http://b.test/s.js?long -> nil
          OK |       image/png |         | http://b.test/pictures/one.png -> nil
</responses>

<queries>
Histogram: Net.Compress.NoProxy.BytesBeforeCompression recorded 1 samples, average = {packed}.0 (flags = 0x1)
Histogram: Net.Compress.NoProxy.ShouldHaveBeenCompressed recorded 1 samples, average = 46.0 (flags = 0x1)
</queries>
"""
PAGE = (
    b"<html>" + b"words " * 200 + b'<script src="//b.test/s.js?long"></script>' + b"more " * 150 + b"</html>"
)
SCRIPT = b"var x = document.images; load('one.png');     "


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Save the bodies of the responses in LOG. The file named after a redirect has its target's body."""
    for name, data in {
        "a.test/index.html": PAGE,
        "b.test/0123456789abcdef0123456789abcdef": SCRIPT,
        "b.test/pictures/one.png": b"p" * 500,
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return tmp_path


def log_text() -> str:
    packed = Body(PAGE, "text/html").deflated()
    return LOG.format(packed=packed, read=packed + len(SCRIPT) + 500 + 4 * 300, written=4 * 400)


def test_a_load_becomes_a_page(saved: Path) -> None:
    page = build_page("small", parse_fetchlog(log_text(), "log"), saved, set())
    assert [r.url for r in page.resources] == [
        "http://a.test/",
        "http://www.a.test/",
        "http://b.test/s.js?long",
        "http://b.test/pictures/one.png",
    ]
    packed = Body(PAGE, "text/html").deflated()
    assert [r.body_bytes for r in page.resources] == [0, packed, len(SCRIPT), 500]
    assert [r.initiator for r in page.resources] == [None, 0, 1, 2]
    assert page.resources[0].redirect_to == page.resources[1].url
    assert page.resources[3].processing_us == 60_000
    assert page.load_event_processing_us == 300_000
    assert {r.response_header_bytes for r in page.resources} == {300}
    assert sum(r.request_header_bytes for r in page.resources) == pytest.approx(1600, abs=2)


def test_what_the_document_names_is_asked_for_when_the_name_has_come(saved: Path) -> None:
    page = build_page("small", parse_fetchlog(log_text(), "log"), saved, set())
    script = page.resources[2]
    place = (PAGE.index(b"s.js?long") + len(b"s.js?long")) / len(PAGE)
    assert script.initiator_at_bytes == int(page.resources[1].body_bytes * place)
    assert script.processing_us == 0


def test_a_torn_log_is_an_input_error() -> None:
    with pytest.raises(InputError, match="log: no section <responses>"):
        parse_fetchlog("nothing", "log")
    with pytest.raises(InputError, match="a row of 2 cells"):
        parse_fetchlog(log_text().replace("          OK |       text/html |   utf-8 |", "OK |"), "log")


def test_the_command_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), str(tmp_path), str(tmp_path)]) == 2
    assert "no such log" in capsys.readouterr().err
    assert main([]) == 2


def test_files_are_found_by_their_old_names_and_the_other_way_round(saved: Path) -> None:
    renamed = {"/s.js?long": "0123456789abcdef0123456789abcdef"}
    file = saved / "b.test" / "0123456789abcdef0123456789abcdef"
    assert file_of("http://b.test/s.js?long", renamed, saved) == file
    assert url_of(file, saved, renamed) == "http://b.test/s.js?long"
    assert url_of(file, saved, {}) is None
    assert url_of(saved / "a.test" / "index.html", saved, {}) == "http://a.test/"


def test_the_uncompressed_bodies_are_the_subset_whose_sum_was_logged() -> None:
    bodies = [Body(b"x" * size, "text/css") for size in (500, 90, 80, 70, 20)]
    assert never_compressed(bodies, 2, 110) == {1, 4}
    assert never_compressed(bodies, 0, 0) == frozenset()
    assert never_compressed([], 3, 100) == frozenset()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'src="http://b.test/pics/a.png"', True),
        (b"src='//b.test/pics/a.png'", True),
        (rb'"http:\/\/b.test\/pics\/a.png"', True),
        (b"url(../pics/a.png)", True),
        (b"url(a.png)", False),
        (b"nothing", False),
    ],
)
def test_a_reference_is_found_in_its_spellings(text: bytes, found: bool) -> None:
    offset = find_reference(text, "http://b.test/pics/a.png", "http://b.test/css/s.css")
    assert (offset is not None) == found


@pytest.mark.parametrize("text", [b'import{r}from"./v.js"', b"import('./v.js')"])
def test_a_module_is_found_by_its_relative_name(text: bytes) -> None:
    assert find_reference(text, "http://b.test/js/v.js", "http://b.test/js/main.js") is not None


def test_long_urls_are_cut_and_stay_apart() -> None:
    one, two = (shortened("http://a.test/" + "x" * 300 + end) for end in "ab")
    assert len(one) == len(two) == 120
    assert one != two


def test_the_cs244_page_is_as_the_report_says_and_as_it_is_packaged() -> None:
    page = cs244_2015()
    assert (len(page.resources), len(page.hosts())) == (44, 7)
    assert read_page(packaged_pages()["cs244-2015"]) == page


def same_zlib() -> bool:
    """Return True if this machine's zlib gives the same sizes as the one that made the packaged pages."""
    rng = random.Random(0)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randrange(2, 9))) for _ in range(800)]
    text = " ".join(rng.choices(words, k=40_000)).encode()
    return (len(text), len(zlib.compress(text, 6))) == (238007, 81732)


def test_the_packaged_pages_of_the_paper_are_remade_bit_for_bit(tmp_path: Path) -> None:
    if not (INPUTS / "snapshot2013").is_dir():
        pytest.skip("the snapshot of 2013 is not there (../shared/inputs/snapshot2013)")
    make_pages(INPUTS / "snapshot2013", INPUTS / "snapshot2013.fetchlog", tmp_path)
    for name in PAGES.values():
        made, packaged = tmp_path / f"{name}.page.json", packaged_pages()[name]
        if same_zlib():
            assert made.read_text("utf-8") == packaged.read_text("utf-8"), name
        facts = [
            [(r.url, r.type, r.initiator, r.redirect_to) for r in read_page(p).resources]
            for p in (made, packaged)
        ]
        assert facts[0] == facts[1]
        assert read_page(made).body_bytes() == pytest.approx(read_page(packaged).body_bytes(), rel=0.01)
