"""References to resources in documents and stylesheets, and their positions."""

from __future__ import annotations

import gzip
import time
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from fastopen.pages.importers.messages import unpacked
from fastopen.pages.references import find_reference
from fastopen.pages.references.parsed import references_in


def urls(text: str) -> list[str]:
    return [name.url for name in references_in(text.encode(), "document").found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<img src="a.png" srcset="b.png 1x, c.png 2x">', ["a.png", "b.png", "c.png"]),
        ('<img srcset="a.png?x=1,2 640w,\n b.png 1280w">', ["a.png?x=1,2", "b.png"]),
        ("<link rel='preload stylesheet' href=a.css><link rel=next href=no>", ["a.css"]),
        ('<link rel="shortcut icon" href="i.ico"><link rel=preconnect href="//x.test">', ["i.ico"]),
        ('<link rel="alternate stylesheet" href="no.css">', []),
        ('<script src="a.js?x=1&amp;y=2"></script>', ["a.js?x=1&y=2"]),
        ("<script>var x = '<img src=no.png>'</script>", []),
        ("<!-- <img src=no.png> --><img src='data:image/gif;base64,R0'>", []),
        ("<noscript><img src=no.png></noscript><template><img src=no.png></template>", []),
        ("<style>p { background: url( 'a.png' ) }</style>", ["a.png"]),
        ("<p style=\"background: url('a.png')\">", ["a.png"]),
        (f"<style>p {{ order: {'1' * 5000}; background: url(a.png) }}</style>", ["a.png"]),
        ("<video src=a.mp4 poster=b.jpg><source src=c.webm><track src=d.vtt></video>",
         ["a.mp4", "b.jpg", "c.webm", "d.vtt"]),
        ("<svg><image xlink:href='a.png'/><use href='b.svg#x'/></svg>", ["a.png", "b.svg#x"]),
        ("<body background=a.gif><object data=b.swf></object><embed src=c.swf>", ["a.gif", "b.swf", "c.swf"]),
        ("<input type=image src=a.png><td background=b.png>", ["a.png"]),
    ],
)  # fmt: skip
def test_a_document_names_what_a_browser_would_ask_for(text: str, expected: list[str]) -> None:
    assert urls(text)[: len(expected)] == expected
    assert "no" not in "".join(urls(text)).replace("noscript", "")


def test_what_a_browser_takes_one_of_is_one_picture() -> None:
    text = b"""<img src=a srcset='b 1x, c 2x'><img src=d><picture><source srcset='e 1x, f 2x' type=image/webp>
        <source srcset=g><img src=h></picture><img src=i srcset=j>
        <link rel=preload as=image href=k imagesrcset=l>"""
    found: dict[int | None, str] = {}
    for name in references_in(text, "document").found:
        found[name.picture] = found.get(name.picture, "") + name.url
    assert sorted(found.values()) == ["abc", "d", "efgh", "ij", "kl"]
    assert found[None] == "d"


def test_a_reference_is_known_when_its_tag_is_there_and_not_before() -> None:
    text = b"<html><body>" + b"words " * 1000 + b"<img src=a.png>" + b"more " * 1000
    (name,) = references_in(text, "document").found
    end = text.index(b"a.png>") + len(b"a.png>")
    assert end <= name.at < end + 256


def test_links_are_calibrated_from_what_the_page_loads() -> None:
    names = references_in(b'<a href="b.html">x</a><iframe src="c.html"></iframe>', "document").found
    assert [(name.url, name.link) for name in names] == [("b.html", True), ("c.html", False)]


def test_the_base_of_a_document_is_told() -> None:
    assert references_in(b"<base href='http://b.test/'><img src=a>", "document").base == "http://b.test/"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@import "a.css" screen;', [("a.css", "stylesheet")]),
        ("@import url(a.css) layer(x) supports(display: grid);", [("a.css", "stylesheet")]),
        ("@font-face { src: url('a.woff2') format('woff2') }", [("a.woff2", "font")]),
        ("@media print { p { background: url(a.png) } }", [("a.png", "image")]),
        ("p { background: image-set('a.png' 1x, url(b.png) 2x) }", [("a.png", "image"), ("b.png", "image")]),
        ("/* url(no.png) */ p { content: 'url(no.png)' }", []),
        ("p { background: \\75rl(a\\.png) }", [("a.png", "image")]),
    ],
)
def test_a_stylesheet_names_imports_fonts_and_images(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(name.url, name.type) for name in references_in(text.encode(), "stylesheet").found] == expected


@settings(max_examples=100)
@given(st.binary(max_size=200) | st.text("<>/ahrefscriptnol=\"' ;{}@url()", max_size=200).map(str.encode))
def test_any_bytes_are_read_as_document_and_as_stylesheet(text: bytes) -> None:
    for name in references_in(text, "document").found:
        assert 0 <= name.at <= len(text)
    references_in(text, "stylesheet")


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
        ("br", brotli.compress),
        ("zstd", zstandard.compress),
        ("gzip, br", lambda data: brotli.compress(gzip.compress(data))),
        ("identity", bytes),
        ("", bytes),
        ("gzip", bytes),  # an archiver has decompressed the body but kept the header
    ],
)
def test_content_codings_are_undone(coding: str, pack: object) -> None:
    assert callable(pack)
    assert unpacked(pack(b"<p>so many words" * 50), coding) == b"<p>so many words" * 50


def test_a_coded_body_that_is_damaged_or_of_an_unknown_coding_is_nothing() -> None:
    assert unpacked(b"\x00\x01\x02", "gzip") is None
    assert unpacked(b"9Ks_EsWK\x00\xd6\xc3", "sdch") is None
    assert unpacked(b"text", "utf-8") == b"text"  # browsers ignore codings that they do not know


@settings(max_examples=100)
@given(st.binary(max_size=60), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip,br"]))
def test_any_bytes_are_unpacked_or_are_nothing(body: bytes, coding: str) -> None:
    assert isinstance(unpacked(body, coding), bytes | None)


@pytest.mark.parametrize(
    "text",
    ["<img srcset='" + "," * 20_000 + "'>", "<p style='" + "(" * 20_000 + "url(x)'>", "<div>" * 20_000],
)
def test_what_is_made_to_take_long_does_not(text: str) -> None:
    begun = time.process_time()
    references_in(text.encode(), "document")
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(("after", "is_named"), [("", True), ('"', True), ("?x=1", True), ("x.png", False)])
def test_a_folder_is_not_named_by_the_urls_in_it(after: str, is_named: bool) -> None:
    other = b"'http://a.test/y/1.png' "
    text = other + f"'http://a.test/y/{after}".encode()
    found = find_reference(text, "http://a.test/y/", "http://b.test/")
    assert found == (len(text) - len(after) if is_named else None)
