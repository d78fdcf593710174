"""Make small HARs for tests, with the fields that all recorders write."""

from __future__ import annotations

import re
from typing import Any

from fastopen.pages import ImportedPage, Page
from fastopen.pages.importers.har.parts import BodyStripper
from fastopen.pages.importers.har.recording import pages_of_log
from fastopen.pages.importers.notes import SENTENCES, Notes

START = "2024-05-01T10:00:0"  # a test appends seconds, such as "0.250Z"


def at(ms: float) -> str:
    """Return a startedDateTime this many ms after the start of the page."""
    return f"{START}{ms / 1000:.3f}Z"


def entry(url: str, start: float = 0, **changes: Any) -> dict[str, Any]:
    """Return an entry of a GET with status 200: 20 ms of connecting, 50 ms of waiting, 10 ms of receiving."""
    request: dict[str, Any] = {
        "method": "GET",
        "url": url,
        "httpVersion": "HTTP/1.1",
        "headers": [{"name": "Host", "value": "a.test"}],
        "headersSize": 200,
        "bodySize": 0,
    }
    response: dict[str, Any] = {
        "status": 200,
        "statusText": "OK",
        "httpVersion": "HTTP/1.1",
        "headers": [{"name": "Content-Type", "value": "text/html"}],
        "content": {"size": 1000, "mimeType": "text/html"},
        "redirectURL": "",
        "headersSize": 150,
        "bodySize": 1000,
    }
    timings = {"blocked": 0, "dns": -1, "connect": 20, "ssl": -1, "send": 0, "wait": 50, "receive": 10}
    made = {
        "startedDateTime": at(start),
        "time": 80,
        "request": request | changes.pop("request", {}),
        "response": response | changes.pop("response", {}),
        "timings": timings | changes.pop("timings", {}),
        "cache": {},
    }
    return made | changes


def har(*entries: Any, on_load: float | None = None, **log: Any) -> dict[str, Any]:
    """Return a HAR with one page, which began at 0 ms, and these entries."""
    timings = {} if on_load is None else {"onLoad": on_load}
    page = {"id": "p", "title": "", "startedDateTime": at(0), "pageTimings": timings}
    found = [e if not isinstance(e, dict) else {"pageref": "p"} | e for e in entries]
    return {"log": {"version": "1.2", "pages": [page], "entries": found} | log}


def import_har(data: object, place: str, *, lenient: bool = False) -> list[ImportedPage]:
    """Return a decoded HAR's pages that have entries, in file order. Raises InputError for an invalid HAR."""
    log = data.get("log") if isinstance(data, dict) else None
    if isinstance(log, dict) and isinstance(log.get("entries"), list):
        strip = BodyStripper()
        data = {"log": log | {"entries": [strip(raw) for raw in log["entries"]]}}
    return pages_of_log(data, place, Notes(), lenient=lenient)


def one_page(*entries: Any, on_load: float | None = None) -> ImportedPage:
    (page,) = import_har(har(*entries, on_load=on_load), "my.har")
    return page


ROOT = entry("http://a.test/")


def kind(type_: str) -> dict[str, str]:
    """Return the field in which Chrome writes the type of a request."""
    return {"_resourceType": type_}


def noted(page: Page) -> dict[str, int]:
    """Map each note of a page, named by its key in SENTENCES, to the count in the note (1 if it has none)."""
    found: dict[str, int] = {}
    for key, sentence in SENTENCES.items():
        pattern = re.compile(re.escape(sentence).replace(re.escape("{n}"), r"(\d+)"))
        for match in filter(None, map(pattern.fullmatch, page.notes)):
            found[key] = int(match[1]) if match.groups() else 1
    return found
