"""Measure the indexing of a made-up corpus: processor time for each file, and memory.

Run as `.venv/bin/python benches/corpus.py --files 10000`. Recordings are like those of browsers, without
bodies. One in a thousand is truncated.

With `--files 120 --write FOLDER`, it instead writes recordings that differ more from each other, the corpus
of docs/measurements/corpora.md."""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fastopen.pages.budget import MAX_UNPACKED_BYTES
from fastopen.pages.corpus import index_file

TYPES = ["text/css", "application/javascript", "image/png", "image/webp", "font/woff2", "application/json"]
CUT_EVERY = 1000


# For each kind of page: the logarithm of the median number of requests, and the probability that a request's
# initiator is the previous request instead of the document.
KINDS = [(2.5, 0.05), (3.5, 0.2), (4.2, 0.4), (3.0, 0.02), (4.0, 0.6)]
VARIED_CUT_EVERY = 50


def varied_recording(number: int) -> str:
    """Return a random HAR of one of KINDS, with one or many hosts, and with or without long chains of
    initiators. One in VARIED_CUT_EVERY is truncated."""
    draw = random.Random(1000 + number)
    kind = number % len(KINDS)
    logarithm, chained = KINDS[kind]
    requests = max(1, int(draw.lognormvariate(logarithm, 0.7)))
    hosts = [
        f"h{one}.site{number}.example"
        if draw.random() < 0.4
        else f"cdn{draw.randrange(60)}.third{draw.randrange(40)}.example"
        for one in range(max(1, int(requests / draw.choice([1.5, 4, 8, 20, 60]))))
    ]
    root = before = f"https://{hosts[0]}/0"
    entries, at_ms = [], 0
    for index in range(requests):
        url = root if index == 0 else f"https://{draw.choice(hosts)}/{index}"
        chain = draw.random() < chained
        at_ms += draw.randrange(20)
        entry = _entry(draw, url, at_ms, "" if index == 0 else before if chain else root)
        if kind == 3:
            size = draw.randrange(200_000)
            entry["response"]["bodySize"] = entry["response"]["content"]["size"] = size
        entries.append(entry)
        before = url
    text = _har(root, at_ms, entries)
    return text[: len(text) // 2] if number % VARIED_CUT_EVERY == VARIED_CUT_EVERY - 1 else text


def recording(number: int) -> str:
    """Return a random HAR of about 80 requests, eight for each host. One in CUT_EVERY is truncated."""
    draw = random.Random(number)
    requests = max(1, int(draw.lognormvariate(4.2, 0.7)))
    hosts = [f"h{one}.site{number}.example" for one in range(max(1, requests // 8))]
    root = f"https://{hosts[0]}/0"
    entries, at_ms = [], 0
    for index in range(requests):
        at_ms += draw.randrange(20)
        url = root if index == 0 else f"https://{draw.choice(hosts)}/{index}"
        entries.append(_entry(draw, url, at_ms, root if index else ""))
    text = _har(root, at_ms, entries)
    return text[: len(text) // 2] if number % CUT_EVERY == CUT_EVERY - 1 else text


def _har(root: str, at_ms: int, entries: list[dict[str, Any]]) -> str:
    page = {"id": "p", "title": root, "startedDateTime": _time(0), "pageTimings": {"onLoad": at_ms + 100}}
    log = {"version": "1.2", "creator": {"name": "made up", "version": "1"}, "pages": [page]}
    return json.dumps({"log": {**log, "entries": entries}})


def _time(ms: int) -> str:
    return f"2024-01-01T00:{ms // 60_000:02d}:{ms // 1000 % 60:02d}.{ms % 1000:03d}Z"


def _entry(draw: random.Random, url: str, at_ms: int, initiator: str) -> dict[str, Any]:
    size, kind = int(draw.lognormvariate(9, 1.5)), draw.choice(TYPES) if initiator else "text/html"
    headers = [{"name": f"header-{one}", "value": "x" * 40} for one in range(4)]
    connects = {"dns": -1, "connect": -1, "ssl": -1} if initiator else {"dns": 10, "connect": 50, "ssl": 30}
    return {
        "pageref": "p",
        "startedDateTime": _time(at_ms),
        "time": 80,
        "request": {
            "method": "GET",
            "url": url,
            "httpVersion": "h2",
            "headers": headers,
            "headersSize": -1,
            "bodySize": 0,
        },
        "response": {
            "status": 200,
            "httpVersion": "h2",
            "headers": headers,
            "headersSize": -1,
            "bodySize": size,
            "content": {"size": size, "mimeType": kind},
        },
        "timings": {"send": 0, "wait": 60, "receive": 20, **connects},
        "_initiator": {"type": "parser", "url": initiator, "lineNumber": 1}
        if initiator
        else {"type": "other"},
    }


def main() -> None:
    """Print processor time per file, and peak memory after a tenth of the files and after all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--write", type=Path, help="write varied recordings into this folder instead")
    asked = parser.parse_args()
    if asked.write is not None:
        asked.write.mkdir(parents=True, exist_ok=True)
        for number in range(asked.files):
            (asked.write / f"site{number}.har").write_text(varied_recording(number))
        return
    pages = requests = damaged = 0
    tenth_kib, indexing_s = 0, 0.0
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "made-up.har"
        for number in range(asked.files):
            file.write_text(recording(number))
            started = time.process_time()
            indexed = index_file(file, lenient=False, max_unpacked=MAX_UNPACKED_BYTES)
            indexing_s += time.process_time() - started
            pages += len(indexed.rows)
            requests += sum(row["requests"] for row in indexed.rows)
            damaged += bool(indexed.error)
            if number == asked.files // 10:
                tenth_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    all_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{pages:,} pages with {requests:,} requests, {damaged} damaged", file=sys.stderr)
    print(
        f"{indexing_s / asked.files * 1000:.1f} ms of processor a file, {indexing_s:.0f} s in all",
        file=sys.stderr,
    )
    words = f"{tenth_kib / 1024:.0f} MB after a tenth of the files, {all_kib / 1024:.0f} MB after all"
    print(words, file=sys.stderr)


if __name__ == "__main__":
    main()
