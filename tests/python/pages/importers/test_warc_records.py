"""Importing rare records of WARC files: interim responses, segments, conversions, HTTP/0.9 and others."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastopen.common.errors import InputError
from fastopen.pages import Page, load_pages
from pages.hars import noted

SHEET = b'<link rel="stylesheet" href="/s.css">'
PAGE = b'<html><head>%s</head><body><img src="/i.png"></body></html>' % SHEET
CHUNKED = "Transfer-Encoding: chunked\r\n"
CHUNKS = b"10;a=b\r\n%s\r\n%x\r\n%s\r\n0\r\nTrailer: x\r\n\r\n" % (PAGE[:16], len(PAGE) - 16, PAGE[16:])
URLS = ["http://a.test/", "http://a.test/s.css", "http://a.test/i.png"]


def record(kind: str, url: str, block: bytes, **fields: str) -> bytes:
    """Return a record of a WARC. In names of fields, underscores stand for hyphens."""
    named = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "WARC-Date": "2024-05-01T10:00:00Z",
        "Content-Type": "application/http; msgtype=response",
    } | {name.replace("_", "-"): value for name, value in fields.items()}
    lines = [f"{name}: {value}" for name, value in named.items()]
    head = "\r\n".join(["WARC/1.1", *lines, f"Content-Length: {len(block)}", "", ""])
    return head.encode() + block + b"\r\n\r\n"


def message(body: bytes, mime: str = "text/html", fields: str = "", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {mime}\r\n{fields}\r\n".encode() + body


def response(url: str, body: bytes, mime: str = "text/html", **fields: str) -> bytes:
    return record("response", url, message(body, mime), **fields)


REST = response(URLS[1], b"p {}", "text/css") + response(URLS[2], b"\x89PNG", "image/png")


def pages(tmp_path: Path, data: bytes) -> list[Page]:
    file = tmp_path / "my.warc"
    file.write_bytes(data)
    return [one.page for one in load_pages([file])]


def page(tmp_path: Path, data: bytes) -> Page:
    (found,) = pages(tmp_path, data)
    return found


@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 \r\nLink: x\r\n\r\n"])
def test_the_final_response_follows_interim_responses(tmp_path: Path, interim: bytes) -> None:
    """Tools that copy the connection, such as warcprox, also record interim responses (RFC 9110, 15.2)."""
    final = message(CHUNKS, fields=CHUNKED)
    found = page(tmp_path, record("response", URLS[0], interim * 2 + final) + REST)
    assert [one.url for one in found.resources] == URLS
    root = found.resources[0]
    assert (root.body_bytes, root.response_header_bytes) == (len(PAGE), len(final) - len(CHUNKS))
    without_end = page(tmp_path, response(URLS[0], PAGE) + record("response", URLS[2], interim))
    assert (len(without_end.resources), noted(without_end)["unanswered"]) == (1, 1)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("missing", [None, 2, 0])
def test_segments_are_joined(tmp_path: Path, order: tuple[int, ...], missing: int | None) -> None:
    block = message(CHUNKS, fields=CHUNKED)
    first = record("response", URLS[0], block[:60], WARC_Record_ID="<urn:1>", WARC_Segment_Number="1")
    origin = {"WARC_Segment_Origin_ID": "<urn:1>"}
    second = record("continuation", URLS[0], block[60:130], WARC_Segment_Number="2", **origin)
    total = {"WARC_Segment_Total_Length": str(len(block))}
    third = record("continuation", URLS[0], block[130:], WARC_Segment_Number="3", **origin, **total)
    segments = [(first, second, third)[number] for number in order if number != missing]
    found = page(tmp_path, segments[0] + REST + b"".join(segments[1:]))
    notes = noted(found)
    urls = [one.url for one in found.resources]
    if missing is None:
        assert (urls, found.resources[0].body_bytes) == (URLS, len(PAGE))
    elif missing == 2:
        assert (urls, notes["short"]) == (URLS, 1)
    else:
        assert (urls, notes["broken_records"]) == (URLS[1:], 1)
    assert ("short" in notes, "broken_records" in notes) == (missing == 2, missing == 0)


def test_a_joined_record_keeps_the_place_of_its_first_segment(tmp_path: Path) -> None:
    block = message(PAGE)
    first = record("response", URLS[0], block[:60], WARC_Record_ID="<urn:1>", WARC_Segment_Number="1")
    origin = {"WARC_Segment_Origin_ID": "<urn:1>", "WARC_Segment_Total_Length": str(len(block))}
    last = record("continuation", URLS[0], block[60:], WARC_Segment_Number="2", **origin)
    other = response("http://b.test/", b"another page")
    assert page(tmp_path, first + other + REST + last).url == URLS[0]


@pytest.mark.parametrize("kind", ["conversion", "metadata"])
def test_texts_and_metadata_of_pages_are_not_pages(tmp_path: Path, kind: str) -> None:
    """Common Crawl publishes WARC files of extracted texts (WET) and of metadata (WAT)."""
    text = record(kind, URLS[0], b"words", Content_Type="text/plain")
    with pytest.raises(InputError, match=f"2 {kind}"):
        pages(tmp_path, text * 2)
    assert [one.url for one in page(tmp_path, response(URLS[0], PAGE) + text + REST).resources] == URLS


def test_responses_of_http_0_9_have_no_head(tmp_path: Path) -> None:
    found = page(tmp_path, record("response", URLS[0], PAGE) + REST)
    assert [one.url for one in found.resources] == URLS
    assert (found.resources[0].mime, noted(found)["no_head"]) == ("text/html", 1)


@pytest.mark.parametrize("first", ["http/1.1 200", "h2 200 OK", "HTTP/2.0 200 ", "ICY 200 OK"])
def test_status_lines_may_name_any_protocol(tmp_path: Path, first: str) -> None:
    block = f"{first}\r\nContent-Type: text/html\r\n\r\n".encode() + PAGE
    root = page(tmp_path, record("response", URLS[0], block) + REST).resources[0]
    assert (root.body_bytes, root.response_header_bytes) == (len(PAGE), len(block) - len(PAGE))


def test_a_record_with_segment_number_0_is_whole(tmp_path: Path) -> None:
    found = page(tmp_path, response(URLS[0], PAGE, WARC_Segment_Number="0") + REST)
    assert [one.url for one in found.resources] == URLS
    assert not noted(found).keys() & {"broken_records", "short"}


@pytest.mark.parametrize(
    ("body", "fields", "body_bytes", "short"),
    [
        (CHUNKS, CHUNKED, len(PAGE), False),
        (CHUNKS[:-30], CHUNKED, len(PAGE) - 11, True),
        (b" 0000000000" + CHUNKS, CHUNKED, len(PAGE), False),
        (PAGE, CHUNKED, len(PAGE), False),
        (b"1a\r\n" + PAGE, CHUNKED, len(PAGE) + 4, False),  # no chunk: it does not end with a line end
        (CHUNKS[:-17] + b"5\r\n" + PAGE, CHUNKED, len(PAGE) + 3 + len(PAGE), True),
        (PAGE, "Content-Length: 9000\r\n", len(PAGE), True),
        (PAGE, "Content-Length: 5\r\n", len(PAGE), False),
    ],
)
def test_bodies_that_ended_early_are_noted(
    tmp_path: Path, body: bytes, fields: str, body_bytes: int, short: bool
) -> None:
    found = page(tmp_path, record("response", URLS[0], message(body, fields=fields)))
    assert (found.resources[0].body_bytes, "short" in noted(found)) == (body_bytes, short)


def test_a_revisit_may_name_only_the_record_that_it_repeats(tmp_path: Path) -> None:
    original = response("http://a.test/same.png", b"\x89PNG...", "image/png", WARC_Record_ID="<urn:1>")
    repeated = record("revisit", URLS[2], message(b"", "image/png"), WARC_Refers_To="<urn:1>")
    found = page(tmp_path, response(URLS[0], PAGE) + original + repeated)
    sizes = {one.url: one.body_bytes for one in found.resources}
    assert sizes[URLS[2]] == 7


@pytest.mark.parametrize(
    ("refresh", "redirects"),
    [
        ("0; url=/home", True),
        ("1,url='/home'", True),
        ("0.9 /home", True),
        ("5; url=/home", False),
        ("9", False),
    ],
)
@pytest.mark.parametrize("marked", [False, True])
def test_a_refresh_at_once_is_a_redirect(tmp_path: Path, refresh: str, redirects: bool, marked: bool) -> None:
    """A later refresh leads to another page, as a hyperlink does."""
    data = b""
    markup = f'<meta http-equiv="Refresh" content="{refresh}">'.encode()
    for number, (url, body) in enumerate([(URLS[0], markup), ("http://a.test/home", PAGE)]):
        data += response(url, body, WARC_Record_ID=f"<urn:{number}>")
        asked = b"GET / HTTP/1.1\r\nSec-Fetch-Dest: document\r\n\r\n"
        if marked:
            data += record("request", url, asked, WARC_Concurrent_To=f"<urn:{number}>")
    found = pages(tmp_path, data + REST)
    assert len(found) == (2 if marked and not redirects else 1)
    first = found[0].resources
    assert first[0].url == URLS[0]
    if redirects:
        home = first[1]
        assert (home.url, home.initiator, home.initiator_at_bytes) == ("http://a.test/home", 0, None)
        assert (home.type, home.phase, {one.initiator for one in first[2:]}) == ("document", "load", {1})
    else:
        assert len(first) == 1


def test_browsertrix_names_pages_and_types(tmp_path: Path) -> None:
    """It writes the ID of the page and Chrome's type of the resource into fields of the response record."""
    data = b""
    for page_id in ("one", "two"):
        of_page = {"WARC_Page_ID": page_id}
        root = f"http://{page_id}.test/"
        asked = b"GET / HTTP/1.1\r\nSec-Fetch-Dest: document\r\n\r\n"
        data += response(root, b"<p>", WARC_Record_ID=f"<{root}>", WARC_Resource_Type="document", **of_page)
        data += record("request", root, asked, WARC_Concurrent_To=f"<{root}>")
    for page_id, kind in (("two", "script"), ("one", "Image"), ("one", "fetch"), ("three", "image")):
        fields = {"WARC_Page_ID": page_id, "WARC_Resource_Type": kind}
        data += response(f"http://x.test/{kind}-of-{page_id}", b"...", "application/x", **fields)
    found = pages(tmp_path, data)
    assert [[(one.url[14:], one.type, one.phase) for one in each.resources[1:]] for each in found] == [
        [("Image-of-one", "image", "load"), ("fetch-of-one", "xhr", "async")],
        [("script-of-two", "script", "load")],
    ]


