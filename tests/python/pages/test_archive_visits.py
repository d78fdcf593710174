"""What of an archive belongs to one load of one page: charsets, visits, other sites, links."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastopen.pages import load_pages

from .sites import Answer
from .test_warc import archive


def answer(url: str, mime: str, body: bytes, status: int = 200, location: str | None = None) -> Answer:
    """An answer to a request without a Referer, as crawlers send them."""
    return Answer(url, body, mime, status=status, location=location, referer=None)


TEXT = b"<html><link rel=stylesheet href=/s.css><script src=/a.js></script><img src=/i.png>%s</html>"
PARTS = [
    answer("http://a.test/s.css", "text/css", b"a { color: red }"),
    answer("http://a.test/a.js", "text/javascript", b"fetch('/f.ttf')"),
    answer("http://a.test/i.png", "image/png", b"i" * 90),
    answer("http://a.test/f.ttf", "font/ttf", b"f" * 90),
]


def urls(folder: Path, *answers: Answer) -> list[list[str]]:
    (folder / "x.warc.gz").write_bytes(archive(answers))
    pages = load_pages([folder / "x.warc.gz"])
    return [[one.url.removeprefix("http://a.test") for one in each.page.resources] for each in pages]


@pytest.mark.parametrize(
    "charset",
    ["euc-jp", "euc-kr", "iso-2022-jp", "utf-16le", "macintosh", "hex", "rot13", "undefined"],
)
def test_a_charset_that_the_parser_does_not_know_is_no_reason_to_fail(tmp_path: Path, charset: str) -> None:
    mime = f"text/html; charset={charset}"
    ((root, *_),) = urls(tmp_path, answer("http://a.test/", mime, TEXT % b""), *PARTS)
    assert root == "/"


@pytest.mark.parametrize("charset", ["euc-jp", "euc-kr", "hex"])
def test_the_names_in_a_document_of_any_charset_are_found(tmp_path: Path, charset: str) -> None:
    mime = f"text/html; charset={charset}"
    (page,) = urls(tmp_path, answer("http://a.test/", mime, TEXT % b""), *PARTS)
    assert page == ["/", "/s.css", "/a.js", "/i.png", "/f.ttf"]


def test_what_several_visits_asked_for_is_one_request_of_a_page(tmp_path: Path) -> None:
    links = b"".join(b"<a href=/p%d>x</a>" % number for number in range(3))
    visits = [
        one
        for path in ("", "p0", "p1", "p2")
        for one in (answer(f"http://a.test/{path}", "text/html", TEXT % links), *PARTS)
    ]
    (page,) = urls(tmp_path, *visits)
    assert page == ["/", "/s.css", "/a.js", "/i.png", "/f.ttf"]


def test_documents_that_nothing_asks_for_are_other_pages(tmp_path: Path) -> None:
    crawl = [
        one
        for number in range(4)
        for one in (
            answer(f"http://s{number}.test/", "text/html", b"<img src=/i.png>"),
            answer(f"http://s{number}.test/i.png", "image/png", b"i" * 90),
        )
    ]
    assert urls(tmp_path, *crawl) == [["http://s0.test/", "http://s0.test/i.png"]]


def test_a_link_to_a_redirect_leads_to_another_page(tmp_path: Path) -> None:
    answers = [
        answer("http://a.test/", "text/html", b"<a href=/go>x</a><img src=/i.png>"),
        PARTS[2],
        answer("http://a.test/go", "text/html", b"", status=302, location="http://b.test/"),
        answer("http://b.test/", "text/html", b"<img src=/j.png>"),
        answer("http://b.test/j.png", "image/png", b"i" * 90),
    ]
    assert urls(tmp_path, *answers) == [["/", "/i.png"]]
