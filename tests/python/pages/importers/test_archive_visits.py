"""Choosing an archive's records of one page load: several visits, other sites, links, unusual charsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastopen.pages import load_pages
from pages.hars import noted
from pages.sites import Answer

from .test_warc import archive


def answer(url: str, mime: str, body: bytes, status: int = 200, location: str | None = None) -> Answer:
    """Return a response whose request, like those of crawlers, had no Referer."""
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


def test_rules_for_crawlers_are_no_part_of_a_page(tmp_path: Path) -> None:
    rules = [answer(f"http://{host}.test/robots.txt", "text/plain", b"User-agent: *") for host in "ab"]
    root = answer("http://a.test/", "text/html", TEXT % b"")
    assert urls(tmp_path, rules[0], root, rules[1], *PARTS) == [["/", "/s.css", "/a.js", "/i.png", "/f.ttf"]]


def test_a_redirect_after_the_page_did_not_lead_to_it(tmp_path: Path) -> None:
    root = answer("http://a.test/", "text/html", TEXT % b"")
    redirect = answer("http://a.test/old", "text/html", b"", status=302, location="/")
    assert urls(tmp_path, redirect, root)[0] == ["/old", "/"]
    assert urls(tmp_path, root, redirect)[0] == ["/"]


def test_a_link_to_a_redirect_leads_to_another_page(tmp_path: Path) -> None:
    answers = [
        answer("http://a.test/", "text/html", b"<a href=/go>x</a><img src=/i.png>"),
        PARTS[2],
        answer("http://a.test/go", "text/html", b"", status=302, location="http://b.test/"),
        answer("http://b.test/", "text/html", b"<img src=/j.png>"),
        answer("http://b.test/j.png", "image/png", b"i" * 90),
    ]
    assert urls(tmp_path, *answers) == [["/", "/i.png"]]


def record(kind: str, url: str, lines: list[str], body: bytes = b"", more: str = "", name: str = "") -> bytes:
    """Return a WARC record of an HTTP message. `lines`: the message's head; `more`: fields of the record."""
    head = "".join(f"{line}\r\n" for line in [*lines, ""]).encode()
    content = f"Content-Type: application/http; msgtype={kind}\r\nContent-Length: {len(head) + len(body)}\r\n"
    name = name or f"{kind}-{abs(hash(url))}"
    names = f"WARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Record-ID: <urn:uuid:{name}>\r\n"
    date = "WARC-Date: 2026-01-01T00:00:00Z\r\n"
    return f"WARC/1.1\r\n{names}{date}{more}{content}\r\n".encode() + head + body + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("protocol", "status_line", "http"),
    [
        ("WARC-Protocol: h2\r\nWARC-Protocol: tls/1.3\r\n", "HTTP/1.1 200 OK", "2"),
        ("WARC-Protocol: h2, tls/1.3\r\n", "HTTP/1.1 200 OK", "2"),
        ("WARC-Protocol: H3\r\n", "HTTP/1.1 200 OK", "3"),
        ("", "HTTP/2 200", "2"),
        ("", "HTTP/1.1 200 OK", None),
        ("WARC-Protocol: spdy/3\r\n", "HTTP/1.1 200 OK", None),
    ],
)
def test_an_archive_may_name_the_version_of_http(
    tmp_path: Path, protocol: str, status_line: str, http: str | None
) -> None:
    lines = [status_line, "Content-Type: text/html"]
    path = tmp_path / "x.warc"
    path.write_bytes(record("response", "https://a.test/", lines, b"<p>a page</p>", protocol))
    assert load_pages([path])[0].page.resources[0].http == http


def test_records_that_are_left_out_add_no_other_notes(tmp_path: Path) -> None:
    page = record("response", "http://a.test/", ["HTTP/1.1 200 OK", "Content-Type: text/html"], b"<p>x</p>")
    lookup = record("resource", "dns:a.test", [], b"a.test. 60 IN A 192.0.2.1")
    (tmp_path / "x.warc").write_bytes(lookup + page)
    notes = noted(load_pages([tmp_path / "x.warc"])[0].page)
    assert (notes["no_http"], notes["no_request"]) == (1, 1)
    assert "no_head" not in notes


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("a.test", "http://a.test/"),
        ("a.test:8080", "http://a.test:8080/"),
        ("198.51.100.7", "http://192.0.2.1/"),
        ("a b", "http://192.0.2.1/"),
        ("", "http://192.0.2.1/"),
    ],
)
def test_a_target_that_is_an_address_is_found_under_the_host_that_was_asked_for(
    tmp_path: Path, host: str, url: str
) -> None:
    path, target = tmp_path / "x.warc", "http://192.0.2.1/"
    answer = record("response", target, ["HTTP/1.1 200 OK", "Content-Type: text/html"], b"<p>a page</p>")
    path.write_bytes(record("request", target, ["GET / HTTP/1.1", f"Host: {host}"]) + answer)
    assert load_pages([path])[0].page.url == url


