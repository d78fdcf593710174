"""Importing any HAR gives valid pages or an InputError, and the same result each time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastopen.common.errors import InputError
from fastopen.pages import page_json
from fastopen.pages import url as urls
from fastopen.pages.model import Page, parse_page

from .hars import at, entry, import_har

NUMBERS = st.one_of(st.integers(-2, 5000), st.floats(), st.none(), st.text(max_size=4), st.just(2**80))
HOSTS = st.sampled_from(["a.test", "b.test", "A.TEST:80", "[::1]", "10.0.0.1:8080", "ü.test", "x_y.test"])
URLS = st.one_of(
    st.builds(
        "{}://{}/{}".format, st.sampled_from(["http", "https", "HTTP", "ws"]), HOSTS, st.text(max_size=6)
    ),
    st.sampled_from(["http://a.test/0", "http://a.test/1", "http://a.test/2", "data:,x", "about:blank"]),
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | URLS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(
    ["document", "script", "stylesheet", "image", "font", "xhr", "Fetch", "ping", "odd", 7]
)
INITIATORS = st.one_of(
    JSON,
    URLS,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["parser", "script", "other"]), "url": URLS},
        optional={
            "stack": st.fixed_dictionaries({"callFrames": st.lists(st.fixed_dictionaries({"url": URLS}))})
        },
    ),
)


@st.composite
def entries(draw: st.DrawFn) -> Any:
    """Draw an entry of a HAR with missing, odd or invalid values."""
    if draw(st.integers(0, 19)) == 0:
        return draw(JSON)
    extra = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "pageref": st.sampled_from(["p", "q", 7, None]), "time": NUMBERS, "_initiator": INITIATORS,
                "_resourceType": KINDS, "_fromCache": JSON, "_load_start": NUMBERS, "_ttfb_ms": NUMBERS,
                "_created": NUMBERS, "_was_pushed": NUMBERS, "startedDateTime": JSON,
            },
        )
    )  # fmt: skip
    names = ("blocked", "dns", "connect", "ssl", "send", "wait", "receive", "_queued")
    timings = draw(st.dictionaries(st.sampled_from(names), NUMBERS, max_size=4))
    fields = st.lists(
        st.fixed_dictionaries({"name": st.sampled_from(["Referer", "location", "x"]), "value": URLS})
    )
    request = draw(
        st.fixed_dictionaries(
            {"url": URLS},
            optional={
                "method": st.sampled_from(["GET", "post", "OPTIONS", "HEAD", "CONNECT", ""]),
                "headersSize": NUMBERS, "bodySize": NUMBERS, "headers": fields | JSON, "postData": JSON,
            },
        )
    )  # fmt: skip
    response = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "status": st.sampled_from([0, 101, 200, 204, 206, 301, 302, 304, 404, 503, "200", None, 999]),
                "headersSize": NUMBERS, "bodySize": NUMBERS, "redirectURL": URLS, "headers": fields | JSON,
                "_transferSize": NUMBERS, "content": JSON, "httpVersion": st.sampled_from(["h2", "HTTP/1.1"]),
            },
        )
    )  # fmt: skip
    start = draw(st.integers(0, 3000))
    return entry("http://a.test/", start, request=request, response=response, timings=timings) | extra


def check(page: Page) -> None:
    assert parse_page(json.loads(page_json(page)), "written") == page
    first = page.resources[0]
    assert first.initiator is None
    assert first.url == page.url
    for resource in page.resources:
        assert urls.problem_of(resource.url) is None


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(entries(), max_size=8), JSON, NUMBERS, st.booleans())
def test_every_har_becomes_valid_pages_or_an_input_error(
    found: list[Any], pages: Any, on_load: Any, lenient: bool
) -> None:
    declared = [{"id": "p", "startedDateTime": at(0), "pageTimings": {"onLoad": on_load}}, pages]
    data = {"log": {"pages": declared, "entries": found}}
    try:
        first = import_har(data, "my.har", lenient=lenient)
    except InputError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert said.startswith("my.har: ")
        return
    assert first == import_har(data, "my.har", lenient=lenient)
    for imported in first:
        check(imported.page)
        for index, body in imported.bodies.items():
            assert len(body) == imported.page.resources[index].body_bytes


@settings(max_examples=100)
@given(JSON)
def test_any_json_is_refused_in_words_or_is_a_page(data: Any) -> None:
    for read in (lambda: import_har(data, "f"), lambda: parse_page(data, "f")):
        with pytest.raises(InputError):
            read()


@given(st.text(max_size=60) | URLS)
def test_a_cleaned_url_is_one_that_a_page_may_hold_and_stays_as_it_is(raw: str) -> None:
    cleaned = urls.cleaned(raw)
    if cleaned is not None:
        assert urls.problem_of(cleaned) is None
        assert urls.cleaned(cleaned) == cleaned


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/js/../a.js", "/a.js"),
        ("/x/./%2E%2e/a.js", "/a.js"),
        ("/../..", "/"),
        ("/x/y/..", "/x/"),
        ("/.a/..b/c.", "/.a/..b/c."),
    ],
)
def test_dot_segments_are_removed_as_browsers_do(path: str, expected: str) -> None:
    assert urls.cleaned(f"//b.test{path}", base="http://a.test/") == f"http://b.test{expected}"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("B\u00fccher.example.", "xn--bcher-kva.example"),
        ("fa\u00df.de", "xn--fa-hia.de"),
        ("0x7f.1", "127.0.0.1"),
        ("[::FFFF:1.2.3.4]", "[::ffff:102:304]"),
        ("%61.test", "a.test"),
        ("xn--a", None),
        ("1.2.3.4.5", None),
        ("a..b", None),
    ],
)
def test_a_host_gets_the_form_of_the_url_standard(host: str, expected: str | None) -> None:
    assert urls.cleaned(f"http://{host}/x") == (expected and f"http://{expected}/x")


def test_a_lone_surrogate_in_a_path_begins_no_query() -> None:
    assert urls.cleaned("http://a.test/x\ud800y") == "http://a.test/x%EF%BF%BDy"
