"""Breaks HARs and pages at random and checks that the importers answer with pages or with InputError.

`python -m fastopen.pages.fuzz --seconds 600 [FILE...]` runs for long; the tests run it for a moment.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fastopen.common.errors import InputError
from fastopen.pages import load_pages, packaged_pages, page_json
from fastopen.pages.model import decode_json, parse_page

_ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 304, 2**31, 2**63, 10**400, -(10**30), 0.1, -0.0, 1e308, float("nan"),
    float("inf"), "", " ", "-1", "0", "1e9", "\x00", "\ud800", "ü" * 50, "x" * 70_000, [], {}, [[]], {"": {}},
    "http://a.test/", "HTTPS://A.TEST:0/%zz#?", "http://[::1", "data:,x", "//b.test", "javascript:void(0)",
    "2024-05-01T10:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.9999999-12:00", "script",
)  # fmt: skip
_SMALL: Final = {
    "log": {
        "pages": [{"id": "p", "startedDateTime": "2024-05-01T10:00:00Z", "pageTimings": {"onLoad": 500}}],
        "entries": [
            {
                "pageref": "p",
                "startedDateTime": f"2024-05-01T10:00:00.{index:03}Z",
                "time": 80,
                "request": {"method": "GET", "url": f"http://h{index % 3}.test/{index}", "headers": [
                    {"name": "Referer", "value": "http://h0.test/0"}]},
                "response": {"status": 301 if index == 0 else 200, "redirectURL": "http://h1.test/1",
                             "headers": [{"name": "content-type", "value": "text/html"}],
                             "content": {"size": 9, "text": "some text", "mimeType": "text/css"},
                             "bodySize": 9, "headersSize": -1},
                "timings": {"connect": 20, "wait": 40, "receive": index, "_queued": 1},
                "_initiator": {"type": "script", "stack": {"callFrames": [{"url": "http://h0.test/3"}],
                                                           "parent": {"callFrames": []}}},
                "_resourceType": ("document", "script", "image", "font", "xhr")[index % 5],
            }
            for index in range(8)
        ],
    }
}  # fmt: skip


def mutated(value: Any, rng: random.Random, changes: int) -> Any:
    """A copy of `value` with `changes` places replaced, removed, doubled or swapped."""
    root: list[Any] = [json.loads(json.dumps(value))]
    for _ in range(changes):
        holder, key = _place(root, rng)
        kind = rng.randrange(4)
        if kind == 0 and (isinstance(holder, dict) or len(holder) > 1):
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif kind == 2:
            other, where = _place(root, rng)
            copied = json.dumps(other[where])
            if len(copied) < 100_000:
                holder[key] = json.loads(copied)
        else:
            holder[key] = copy.deepcopy(rng.choice(_ODD))
    return root[0]


def _place(root: list[Any], rng: random.Random) -> tuple[Any, Any]:
    """Some member of some object or list, deep ones as likely as shallow ones."""
    holder: Any = root
    key: Any = 0
    while isinstance(holder[key], (dict, list)) and holder[key] and rng.random() < 0.85:
        holder = holder[key]
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    return holder, key


def check(data: bytes, folder: Path) -> bool:
    """Loads `data` as a file. True if pages came out, False if an InputError did; whatever else is a bug."""
    file = folder / "fuzzed"
    file.write_bytes(data)
    try:
        first = load_pages([file], lenient=len(data) % 2 == 0)
    except InputError as error:
        message = str(error)
        if not message.isprintable() or str(file) not in message:
            raise AssertionError(f"not one line that names the file: {message!r}") from error
        return False
    again = load_pages([file], lenient=len(data) % 2 == 0)
    assert first == again, "two readings differ"
    for imported in first:
        written = page_json(imported.page)
        assert parse_page(decode_json(written, "written"), "written") == imported.page
    return True


def fuzz(seeds: Sequence[Any], seconds: float, seed: int, runs: int = sys.maxsize) -> tuple[int, int]:
    """Breaks `seeds` until time or `runs` are over; how many runs there were and how many gave pages."""
    rng = random.Random(seed)
    done = good = 0
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name:
        while done < runs and time.monotonic() < until:
            broken = mutated(rng.choice(seeds), rng, rng.choice((1, 1, 2, 5, 20)))
            data = json.dumps(broken).encode("utf-8", "replace")
            if rng.random() < 0.1:
                cut = rng.randrange(len(data) + 1)
                data = data[:cut] + bytes(rng.randrange(256) for _ in range(3)) + data[cut + 2 :]
            if rng.random() < 0.1:
                data = gzip.compress(data)[: rng.choice((None, -1, 20))]
            try:
                good += check(data, Path(name))
            except BaseException:
                kept = Path(f"fuzz-{seed}-{done}.har")
                kept.write_bytes(data)
                print(f"run {done} of seed {seed} failed; its input is in {kept}", file=sys.stderr)
                raise
            done += 1
    return done, good


def seeds_of(files: Sequence[Path]) -> list[Any]:
    """Decoded JSON to break: the files given, a small HAR, a packaged page."""
    found: list[Any] = [_SMALL, json.loads(packaged_pages()["example"].read_text("utf-8"))]
    for file in files:
        data = file.read_bytes()
        unpacked = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        found.append(json.loads(unpacked.decode("utf-8-sig", "replace")))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fastopen.pages.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args()
    done, good = fuzz(seeds_of(given.files), given.seconds, given.seed)
    print(f"seed {given.seed}: {done} inputs, {good} gave pages, {done - good} gave an error, no bug")


if __name__ == "__main__":
    main()