def navigation(url: str, body: bytes, page_id: str, status: str = "200 OK", fields: str = "") -> bytes:
    asked = record("request", url, b"GET / HTTP/1.1\r\nSec-Fetch-Dest: document\r\n\r\n")
    answer = message(body, fields=fields, status=status)
    return record("response", url, answer, **({"WARC_Page_ID": page_id} if page_id else {})) + asked


@pytest.mark.parametrize("first_id", ["one", ""])
def test_redirects_have_the_page_id_of_the_page_before(tmp_path: Path, first_id: str) -> None:
    """ArchiveWeb.page begins a page when a document arrives. If a document has no ID, IDs decide nothing."""
    data = navigation("http://one.test/", b"<p>", first_id)
    data += navigation("http://two.test/", b"", first_id, "302 Found", "Location: /home\r\n")
    data += navigation("http://two.test/home", b"<meta http-equiv=refresh content='0;/app'>", "two")
    data += navigation("http://two.test/app", b"<p>", "three")
    for page_id in ("one", "two", "three", "four"):
        url = f"http://x.test/{page_id}.png"
        data += response(url, b"...", "image/png", WARC_Page_ID=page_id)
    found = [[one.url[7:] for one in each.resources] for each in pages(tmp_path, data)]
    other = ["two.test/", "two.test/home", "two.test/app"]
    if first_id:
        assert found == [["one.test/", "x.test/one.png"], [*other, "x.test/two.png", "x.test/three.png"]]
    else:
        named = [f"x.test/{page_id}.png" for page_id in ("one", "two", "three", "four")]
        assert found == [["one.test/"], [*other, *named]]


