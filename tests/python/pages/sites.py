"""A small site for tests: the responses of its servers, and the initiator of each resource."""

from __future__ import annotations

import gzip
from dataclasses import dataclass

from fastopen.pages import ImportedPage

ROOT = b"""<!doctype html><html><head><title>A site</title>
<link rel="stylesheet" href="/s.css?v=1">
<link rel="preload" as="font" href="//fonts.test/a.woff2">
<script src="http://cdn.test/app.js"></script>
<!-- <img src="/comment.png"> -->
</head><body background="/back.gif">
<img src="pic/one.png" srcset="pic/one.png 1x, pic/two.png 2x">
<noscript><img src="/silent.png"></noscript>
<iframe src="http://frame.test/f.html"></iframe>
<a href="/other.html">Another page</a>
</body></html>
"""


@dataclass(frozen=True)
class Answer:
    """A server's response for a URL, and the Referer of its request."""

    url: str
    body: bytes
    mime: str
    status: int = 200
    location: str | None = None
    coding: str | None = None
    referer: str | None = "http://a.test/"


def site() -> list[Answer]:
    """Return the responses: a redirect, its target, a compressed document, and its 8 resources on 4 hosts."""
    return [
        Answer("http://a.test/old", b"", "text/html", 301, "http://a.test/", referer=None),
        Answer("http://a.test/", gzip.compress(ROOT, mtime=0), "text/html", coding="gzip", referer=None),
        Answer("http://a.test/s.css?v=1", b'@import "t.css"; p { background: url(i/bg.png) }', "text/css"),
        Answer("http://a.test/t.css", b"q { color: red }", "text/css"),
        Answer("http://a.test/i/bg.png", b"\x89PNG bg", "image/png", referer="http://a.test/s.css?v=1"),
        Answer("http://fonts.test/a.woff2", b"wOF2....", "font/woff2"),
        Answer("http://cdn.test/app.js", b"fetch('/data/some-numbers.json')", "text/javascript"),
        Answer("http://a.test/data/some-numbers.json", b"[1, 2]", "application/json"),
        Answer("http://a.test/pic/one.png", b"\x89PNG one", "image/png"),
        Answer("http://frame.test/f.html", b"<p>a frame</p>", "text/html"),
    ]


# Maps the URL of each resource to the URL of its initiator.
INITIATORS = {
    "http://a.test/old": None,
    "http://a.test/": "http://a.test/old",
    "http://a.test/s.css?v=1": "http://a.test/",
    "http://a.test/t.css": "http://a.test/s.css?v=1",
    "http://a.test/i/bg.png": "http://a.test/s.css?v=1",
    "http://fonts.test/a.woff2": "http://a.test/",
    "http://cdn.test/app.js": "http://a.test/",
    "http://a.test/data/some-numbers.json": "http://cdn.test/app.js",
    "http://a.test/pic/one.png": "http://a.test/",
    "http://frame.test/f.html": "http://a.test/",
}


def initiators(page: ImportedPage) -> dict[str, str | None]:
    """Map the URL of each resource to the URL of its initiator, or to None for the root."""
    resources = page.page.resources
    return {r.url: None if r.initiator is None else resources[r.initiator].url for r in resources}