def exchange(
    method: str, url: str, answer: str, mime: str, body: bytes = b"", to: str = "", sent: tuple[str, ...] = ()
) -> bytes:
    """Return the records of a request and its response; `to`: a Location; `sent`: fields of the request."""
    path = "/" + url.split("/", 3)[3]
    lines = [answer, f"Content-Type: {mime}", *([f"Location: {to}"] if to else [])]
    more = f"WARC-Concurrent-To: <urn:uuid:request-{method}{url}>\r\n"
    asked = record("request", url, [f"{method} {path} HTTP/1.1", *sent], name=f"request-{method}{url}")
    return asked + record("response", url, lines, body, more, name=f"response-{method}{url}")


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "POST"])
def test_references_lead_to_the_response_of_a_get(tmp_path: Path, method: str) -> None:
    root = exchange("GET", "http://a.test/", "HTTP/1.1 200 OK", "text/html", b"<img src=/i.png>")
    other = exchange(method, "http://a.test/i.png", "HTTP/1.1 200 OK", "image/png")
    image = exchange("GET", "http://a.test/i.png", "HTTP/1.1 200 OK", "image/png", b"i" * 90)
    path = tmp_path / "x.warc"
    path.write_bytes(root + other + image)
    resources = load_pages([path])[0].page.resources
    assert [(one.method, one.body_bytes) for one in resources[1:]] == [("GET", 90), (method, 0)]


def test_a_referer_that_is_an_origin_is_the_page_visited_last(tmp_path: Path) -> None:
    """To other origins, browsers send only the page's origin as Referer, which looks like the site's root."""
    visit, referer = ("Sec-Fetch-Dest: document",), ("Referer: http://a.test/",)
    records = [
        exchange("GET", f"http://a.test/{name}", "HTTP/1.1 200 OK", "text/html", b"<p>", sent=visit)
        + exchange("GET", f"http://t.test/{name}x", "HTTP/1.1 200 OK", "image/gif", b"i", sent=referer)
        for name in ("", "1")
    ]
    path = tmp_path / "x.warc"
    path.write_bytes(b"".join(records))
    assert [[one.url for one in each.page.resources] for each in load_pages([path])] == [
        ["http://a.test/", "http://t.test/x"],
        ["http://a.test/1", "http://t.test/1x"],
    ]


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
def test_a_page_is_the_response_of_no_head_or_options(tmp_path: Path, method: str) -> None:
    asked = [
        exchange(one, "http://a.test/old", "HTTP/1.1 301 Moved", "text/html", to="http://a.test/")
        + exchange(one, "http://a.test/", "HTTP/1.1 200 OK", "text/html", b"<img src=/i.png>")
        for one in (method, "GET")
    ]
    path = tmp_path / "x.warc"
    path.write_bytes(b"".join(asked) + exchange("GET", "http://a.test/i.png", "HTTP/1.1 200 OK", "image/png"))
    resources = load_pages([path])[0].page.resources[:3]
    found = [(one.method, one.url.removeprefix("http://a.test"), one.initiator) for one in resources]
    assert found == [("GET", "/old", None), ("GET", "/", 0), ("GET", "/i.png", 1)]


def test_a_frame_that_was_recorded_first_is_not_the_page(tmp_path: Path) -> None:
    frame = Answer("http://a.test/f.html", b"<p>a frame</p>", "text/html", referer="http://a.test/")
    (page,) = urls(tmp_path, frame, answer("http://a.test/", "text/html", b"<iframe src=/f.html></iframe>"))
    assert page == ["/", "/f.html"]


@pytest.mark.parametrize(
    ("method", "mime", "sent", "phases"),
    [
        ("GET", "application/json", (), ["async"]),
        ("GET", "text/html", ("Sec-Fetch-Dest: empty", "Sec-Fetch-Mode: cors"), ["async"]),
        ("GET", "text/html", ("Sec-Fetch-Dest: iframe",), ["load"]),
        ("GET", "image/gif", (), ["load"]),
        ("POST", "image/gif", ("Accept: */*",), ["async"]),
        ("POST", "text/html", ("Accept: text/html,*/*;q=0.8",), ["load"]),
        ("GET", "text/event-stream", (), []),
    ],
)
def test_the_load_event_waits_only_for_requests_of_elements_and_frames(
    tmp_path: Path, method: str, mime: str, sent: tuple[str, ...], phases: list[str]
) -> None:
    root = exchange("GET", "http://a.test/", "HTTP/1.1 200 OK", "text/html", b"<p>a page")
    sent += ("Referer: http://a.test/",)
    path = tmp_path / "x.warc"
    path.write_bytes(root + exchange(method, "http://a.test/x", "HTTP/1.1 200 OK", mime, b"...", sent=sent))
    assert [one.phase for one in load_pages([path])[0].page.resources[1:]] == phases


def test_markup_decides_before_the_type_of_a_response_and_a_redirect_is_its_target(tmp_path: Path) -> None:
    text = b"<img src=/i.json><link rel=preload as=fetch href=/p><script>fetch('/some-data')</script>"
    records = [
        exchange("GET", "http://a.test/", "HTTP/1.1 302 Found", "text/html", to="http://a.test/home"),
        exchange("GET", "http://a.test/home", "HTTP/1.1 200 OK", "text/html", text),
        exchange("GET", "http://a.test/i.json", "HTTP/1.1 200 OK", "application/json", b"{}"),
        exchange("GET", "http://a.test/p", "HTTP/1.1 200 OK", "text/html", b"..."),
        exchange("GET", "http://a.test/some-data", "HTTP/1.1 302 Found", "text/html", to="http://a.test/d"),
        exchange("GET", "http://a.test/d", "HTTP/1.1 200 OK", "application/json", b"{}"),
    ]
    path = tmp_path / "x.warc"
    path.write_bytes(b"".join(records))
    phases = {one.url[13:]: one.phase for one in load_pages([path])[0].page.resources}
    load = dict.fromkeys(("/", "/home", "/i.json"), "load")
    assert phases == load | dict.fromkeys(("/p", "/some-data", "/d"), "async")