def test_a_page_that_failed_is_a_page_unless_it_was_loaded_again(tmp_path: Path) -> None:
    data = navigation("http://a.test/", PAGE, "") + navigation("http://b.test/", b"gone", "", "404 Not Found")
    data += navigation("http://c.test/", b"busy", "", "503 Busy") + navigation("http://c.test/", b"<p>", "")
    data += response("http://b.test/", b"{}", "application/json")  # a script may fetch the same URL
    roots = [each.resources[0] for each in pages(tmp_path, data)]
    assert [(one.url, one.status) for one in roots] == [
        ("http://a.test/", 200), ("http://b.test/", 404), ("http://c.test/", 200),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("metadata", "roots"),
    [
        ('{"pages": [{"url": "http://b.test/"}, {"url": "http://a.test/"}, {"url": 1}, 2]}', ["b", "a"]),
        ('{"pages": 3}', ["a"]),
        ("{", ["a"]),
    ],
)
def test_webrecorder_lists_pages_in_the_warcinfo_record(
    tmp_path: Path, metadata: str, roots: list[str]
) -> None:
    info = f"software: Webrecorder\r\njson-metadata: {metadata}\r\n".encode()
    data = record("warcinfo", "", info, Content_Type="application/warc-fields")
    data += response(URLS[0], PAGE) + REST + response("http://b.test/", b"<p>")
    found = pages(tmp_path, data)
    assert [one.url for one in found] == [f"http://{host}.test/" for host in roots]
    assert found[0].source.startswith("WARC by Webrecorder")


@pytest.mark.parametrize("status", ["401 Unauthorized", "503 Busy", "404 Not Found"])
@pytest.mark.parametrize("marked", [False, True])
def test_the_answer_to_a_repeated_request_replaces_an_error(
    tmp_path: Path, status: str, marked: bool
) -> None:
    data = b""
    for number, (url, body, line) in enumerate(
        [
            (URLS[0], b"error", status),
            (URLS[0], PAGE, "200 OK"),
            (URLS[2], b"error", status),
            (URLS[2], b"\x89PNG...", "200 OK"),
        ]
    ):
        data += record("response", url, message(body, status=line), WARC_Record_ID=f"<urn:{number}>")
        if marked:
            to = "image" if url == URLS[2] else "document"
            asked = f"GET / HTTP/1.1\r\nSec-Fetch-Dest: {to}\r\n\r\n".encode()
            data += record("request", url, asked, WARC_Concurrent_To=f"<urn:{number}>")
    found = page(tmp_path, data)
    assert [(one.url, one.status) for one in found.resources] == [(URLS[0], 200), (URLS[2], 200)]


@pytest.mark.parametrize("coding", ["utf-8", "none", "binary"])
def test_unknown_content_codings_are_ignored(tmp_path: Path, coding: str) -> None:
    root = record("response", URLS[0], message(PAGE, fields=f"Content-Encoding: {coding}\r\n"))
    assert noted(page(tmp_path, root + REST))["referenced"] == 2
