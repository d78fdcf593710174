"""Parse the browser's log of a load in March 2013: fetches with times, totals of bytes, renamed files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from fastopen.common.errors import InputError

_RENAMED: Final = re.compile(r"^\*\*\* Renamed (\S+) to /(\S+) \*\*\*$", re.MULTILINE)
_STATISTIC: Final = re.compile(r"^[ct]:(\S+):\s+(\d+)$", re.MULTILINE)
_HISTOGRAM: Final = re.compile(
    r"^Histogram: (\S+) recorded (\d+) samples, average = (\d+\.\d+)", re.MULTILINE
)
# The log has reason phrases instead of status codes, and servers choose the phrases.
_STATUSES: Final = {
    "not modified": 304,
    "no content": 204,
    "moved permanently": 301,
    "moved temporarily": 302,
    "found": 302,
    "object moved": 302,
}


@dataclass(frozen=True)
class Fetch:
    """A request over the network, with times in ms of the log's clock."""

    url: str
    start_ms: float
    end_ms: float
    status: int
    mime: str
    charset: str
    location: str | None


@dataclass(frozen=True)
class Samples:
    """A histogram: the number of its samples and their sum."""

    count: int
    total: int


@dataclass(frozen=True)
class FetchLog:
    """A load's log: fetches in order, named counters and histograms, and hashed file names keyed by path."""

    fetches: tuple[Fetch, ...]
    counters: dict[str, int]
    samples: dict[str, Samples]
    renamed: dict[str, str]


def parse_fetchlog(text: str, place: str) -> FetchLog:
    """Parse a log. Raises InputError if a section is missing or damaged, or if there are no fetches."""
    responses = {}
    for line in _section(text, "responses", place):
        status, mime, charset, rest = _cells(line, place)
        url, _, location = rest.rpartition(" -> ")
        code = _STATUSES.get(status.lower(), 200)
        if location != "nil" and not 300 <= code < 400:
            code = 302
        responses[url] = (code, mime, charset, None if location == "nil" else location)
    fetches = []
    for line in _section(text, "transactions", place):
        start, end, _, url = _cells(line, place)
        if url not in responses:  # cancelled before its response arrived
            continue
        fetches.append(Fetch(url, float(start), float(end), *responses[url]))
    if not fetches:
        raise InputError("no fetches in the log", place)
    samples = {
        name: Samples(int(count), round(int(count) * float(average)))
        for name, count, average in _HISTOGRAM.findall(text)
    }
    counters = {name: int(value) for name, value in _STATISTIC.findall(text)}
    return FetchLog(tuple(fetches), counters, samples, dict(_RENAMED.findall(text)))


def _section(text: str, name: str, place: str) -> list[str]:
    """Return the lines of a section without its heading. Raises InputError if there is no such section."""
    found = re.search(rf"^<{name}>\n(.*?)^</{name}>$", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise InputError(f"no section <{name}>", place, "give a log of the March 2013 loads")
    return [line for line in found.group(1).splitlines()[1:] if line.strip()]


def _cells(line: str, place: str) -> list[str]:
    cells = [cell.strip() for cell in line.split("|", 3)]
    if len(cells) != 4:
        raise InputError(f"a row of {len(cells)} cells where 4 belong: {line[:60]!r}", place)
    return cells
