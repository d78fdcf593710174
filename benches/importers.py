"""Measure the time and peak memory of importing generated HARs, each read by a new process.

`.venv/bin/python benches/importers.py [FILE...]` prints the table of docs/measurements/speed.md, with a
further row for each FILE (HAR, WARC, WACZ, folder of a mirror or of recordings)."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MB = 1_000_000
RUNS = 3
CHILD = """
import resource, sys, time
from fastopen.pages import load_pages
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reports = []
start, busy = time.perf_counter(), time.process_time()
pages = load_pages([sys.argv[1]], progress=lambda *step: reports.append(step))
took, busy = time.perf_counter() - start, time.process_time() - busy
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(took, busy, (peak - before) * 1024, sum(len(p.page.resources) for p in pages), len(reports))
"""


def entry(rng: random.Random, index: int, body: int) -> dict[str, Any]:
    """Return an entry like Chrome's: about 5 kB of headers and cookies, and a body of `body` characters."""
    packed = index % 3 > 0
    raw = rng.randbytes(body * 3 // 4) if packed else b""
    text = base64.b64encode(raw).decode() if packed else "lorem ipsum dolor " * (body // 18)
    fields = [{"name": f"x-field-{n}", "value": rng.randbytes(40).hex()} for n in range(18)]
    size = len(raw) if packed else len(text)
    content = {"size": size, "mimeType": "image/png" if packed else "text/html", "text": text}
    return {
        "pageref": "p",
        "startedDateTime": f"2024-05-01T10:00:{index % 60:02}.000Z",
        "time": 80,
        "_initiator": {"type": "parser", "url": "http://host0.test/"} if index else {"type": "other"},
        "request": {
            "method": "GET", "url": f"http://host{index % 20}.test/{index or ''}", "httpVersion": "HTTP/1.1",
            "headers": fields, "headersSize": 1900, "bodySize": 0,
            "cookies": [{"name": f["name"], "value": f["value"]} for f in fields],
        },
        "response": {
            "status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1", "headers": fields[:9],
            "redirectURL": "", "headersSize": 900, "bodySize": size,
            "content": content | ({"encoding": "base64"} if packed else {}),
        },
        "timings": {"blocked": 0, "connect": 20, "send": 0, "wait": 50, "receive": 10},
    }  # fmt: skip


def pieces(total: int, body: int) -> Iterator[str]:
    """Yield a HAR of about `total` characters in pieces: the head, each entry, and the end."""
    rng = random.Random(1)
    head = {
        "id": "p",
        "title": "",
        "startedDateTime": "2024-05-01T10:00:00Z",
        "pageTimings": {"onLoad": 9000},
    }
    yield f'{{"log": {{"version": "1.2", "pages": [{json.dumps(head)}], "entries": [\n'
    written = index = 0
    while written < total:
        made = json.dumps(entry(rng, index, body))
        yield (",\n" if index else "") + made
        written += len(made)
        index += 1
    yield "]}}"


def write_har(path: Path, total: int, body: int) -> None:
    with path.open("w") as file:
        file.writelines(pieces(total, body))


def measured(path: Path) -> tuple[float, float, int, int, int]:
    """Import a file RUNS times. Return these figures of the fastest import: wall time and processor time in
    seconds, peak memory in bytes, and the numbers of requests and of progress reports."""
    best: tuple[float, float, int, int, int] | None = None
    for _ in range(RUNS):
        done = subprocess.run([sys.executable, "-c", CHILD, path], capture_output=True, text=True, check=True)
        took, busy, peak, requests, reports = done.stdout.split()
        found = (float(took), float(busy), int(peak), int(requests), int(reports))
        best = found if best is None or found < best else best
    assert best is not None
    return best


def main() -> None:
    print("| input | size | requests | time (best of 3) | of it processor | peak memory | progress reports |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        made = [
            ("HAR, bodies of 20 kB", 5 * MB, 20_000),
            ("HAR without bodies", 5 * MB, 0),
            ("HAR, bodies of 20 kB", 100 * MB, 20_000),
            ("HAR, bodies of 1 MB", 100 * MB, 1_000_000),
            ("HAR without bodies", 50 * MB, 0),
        ]
        for what, total, body in made:
            path = Path(name) / "made.har"
            write_har(path, total, body)
            row(what, path)
    for given in sys.argv[1:]:
        row(Path(given).name, Path(given))


def row(what: str, path: Path) -> None:
    took, busy, peak, requests, reports = measured(path)
    size = path.stat().st_size if path.is_file() else sum(p.stat().st_size for p in path.rglob("*"))
    times = f"{took:.2f} s | {busy:.2f} s"
    print(
        f"| {what} | {size / MB:.1f} MB | {requests} | {times} | {peak / MB:.0f} MB | {reports} |", flush=True
    )


if __name__ == "__main__":
    main()
