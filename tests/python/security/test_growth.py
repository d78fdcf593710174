"""Readers do about twice the work for twice the input. Work is the number of function calls, not seconds."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from command_line import fastopen
from fastopen.analysis.audit import audit
from fastopen.analysis.audit.physics import MeasuredCell
from fastopen.analysis.audit.table import read_table
from fastopen.analysis.statistics import collect
from fastopen.contract import Job
from fastopen.experiments.trace import read_trace
from fastopen.pages import load_pages, page_json
from fastopen.report.findings import page_findings
from fastopen.runs import RunStore
from fastopen.runs.export import export
from made_up_run import made_up_page, made_up_plan, made_up_run
from pages.hars import entry, har
from pages.importers.test_mahimahi import message
from pages.importers.test_warc import archive
from pages.sites import Answer
from places import GOLDEN, ROOT

pytestmark = pytest.mark.slow

FEW = 50
# Twice the work and some more for sorting. Quadratic work would grow four times.
GROWTH = 2.5


def calls_of(work: Callable[[], object]) -> int:
    """Do the work. Return how often it calls Python and C functions."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def named(count: int, names: Callable[[int], str], around: str = "{}") -> list[Answer]:
    """Return a document and `count` images. `names(n)` returns the document's reference to image number n."""
    text = around.format("".join(names(n) for n in range(count)))
    images = [Answer(f"http://a.test/i{n}.png", b"\x89PNG", "image/png") for n in range(count)]
    return [Answer("http://a.test/", text.encode(), "text/html", referer=None), *images]


def har_of(count: int, host: Callable[[int], str] = lambda _: "a.test", **changes: Any) -> bytes:
    made = [entry(f"http://{host(n)}/{n or ''}", n / 10, **changes) for n in range(count)]
    return json.dumps(har(*made, on_load=9000)).encode()


def pages_of_har(count: int) -> bytes:
    made = har(*[entry(f"http://a.test/{n}", n / 10, pageref="none") for n in range(count)], on_load=9000)
    made["log"]["pages"] *= count
    for number, page in enumerate(made["log"]["pages"]):
        made["log"]["pages"][number] = {**page, "id": f"p{number}"}
    return json.dumps(made).encode()


def redirects(count: int) -> bytes:
    made = [
        entry(
            f"http://a.test/{n}",
            n,
            response={"status": 302, "headers": [{"name": "Location", "value": f"/{n + 1}"}]},
        )
        for n in range(count)
    ]
    return json.dumps(har(*made, entry(f"http://a.test/{count}", count))).encode()


def stylesheet(count: int) -> bytes:
    rules = "".join(f"p{n} {{ background: url(i{n}.png) }}\n" for n in range(count))
    root = Answer("http://a.test/", b'<link rel="stylesheet" href="s.css">', "text/html", referer=None)
    return archive([root, Answer("http://a.test/s.css", rules.encode(), "text/css"), *named(count, str)[1:]])


def false_heads(count: int) -> bytes:
    return archive(named(4, lambda n: f'<img src="i{n}.png">')) + b"\x1f\x8b\x08\x00" * count


def lengths_that_lie(count: int) -> bytes:
    good = archive(named(4, lambda n: f'<img src="i{n}.png">'), packed=False)
    return good + b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 1000000000000\r\n\r\nx\r\n\r\n" * count


def page_of(count: int) -> bytes:
    return page_json(made_up_page("many", count)).encode()


FILES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "requests of a HAR": ("x.har", har_of),
    "hosts of a HAR": ("x.har", lambda n: har_of(n, lambda number: f"h{number}.test")),
    "headers of a HAR": (
        "x.har",
        lambda n: har_of(
            8, request={"headers": [{"name": f"h{i}", "value": "x"} for i in range(n)], "headersSize": -1}
        ),
    ),
    "pages of a HAR": ("x.har", pages_of_har),
    "redirects of a HAR": ("x.har", redirects),
    "records of a WARC": ("x.warc.gz", lambda n: archive(named(n, lambda i: f'<img src="i{i}.png">'))),
    "chunks of a WARC": (
        "x.warc",
        lambda n: archive(named(n, lambda i: f'<img src="i{i}.png">'), packed=False, chunked=True),
    ),
    "URLs of a srcset": (
        "x.warc.gz",
        lambda n: archive(named(n, "i{}.png 1x, ".format, '<img srcset="{}">')),
    ),
    "URLs of a stylesheet": ("x.warc.gz", stylesheet),
    "nested elements": ("x.warc.gz", lambda n: archive(named(n, lambda i: f'<div><img src="i{i}.png">'))),
    "false heads of gzip": ("x.warc.gz", false_heads),
    "records that lie about their length": ("x.warc", lengths_that_lie),
    "resources of a page": ("x.page.json", page_of),
    "lines of a list": ("x.pages", lambda n: b"# a comment\nhttp://example.com/\n" * n),
}


