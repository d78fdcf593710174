"""Runs that stop early for any reason: no load is lost or done twice, and no process or file is left."""

import ctypes
import hashlib
import json
import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import fastopen
from fastopen.common.errors import InputError, MachineError
from fastopen.contract import Job
from fastopen.engines import HostEngine
from fastopen.engines.base import Bodies, Event, bodies_digests
from fastopen.engines.worlds import WorldEngine
from fastopen.experiments import Plan, make_plan
from fastopen.experiments.document import experiment_of
from fastopen.experiments.factor_values import toml_file
from fastopen.experiments.variation import Variation
from fastopen.pages import Page, load_chosen
from fastopen.pages.recording import BodyStore, RecordedBodies
from fastopen.runs import RunProgress, RunStore, check_same, execute, stored_plan
from fastopen.runs.resume import check_bodies
from fastopen.runs.store import DiskSync
from fastopen.workflows.run import bodies_of
from runs.forked import forked

MakePlan = Callable[..., Plan]
FakeWorld = Callable[..., Path]
# Number of kills: a hundred in a long test, few in the usual tests.
KILLS = int(os.environ.get("FASTOPEN_KILLS", "6"))


def stop_after(loads: int) -> Callable[[RunProgress], None]:
    """Return a watcher that raises KeyboardInterrupt, as Ctrl-C does, after this number of loads."""
    seen: list[RunProgress] = []

    def watch(progress: RunProgress) -> None:
        seen.extend([progress] if progress.finished else [])
        if len(seen) == loads:
            raise KeyboardInterrupt

    return watch


def begin(folder: Path, plan: Plan, program: Path, loads: int) -> None:
    """Write a run that stops after this number of loads."""
    with RunStore.create(folder, plan, {"kernel": "6"}) as store:
        assert execute(plan, HostEngine(program, 1), {}, store, stop_after(loads)).interrupted


def done(folder: Path) -> list[tuple[str, str, int]]:
    with RunStore.open(folder) as store:
        return [(row.job, row.load, row.attempt) for row in store.loads()]


def assert_each_once(folder: Path, plan: Plan) -> None:
    asked = [(planned.job.id, load.id, 1) for planned in plan.jobs for load in planned.job.loads]
    assert sorted(done(folder)) == sorted(asked)


@pytest.mark.parametrize("loads", [1, 2, 3, 5])
def test_a_run_is_resumed_where_it_stopped(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path, loads: int
) -> None:
    plan, program, kept = small_plan((20,), repeats=2), fake_world(), tmp_path / "kept"
    begin(kept, plan, program, loads)
    first = done(kept)
    assert len(first) == loads
    with RunStore.resume(kept) as store:
        again = stored_plan(store)
        assert again == plan
        execute(again, HostEngine(program, 1), {}, store, lambda _: None)
        assert store.status == "finished"
    assert done(kept)[:loads] == first
    assert_each_once(kept, plan)
    assert [path.name for path in kept.iterdir()] == ["run.sqlite"]


@pytest.mark.parametrize("loads", [1, 4, 8])
def test_a_run_with_draws_goes_on_with_those_that_it_lacks(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path, loads: int
) -> None:
    usual = small_plan((20, 100), repeats=3)
    plan = make_plan(usual.experiment.model_copy(update={"vary": Variation()}), usual.pages)
    assert len({planned.job.network.rtt_us for planned in plan.jobs}) == 6
    program, kept = fake_world(), tmp_path / "kept"
    begin(kept, plan, program, loads)
    with RunStore.resume(kept) as store:
        again = stored_plan(store)
        # All jobs are the same, even those already done, because draws depend only on seed and repeat.
        assert [planned.job for planned in again.jobs] == [planned.job for planned in plan.jobs]
        execute(again, SharedProcesses(program), {}, store, lambda _: None)
    assert_each_once(kept, plan)
    with RunStore.open(kept) as store:
        for planned in plan.jobs:
            measured = {one.measured.rtt_us.asked for one in store.world_records(planned.job.id)}
            assert measured == {planned.job.network.rtt_us}


class SharedProcesses(WorldEngine):
    """An engine that runs all jobs in one process, as the virtual engine does with small jobs."""

    def __init__(self, program: Path) -> None:
        super().__init__([program], 1)

    def run(self, jobs: Iterable[Job], bodies: Bodies, within_s: float | None = None) -> Generator[Event]:
        return self.run_together([list(jobs)], bodies, within_s)


