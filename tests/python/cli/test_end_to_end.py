"""The command line with the real world program: real namespaces, real TCP, evidence from the kernel."""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from places import ROOT

PROGRAM = ROOT / "target" / "release" / "fastopen-world"
FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]
NOBODY = "65534"

pytestmark = [pytest.mark.e2e, pytest.mark.real_time]


def fastopen(*arguments: object, program: Path = PROGRAM) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "FASTOPEN_WORLD": str(program)}
    command = [*FASTOPEN, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def cells_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Map each arm to its cell in a run of one page over one network."""
    assert done.returncode == 0, done.stdout + done.stderr
    return {cell["cookies"] or "off": cell for cell in json.loads(done.stdout)["cells"]}


def assert_warm_tfo_is_proven_and_faster(cells: dict[str, Any]) -> None:
    assert {name: cell["invalid_reasons"] for name, cell in cells.items()} == {
        "off": [],
        "cold": [],
        "warm": [],
    }
    off, warm = cells["off"], cells["warm"]
    assert off["syn_data_connections"] == 0 < off["connections"]
    assert warm["syn_data_connections"] == warm["connections"] > 0
    assert warm["plt_ms_median"] < off["plt_ms_median"]
    assert warm["improvement_percent"] > 0


def test_warm_cookies_load_a_page_sooner_with_proof_from_the_kernel() -> None:
    done = fastopen("run", "example", "--rtt", "50ms", "--repeats", "3", "--json", "--quiet")
    cells = cells_of(done)
    assert_warm_tfo_is_proven_and_faster(cells)
    low, high = cells["warm"]["improvement_ci95"]
    assert 0 < low <= high
    assert abs(cells["off"]["rtt_ms_measured"] - 50) < 1


def test_cold_cookies_save_on_later_connections_to_a_known_host_only() -> None:
    cells = cells_of(fastopen("run", "example", "--rtt", "50ms", "--repeats", "1", "--json", "--quiet"))
    assert cells["cold"]["syn_data_connections"] < cells["cold"]["connections"]


@pytest.fixture(name="program_of_nobody")
def _program_of_nobody() -> Iterator[Path]:
    """Yield a program that runs the world program as an ordinary user, from a readable folder."""
    if os.geteuid() != 0:
        yield PROGRAM  # this user is an ordinary one
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        shutil.copy(PROGRAM, place / "fastopen-world")
        wrapper = place / "as-nobody"
        command = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups {place}/fastopen-world"
        wrapper.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        wrapper.chmod(0o755)
        yield wrapper


def test_an_ordinary_user_can_do_it_too(program_of_nobody: Path) -> None:
    options = ("--rtt", "50ms", "--repeats", "1", "--json", "--quiet")
    assert_warm_tfo_is_proven_and_faster(
        cells_of(fastopen("run", "example", *options, program=program_of_nobody))
    )


def har_entry(url: str, body: bytes, kind: str, started: str) -> dict[str, Any]:
    message = {"httpVersion": "HTTP/1.1", "headers": [], "cookies": [], "headersSize": 200}
    text = base64.b64encode(body).decode()
    content = {"size": len(body), "mimeType": kind, "text": text, "encoding": "base64"}
    response = {
        "status": 200,
        "statusText": "OK",
        "content": content,
        "redirectURL": "",
        "bodySize": len(body),
    }
    return {
        "startedDateTime": started,
        "time": 20,
        "request": {**message, "method": "GET", "url": url, "queryString": [], "bodySize": 0},
        "response": {**message, **response},
        "cache": {},
        "timings": {"send": 0, "wait": 10, "receive": 10},
    }


def test_a_har_with_recorded_bodies_is_served_as_it_was_recorded(tmp_path: Path) -> None:
    entries = [
        har_entry("http://a.test/", b"<html>" + b"x" * 5000, "text/html", "2026-01-01T00:00:00.000Z"),
        har_entry("http://b.test/b.png", b"\x89PNG" + b"y" * 9000, "image/png", "2026-01-01T00:00:00.050Z"),
    ]
    log = {"version": "1.2", "creator": {"name": "test", "version": "1"}, "pages": [], "entries": entries}
    (tmp_path / "my.har").write_text(json.dumps({"log": log}))
    cells = cells_of(
        fastopen("run", tmp_path / "my.har", "--rtt", "20ms", "--repeats", "1", "--json", "--quiet")
    )
    assert_warm_tfo_is_proven_and_faster(cells)


def running(program: Path) -> set[int]:
    """Return the ids of all processes, in any namespace, that run this file."""
    found: set[int] = set()
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdecimal() and (process / "exe").readlink() == program:
                found.add(int(process.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_however_the_front_ends(number: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "fastopen-world"
    shutil.copy(PROGRAM, program)
    environment = {**os.environ, "FASTOPEN_WORLD": str(program)}
    command = [*FASTOPEN, "run", "example", "--rtt", "1s", "--repeats", "2", "--quiet"]
    ends = time.monotonic() + 60
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as front:
        while len(running(program)) < 4:  # two worlds, each with at least two processes
            assert front.poll() is None, "the run ended before it was interrupted"
            assert time.monotonic() < ends
            os.sched_yield()
        front.send_signal(number)
    while left := running(program):
        assert time.monotonic() < ends, f"processes {left} outlived their front"
        os.sched_yield()