def write(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir()
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("what", FILES)
def test_twice_the_input_is_at_most_twice_the_work(what: str, tmp_path: Path) -> None:
    name, made = FILES[what]
    once, twice = (write(tmp_path / str(n), name, made(n)) for n in (FEW, 2 * FEW))

    def work(path: Path) -> int:
        return calls_of(lambda: load_pages([path], lenient=True))

    work(once)  # to import modules and fill caches
    assert work(twice) <= GROWTH * work(once)


@pytest.mark.parametrize("kind", ["Mahimahi", "mirror", "WACZ"])
def test_twice_the_files_are_at_most_twice_the_work(kind: str, tmp_path: Path) -> None:
    def made(count: int) -> Path:
        answers = named(count, lambda n: f'<img src="i{n}.png">')
        folder = tmp_path / str(count)
        folder.mkdir()
        for number, answer in enumerate(answers):
            if kind == "Mahimahi":
                (folder / f"save.{number:06}").write_bytes(message(answer))
            elif kind == "mirror":
                place = folder / "a.test" / (answer.url.rpartition("/")[2] or "index.html")
                place.parent.mkdir(exist_ok=True)
                place.write_bytes(answer.body)
        if kind != "WACZ":
            return folder
        listed = "".join(json.dumps({"url": f"http://a.test/{n}"}) + "\n" for n in range(count))
        with zipfile.ZipFile(folder / "x.wacz", "w") as out:
            out.writestr("archive/data.warc.gz", archive(answers))
            out.writestr("pages/pages.jsonl", '{"url": "http://a.test/"}\n' + listed)
        return folder / "x.wacz"

    once, twice = made(FEW), made(2 * FEW)

    def work(path: Path) -> int:
        return calls_of(lambda: load_pages([path], lenient=True))

    work(once)
    assert work(twice) <= GROWTH * work(once)


def test_jobs_traces_and_tables_grow_no_faster_than_their_lines(tmp_path: Path) -> None:
    job = json.loads((GOLDEN / "job-minimal.json").read_bytes())

    def jobs(count: int) -> str:
        loads = [{"id": f"load {n}", "transport": "tcp", "cookies": None} for n in range(count)]
        return json.dumps(job | {"loads": loads})

    def trace(count: int) -> Path:
        return write(
            tmp_path / f"trace {count}", "x.trace", b"".join(b"%d\n" % (n + 1) for n in range(count))
        )

    published = (ROOT / "experiments" / "published.csv").read_text().splitlines(True)

    def table(count: int) -> Path:
        rows = published[:1] + [published[1]] * count
        return write(tmp_path / f"table {count}", "x.csv", "".join(rows).encode())

    readers: list[tuple[Callable[[int], Any], Callable[[Any], object]]] = [
        (jobs, Job.model_validate_json),
        (trace, read_trace),
        (table, read_table),
    ]
    for made, read in readers:
        once, twice = made(FEW), made(2 * FEW)
        read(once)
        assert calls_of(partial(read, twice)) <= GROWTH * calls_of(partial(read, once))


def test_twice_the_cells_of_a_table_are_at_most_twice_the_comparisons(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read = 0

    def counted(cell: MeasuredCell) -> Decimal:
        nonlocal read
        read += 1
        return Decimal(cell.rtt)

    monkeypatch.setattr(MeasuredCell, "room", property(counted))

    def work(count: int) -> int:
        nonlocal read
        rows = "".join(f"x,a,{n + 1},2,1,s\n" for n in range(count))
        header = "experiment,page,rtt_ms,plt_off,plt_tfo,unit_as_printed\n"
        table = read_table(write(tmp_path / str(count), "x.csv", (header + rows).encode()))
        read = 0
        audit(table.cells)
        return read

    assert 0 < work(2 * FEW) <= GROWTH * work(FEW)


def test_twice_the_loads_of_a_run_are_at_most_twice_the_work(tmp_path: Path) -> None:
    def made(repeats: int) -> Path:
        plan = made_up_plan([made_up_page("made-up", 4)], (20,), repeats=repeats)
        return made_up_run(tmp_path / str(repeats), plan)

    def work(folder: Path) -> int:
        def read() -> None:
            with RunStore.open(folder) as run:
                list(run.load_records(run.loads()))
                export(run, folder / "csv", "csv", replace=True)

        return calls_of(read)

    once, twice = made(6), made(12)
    work(once)
    assert work(twice) <= GROWTH * work(once)


def test_twice_the_networks_are_at_most_twice_the_work_where_each_is_held_against_the_others(
    tmp_path: Path,
) -> None:
    def work(networks: int) -> int:
        rtts = range(20, 20 + networks)
        plan = made_up_plan([made_up_page("made-up", 4)], rtts, repeats=1, engines=["virtual"])
        with RunStore.create(tmp_path / str(networks), plan, {}) as run:
            results = collect(run)
        return calls_of(lambda: list(page_findings(results, "made-up")))

    work(FEW)
    assert work(4 * FEW) <= GROWTH * work(2 * FEW)


def test_twice_the_networks_of_a_run_are_at_most_twice_the_work(tmp_path: Path) -> None:
    def made(networks: int) -> Path:
        rtts = range(20, 20 + networks)
        plan = made_up_plan([made_up_page("made-up", 4)], rtts, repeats=1, rates_mbit=(2, 4))
        return made_up_run(tmp_path / str(networks), plan)

    def work(folder: Path) -> int:
        return calls_of(lambda: fastopen("show", folder))

    once, twice = made(8), made(16)
    work(once)
    assert work(twice) <= GROWTH * work(once)