def test_a_run_of_another_experiment_is_refused_with_what_differs(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path, page: Page
) -> None:
    plan, kept = small_plan((20,), repeats=2), tmp_path / "kept"
    begin(kept, plan, fake_world(), 1)
    before = (kept / "run.sqlite").read_bytes()
    with RunStore.open(kept) as store:
        check_same(store, plan.experiment, plan.pages)
        with pytest.raises(InputError, match="repeats 2 instead of 3"):
            check_same(store, plan.experiment.model_copy(update={"repeats": 3}), plan.pages)
        other = small_plan((30,), repeats=2)
        with pytest.raises(InputError, match="--rtt 20ms instead of 30ms"):
            check_same(store, other.experiment, plan.pages)
        renamed = page.model_copy(update={"name": "other"})
        with pytest.raises(InputError, match="page 'small' instead of 'other'"):
            check_same(store, plan.experiment, [renamed])
        with pytest.raises(InputError, match="1 pages instead of 0"):
            check_same(store, plan.experiment, [])
    assert (kept / "run.sqlite").read_bytes() == before


def test_a_run_that_another_version_planned_otherwise_is_refused(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    begin(kept, small_plan(), fake_world(), 1)
    with sqlite3.connect(kept / "run.sqlite") as database:
        database.execute("UPDATE jobs SET seed = 1")
    database.close()
    with RunStore.open(kept) as store, pytest.raises(InputError, match="another version of fastopen"):
        stored_plan(store)


def test_one_process_at_a_time_writes_into_a_run(small_plan: MakePlan, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with RunStore.create(kept, small_plan(), {}):
        with pytest.raises(InputError, match="another process is executing this run"):
            RunStore.resume(kept)
        with RunStore.open(kept) as reader:
            assert reader.status == "running"
    with RunStore.open(kept) as reader:
        assert reader.status == "stopped"


def test_a_folder_in_which_a_run_was_killed_while_it_was_made_is_as_good_as_empty(
    small_plan: MakePlan, tmp_path: Path
) -> None:
    for name in ("run.sqlite.new", "run.sqlite.new-journal"):
        (tmp_path / name).write_bytes(b"half")
    kept = [one for one in tmp_path.iterdir() if one.name.startswith("run.sqlite")]
    folder = tmp_path / "kept"
    folder.mkdir()
    for one in kept:
        one.rename(folder / one.name)
    RunStore.create(folder, small_plan(), {}).close()
    assert [path.name for path in folder.iterdir()] == ["run.sqlite"]


def test_no_moment_leaves_a_journal_that_readers_would_have_to_roll_back(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path
) -> None:
    plan, program, kept = small_plan((20,), repeats=2), fake_world(), tmp_path / "kept"
    kept.mkdir()
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(watch, bytes(kept), 0x100) > 0  # IN_CREATE
    begin(kept, plan, program, 1)
    with RunStore.resume(kept) as store:
        execute(stored_plan(store), HostEngine(program, 1), {}, store, lambda _: None)
    made = os.read(watch, 2**16)
    os.close(watch)
    assert b"run.sqlite-wal" in made
    assert b"run.sqlite-journal" not in made
    assert_each_once(kept, plan)


def test_a_damaged_run_is_refused_and_left_alone(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    begin(kept, small_plan((20, 100), repeats=4), fake_world(), 12)
    path = kept / "run.sqlite"
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 6000] = b"\xff" * 6000
    path.write_bytes(whole)
    with pytest.raises(InputError, match="damaged"):
        RunStore.resume(kept)
    assert path.read_bytes() == bytes(whole)
    path.write_bytes(whole[:5000])
    with pytest.raises(InputError, match="damaged"):
        RunStore.resume(kept)
    assert path.read_bytes() == bytes(whole[:5000])


def test_a_full_disk_stops_the_run_with_what_is_finished(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path
) -> None:
    plan, program, kept = small_plan((20,), repeats=20), fake_world(), tmp_path / "kept"
    with RunStore.create(kept, plan, {}) as store:
        (pages,) = store._database.execute("PRAGMA page_count").fetchone()
        store._database.execute(f"PRAGMA max_page_count = {pages + 4}")
        with pytest.raises(MachineError, match="the run cannot be written: database or disk is full"):
            execute(plan, HostEngine(program, 1), {}, store, lambda _: None)
    finished = done(kept)
    assert 0 < len(finished) < 60
    with RunStore.resume(kept) as store:
        execute(stored_plan(store), HostEngine(program, 2), {}, store, lambda _: None)
    assert done(kept)[: len(finished)] == finished
    assert_each_once(kept, plan)


def test_what_is_committed_is_brought_to_the_disk_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fdatasync", flushed.append)
    (tmp_path / "log").touch()
    sync = DiskSync(tmp_path / "log")
    sync.wake()
    deadline = time.monotonic() + 10
    while not flushed and time.monotonic() < deadline:
        time.sleep(0.001)
    assert flushed
    before = len(flushed)
    sync.close()
    assert len(flushed) > before


def arguments(kept: Path, *more: str, repeats: int = 4) -> list[object]:
    fixed = ["run", "example", "--rtt", "20ms", "--seed", 1, "-j", 2, "-q"]
    return [*fixed, "--repeats", repeats, "-o", kept, *more]


def planned(kept: Path) -> Plan:
    with RunStore.open(kept) as store:
        return make_plan(store.experiment(), list(store.pages().values()))


def test_the_same_command_again_resumes_the_run_and_prints_a_finished_one(
    fake_world: FakeWorld, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    fake_world({"example@20ms#2": "machine"})
    assert fastopen(*arguments(kept)).returncode == 3
    some = len(done(kept))
    fake_world()
    other = fastopen(*arguments(kept, "--down", "5mbit"))
    assert other.returncode == 2
    assert "--down 214mbit instead of 5mbit" in other.stderr
    assert len(done(kept)) == some
    finished = fastopen(*arguments(kept))
    assert finished.returncode == 0
    assert_each_once(kept, planned(kept))
    for again in (fastopen(*arguments(kept)), fastopen("resume", kept, "-q")):
        assert (again.returncode, again.stdout) == (0, finished.stdout)
        assert again.stderr == f"already finished, in {kept}\n"
    assert_each_once(kept, planned(kept))


def test_a_run_without_a_seed_is_resumed_with_the_one_that_it_drew(
    fake_world: FakeWorld, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    fake_world({"*": "machine"})
    command = ["run", "example", "--rtt", "20ms", "--repeats", 2, "-q", "-o", kept]
    assert fastopen(*command).returncode == 3
    fake_world()
    assert fastopen(*command).returncode == 0
    assert_each_once(kept, planned(kept))


def test_resume_needs_no_options_and_by_default_takes_the_last_run(fake_world: FakeWorld) -> None:
    fake_world({"example@20ms#1": "machine"})
    assert fastopen("run", "example", "--rtt", "20ms", "--repeats", 2, "-j", 1).returncode == 3
    (run,) = json.loads(fastopen("ls", "--json").stdout)["runs"]
    assert run["status"] == "stopped"
    assert 0 < run["loads_done"] < run["loads_asked"] == 6
    fake_world()
    resumed = fastopen("resume")
    assert resumed.returncode == 0
    assert f"resuming: {run['loads_done']} of 6 loads are done" in resumed.stderr
    assert_each_once(Path(run["folder"]), planned(Path(run["folder"])))
    (run,) = json.loads(fastopen("ls", "--json").stdout)["runs"]
    assert (run["status"], run["loads_done"]) == ("finished", 6)
    assert "finished" in fastopen("ls").stdout
    assert fastopen("show").stdout == fastopen("show", run["name"]).stdout == resumed.stdout
    environment = json.loads(fastopen("show", "--json").stdout)["run"]["environment"]
    assert len(environment["resumed"]) == 1


def test_recorded_bodies_are_read_again_where_they_were(fake_world: FakeWorld, tmp_path: Path) -> None:
    har = tmp_path / "my.har"
    har.write_text(json.dumps(HAR))
    kept = tmp_path / "kept"
    fake_world({"my@20ms#1": "machine"})
    command = ["run", har, "--rtt", "20ms", "--repeats", 2, "-j", 1, "-q", "-o", kept]
    assert fastopen(*command).returncode == 3
    fake_world()
    moved = har.rename(tmp_path / "moved.har")
    lost = fastopen("resume", kept)
    assert lost.returncode == 2
    changed = tmp_path / "changed.har"
    changed.write_text(json.dumps(HAR).replace("hello", "olleh"))
    refused = fastopen("resume", kept, changed)
    assert (refused.returncode, "inputs again" in refused.stderr) == (2, True)
    assert fastopen("resume", kept, moved).returncode == 0
    assert (tmp_path / "state" / "body").read_bytes() == b"hello"


def test_other_recorded_bodies_or_heads_are_refused() -> None:
    def recorded(body: bytes, head: bytes) -> dict[str, RecordedBodies]:
        return {"my": RecordedBodies({0: BodyStore().add(body)}, {0: head})}

    kept = bodies_digests(recorded(b"hello", b"a: b"))
    check_bodies(kept, recorded(b"hello", b"a: b"), "run")
    for other in (recorded(b"olleh", b"a: b"), recorded(b"hello", b"a: c"), recorded(b"hello", b"")):
        with pytest.raises(InputError, match="other recorded bodies"):
            check_bodies(kept, other, "run")


def test_heads_count_only_if_origins_send_them() -> None:
    (imported,) = load_chosen(["one-request"], None)
    body = b"x" * imported.page.resources[0].body_bytes
    with_head = replace(imported, bodies=RecordedBodies({0: BodyStore().add(body)}, {0: b"a: b"}))

    def digest(**changes: dict[str, str]) -> str:
        document = {"name": "x", "pages": ["one-request"], "network": {"rtt": "20ms"}, **changes}
        plan = make_plan(experiment_of(document, toml_file(Path("x.toml"))), [imported.page], "host")
        return bodies_digests(bodies_of(plan, [with_head]))[imported.page.name]

    assert digest() == hashlib.sha256(b"0 %d\n" % len(body) + body).hexdigest()
    assert digest(client={"kind": "chromium"}, origins={"bodies": "recorded"}) != digest()


HAR = {
    "log": {
        "version": "1.2",
        "creator": {"name": "t", "version": "1"},
        "pages": [
            {
                "id": "p",
                "title": "my",
                "startedDateTime": "2020-01-01T00:00:00.000Z",
                "pageTimings": {"onLoad": 100},
            }
        ],
        "entries": [
            {
                "pageref": "p",
                "startedDateTime": "2020-01-01T00:00:00.000Z",
                "time": 50,
                "request": {
                    "method": "GET",
                    "url": "http://my.example/",
                    "httpVersion": "HTTP/1.1",
                    "headers": [],
                    "headersSize": 200,
                    "bodySize": 0,
                },
                "response": {
                    "status": 200,
                    "httpVersion": "HTTP/1.1",
                    "headers": [],
                    "headersSize": 200,
                    "bodySize": 5,
                    "content": {"size": 5, "mimeType": "text/html", "text": "hello"},
                },
                "timings": {"send": 0, "wait": 40, "receive": 10},
            }
        ],
    }
}


def worlds_of(state: Path) -> list[int]:
    """Return the ids of the processes that still run the fake world of this test."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"fake_world.py" in command and f"FAKE_WORLD_STATE={state}".encode() in environment:
            found.append(int(process.name))
    return found


def test_a_run_that_is_killed_at_any_moment_can_be_resumed(fake_world: FakeWorld, tmp_path: Path) -> None:
    fake_world()
    kept, kills = tmp_path / "kept", 0
    draw = random.Random(KILLS)
    command = list(map(str, arguments(kept)))
    began = time.monotonic()
    assert os.waitpid(forked([*command[:-1], str(tmp_path / "whole")]), 0)[1] == 0
    took_s = time.monotonic() - began
    while kills < KILLS:
        if kept.exists() and not (kept / "run.sqlite").exists():
            assert all(path.name.startswith("run.sqlite.new") for path in kept.iterdir())
        before = done(kept) if (kept / "run.sqlite").exists() else []
        running = forked(command)
        pidfd = os.pidfd_open(running)
        if select.select([pidfd], [], [], draw.random() * took_s)[0]:
            # The run ended before the kill, so the machine is now faster than when the run was timed.
            took_s *= 0.9
        else:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            kills += 1
        os.close(pidfd)
        assert os.waitstatus_to_exitcode(os.waitpid(running, 0)[1]) in (0, 2, -signal.SIGKILL)
        if (kept / "run.sqlite").exists():
            after = done(kept)
            assert after[: len(before)] == before
            assert len(set(after)) == len(after)
            if len(after) == 12:
                assert_each_once(kept, planned(kept))
                kept = tmp_path / f"kept-{kills}"
                command[-1] = str(kept)
    if (kept / "run.sqlite").exists() and len(done(kept)) < 12:
        assert fastopen("resume", kept).returncode == 0
        assert_each_once(kept, planned(kept))
        assert [path.name for path in kept.iterdir()] == ["run.sqlite"]
    deadline = time.monotonic() + 30
    while worlds_of(tmp_path / "state") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert worlds_of(tmp_path / "state") == []


LIMITED = """
import resource, sys
from fastopen.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = ["fastopen", *sys.argv[2:]]
main()
"""


def test_a_full_disk_is_reported_and_the_run_is_resumed_when_there_is_some(
    fake_world: FakeWorld, tmp_path: Path
) -> None:
    fake_world()
    kept = tmp_path / "kept"
    # Enough for the plan and some loads: the database's log grows by at least two pages for each load.
    command = [sys.executable, "-c", LIMITED, "150000", *map(str, arguments(kept, repeats=30))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 3, ended.stderr
    assert f"error: {kept}: the run cannot be written: " in ended.stderr
    assert "free some space there, raise ulimit -f, or use another folder" in ended.stderr
    finished = done(kept)
    assert 0 < len(finished) < 90
    resumed = fastopen("resume", kept, "-q")
    assert resumed.returncode == 0, resumed.stderr
    assert done(kept)[: len(finished)] == finished
    assert_each_once(kept, planned(kept))
