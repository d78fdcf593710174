"""Kill any process of a run at any time (both engines): no load lost or repeated, no process or file left."""

from __future__ import annotations

import ctypes
import os
import random
import select
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import fastopen
from fastopen.contract import InvalidKind, LoadRecord
from fastopen.runs import RunStore
from runs.forked import forked

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# Number of kills: a thousand in a long test, few in the usual tests. They are divided into PARTS, which may
# run at the same time.
KILLS = int(os.environ.get("FASTOPEN_KILLS", "12"))
PARTS = max(1, min(8, KILLS // 50))
PR_SET_CHILD_SUBREAPER = 36
MAX_WAIT_S = 60
LOADS = 3


@pytest.fixture(autouse=True)
def _orphans_come_here() -> Iterator[None]:
    """Make this process the new parent of orphans, so that it can find all processes that are left."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def processes() -> dict[int, tuple[int, str, str]]:
    """Map the id of each process to its parent's id, its state and its name."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition(" (")[2].rpartition(") ")
        except OSError:
            continue
        state, parent = rest.split()[:2]
        found[int(folder.name)] = (int(parent), state, name)
    return found


def descendants(but: set[int], child: int = 0) -> dict[int, tuple[str, str]]:
    """Map the id of each living descendant of this process to its state and name. Leaves out the children in
    `but` and their descendants. Reaps ended orphans, but not `child`, for which the caller waits."""
    by_parent: dict[int, list[int]] = defaultdict(list)
    everything = processes()
    for pid, (parent, _, _) in everything.items():
        by_parent[parent].append(pid)
    found, waiting = {}, [pid for pid in by_parent[os.getpid()] if pid not in but]
    while waiting:
        pid = waiting.pop()
        parent, state, name = everything[pid]
        if state not in "ZX":
            found[pid] = (state, name)
        elif parent == os.getpid() and pid != child:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
        waiting += by_parent[pid]
    return found


def kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def harried(
    command: list[str], most: int, draw: random.Random, took_s: float, before: set[int]
) -> Counter[str]:
    """Run a command and kill up to `most` of its processes at random times. Return the number of kills for
    each process name. Fails if any process is left."""
    front = forked(command)
    pidfd = os.pidfd_open(front)
    killed: Counter[str] = Counter()
    while not select.select([pidfd], [], [], draw.random() * took_s)[0]:
        by_name = defaultdict(list)
        for pid, (_, name) in descendants(before, front).items():
            by_name["front" if pid == front else name].append(pid)
        if killed.total() >= most:
            break
        if not by_name:
            continue
        # Choose the name first, because a kernel has many processes.
        name = draw.choice(sorted(by_name))
        victim = draw.choice(sorted(by_name[name]))
        if draw.random() < 0.2 and kill(victim, signal.SIGSTOP):
            time.sleep(draw.random() * took_s / 4)
        killed[name] += kill(victim, signal.SIGKILL)
    assert select.select([pidfd], [], [], 5 * MAX_WAIT_S)[0], f"it did not end after {killed}"
    os.close(pidfd)
    status = os.waitstatus_to_exitcode(os.waitpid(front, 0)[1])
    # Status 1: the world of a load was killed at each attempt. Status 3: a fault of the machine.
    assert status in (0, 1, 3) or (status == -signal.SIGKILL and killed["front"]), (status, killed)
    assert status == 0 or killed
    deadline = time.monotonic() + MAX_WAIT_S
    while (left := descendants(before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, (left, killed)
    return killed


def records(folder: Path) -> dict[tuple[str, str], list[tuple[int, LoadRecord]]]:
    """Map (job, load) to the load's attempts: (number, record without client address and start time).

    Address and time depend on a load's position in its world, which differs if part of the job was done."""
    found = defaultdict(list)
    with RunStore.open(folder) as run:
        for row, record in run.load_records(run.loads()):
            alike = record.model_copy(update={"client_address": "", "started_unix_ms": 0})
            found[row.job, row.load].append((row.attempt, alike))
    return dict(found)


def assert_the_same(kept: Path, whole: Path, engine: str) -> None:
    """Assert that each load was done, and repeated only after an invalid attempt. In virtual time, its record
    must be the same as in the run without kills."""
    expected, found = records(whole), records(kept)
    assert found.keys() == expected.keys()
    for key, attempts in found.items():
        assert [number for number, _ in attempts] == list(range(1, len(attempts) + 1)), key
        for _, record in attempts[:-1]:
            assert not record.valid, key
        last = attempts[-1][1]
        if engine == "virtual" and InvalidKind.FAULT not in [why.kind for why in last.invalid]:
            assert last == expected[key][0][1], key


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("engine", ["virtual", "host"])
def test_whatever_process_of_a_run_is_killed_no_load_is_lost_or_done_twice_and_nothing_is_left(
    engine: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if engine == "virtual":
        request.getfixturevalue("kernel")
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    draw = random.Random(f"{engine} {part} {KILLS}")
    # A slow link: on the engine host, a loaded machine cannot keep a fast one at its rate.
    network = ["--rtt", "20ms", "--down", "4mbit", "--up", "4mbit"]
    arguments = ["run", "example", *network, "--engine", engine, "-n", str(LOADS), "--seed", "1", "-q"]
    before = set(descendants(set()))
    whole = tmp_path / "whole"
    began = time.monotonic()
    harried([*arguments, "-o", str(whole)], 0, draw, MAX_WAIT_S, before)
    took_s = time.monotonic() - began
    assert list(place.iterdir()) == []
    killed: Counter[str] = Counter()
    number = 0
    asked = KILLS // (2 * PARTS)
    while killed.total() < asked:
        number += 1
        kept, store = tmp_path / f"kept-{number}", tmp_path / f"store-{number}"
        command = [*arguments, "-o", str(kept)]
        if engine == "virtual":
            command += ["--store", str(store)]
        for last in (False, False, False, True):
            left = 0 if last else asked - killed.total()
            killed += harried(command, left, draw, took_s if not last else MAX_WAIT_S, before)
            if (kept / "run.sqlite").exists():
                with RunStore.open(kept) as run:
                    if run.status == "finished":
                        break
                command = ["resume", str(kept), "-q"]
        # The writer may have been killed after the last record, before the run was marked as finished.
        assert fastopen("resume", kept, "-q").returncode in (0, 1)
        assert [path.name for path in kept.iterdir()] == ["run.sqlite"]
        assert_the_same(kept, whole, engine)
        if engine == "virtual":
            # A file that was being written to the store when its writer was killed must not count as a
            # result.
            again = tmp_path / f"again-{number}"
            assert fastopen(*arguments, "-o", again, "--store", store).returncode == 0
            assert_the_same(again, whole, engine)
    if engine == "virtual":
        # If cleanup and launcher of a kernel were both killed, the next kernel removes its folder.
        assert fastopen(*arguments, "-o", tmp_path / "last").returncode == 0
    assert list(place.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    print(f"{engine}, part {part}: {killed.total()} kills in {number} runs: {dict(killed)}")
