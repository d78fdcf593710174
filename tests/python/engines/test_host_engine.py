"""The host engine with a faulty world program: each load reported once, no process or open file left."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastopen.common.errors import InputError, MachineError
from fastopen.contract import LoadRecord, WorldRecord
from fastopen.contract.client_kinds import CHROMIUM, CLIENTS, LOADER
from fastopen.engines import HostEngine, JobEnded, JobStarted, Reported, default_parallel, loads_in, worlds
from fastopen.engines.world_process import WorldProcess
from fastopen.engines.worlds import WorldEngine
from fastopen.experiments import Plan
from places import GOLDEN

MakePlan = Callable[..., Plan]
FakeWorld = Callable[..., Path]
JOB = "small@20ms#0"


def loads_of(program: Path, plan: Plan, parallel: int = 2) -> dict[tuple[str, str], LoadRecord]:
    """Return every load that the engine reports. Fails if the engine reports one twice."""
    found: dict[tuple[str, str], LoadRecord] = {}
    for event in HostEngine(program, parallel).run([planned.job for planned in plan.jobs], {}):
        if isinstance(event, Reported) and isinstance(event.record, LoadRecord):
            key = (event.record.job, event.record.id)
            assert key not in found
            assert json.loads(event.raw)["id"] == event.record.id
            found[key] = event.record
    expected = {(planned.job.id, load.id) for planned in plan.jobs for load in planned.job.loads}
    assert set(found) == expected
    return found


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def children() -> set[int]:
    """Return the ids of this process's children. Other tests may have left some, such as process pools."""
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


@pytest.mark.parametrize("parallel", [1, 3])
def test_every_load_of_every_job_comes_out_once(
    small_plan: MakePlan, fake_world: FakeWorld, parallel: int
) -> None:
    loads = loads_of(fake_world(), small_plan((20, 100), repeats=3), parallel)
    assert len(loads) == 18
    assert all(load.valid for load in loads.values())


def test_a_job_is_told_in_the_order_in_which_it_happens(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    jobs = [planned.job for planned in small_plan(repeats=1).jobs]
    kinds = [
        type(event.record if isinstance(event, Reported) else event)
        for event in HostEngine(fake_world(), 1).run(jobs, {})
    ]
    assert kinds == [JobStarted, WorldRecord, LoadRecord, LoadRecord, LoadRecord, JobEnded]


def test_jobs_that_share_a_process_are_told_as_if_each_had_its_own(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    jobs = [planned.job for planned in small_plan(repeats=3).jobs]
    engine = WorldEngine([fake_world()], 1)
    together, alone = engine.run_together([jobs], {}), engine.run(jobs, {})
    assert list(together) == list(alone)


@pytest.mark.parametrize("mode", ["dies", "killed", "rubbish", "internal", "off", "off once"])
def test_a_job_that_fails_takes_none_of_those_with_it_that_share_its_process(
    small_plan: MakePlan, fake_world: FakeWorld, mode: str
) -> None:
    jobs = [planned.job for planned in small_plan(repeats=4).jobs]
    engine = WorldEngine([fake_world({jobs[1].id: mode})], 2)
    events = list(engine.run_together([jobs], {}))
    loads = list(loads_in(events))
    assert len({(load.job, load.id) for load in loads}) == len(loads) == 12
    faulty = {load.job for load in loads if not load.valid}
    assert faulty == (set() if mode == "off once" else {jobs[1].id})
    assert sorted(event.job for event in events if isinstance(event, JobEnded)) == sorted(j.id for j in jobs)


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("dies", "ended with exit code 70 before its loads were done; its last line: thread main panicked"),
        ("killed", "was ended by SIGKILL"),
        ("rubbish", "wrote an invalid record: 'rubbish'"),
        ("same load twice", "wrote a load that is not due"),
        ("internal", "a fault of internal"),
    ],
)
def test_what_a_faulty_world_owes_becomes_invalid_and_the_run_goes_on(
    small_plan: MakePlan, fake_world: FakeWorld, mode: str, said: str
) -> None:
    loads = loads_of(fake_world({JOB: mode}), small_plan(repeats=3))
    faulty = [load for load in loads.values() if not load.valid]
    assert {load.job for load in faulty} == {JOB}
    assert len(faulty) == (3 if mode == "internal" else 2)
    for load in faulty:
        (reason,) = load.invalid
        assert reason.kind == "fault"
        assert said in reason.detail
        assert load.plt_ns is None


def test_a_world_that_ends_without_saying_so_has_still_done_its_loads(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    assert all(load.valid for load in loads_of(fake_world({"*": "no end"}), small_plan()).values())


def test_a_world_that_says_nothing_is_ended_after_its_deadline(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan(repeats=1)
    hurried = plan.jobs[0].job.model_copy(update={"load_timeout_us": 1})
    monkeypatch.setitem(CLIENTS, LOADER.label, replace(LOADER, timeout_margin_s=3.0))
    events = list(HostEngine(fake_world({JOB: "hangs"}), 1).run([hurried], {}))
    faulty = [record for record in loads_in(events) if not record.valid]
    assert len(faulty) == 2
    assert "wrote nothing for 3 s" in faulty[0].invalid[0].detail
    assert not exists(int((tmp_path / "state" / "hanging").read_text()))


def test_what_runs_when_the_time_is_over_is_ended_and_not_reported(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    job = small_plan(repeats=1).jobs[0].job
    before = children()
    assert list(HostEngine(fake_world({JOB: "hangs"}), 1).run([job], {}, within_s=0)) == [JobStarted(JOB, 1)]
    assert children() == before


def test_the_deadline_moves_with_every_record(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    job = small_plan(repeats=1).jobs[0].job
    world = WorldProcess([fake_world()], [job], 1, (), now=1000.0)
    try:
        silence = job.load_timeout_us / 1e6 + LOADER.timeout_margin_s
        assert world.deadline == 1000 + silence
        line = (GOLDEN / "world.json").read_text()
        record = json.dumps({**json.loads(line), "job": job.id}).encode()
        assert world.receive(world.stdout, record[:20], now=1050.0) == []
        assert world.deadline == 1000 + silence
        (event,) = world.receive(world.stdout, record[20:] + b"\n", now=1100.0)
        assert isinstance(event, Reported)
        assert isinstance(event.record, WorldRecord)
        assert world.deadline == 1100 + silence
    finally:
        world.close()


def test_a_world_that_came_out_wrong_once_is_built_again(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path
) -> None:
    loads = loads_of(fake_world({JOB: "off once"}), small_plan())
    assert all(load.valid for load in loads.values())
    assert (tmp_path / "state" / f"begun-{JOB}").stat().st_size == 2


def test_a_world_that_stays_wrong_is_given_up_after_three_attempts(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path
) -> None:
    loads = loads_of(fake_world({JOB: "off"}), small_plan())
    faulty = [load for load in loads.values() if not load.valid]
    assert len(faulty) == 3
    assert "RTT measured 31 ms, asked 20 ms" in faulty[0].invalid[0].detail
    assert (tmp_path / "state" / f"begun-{JOB}").stat().st_size == 3


@pytest.mark.parametrize(("mode", "error"), [("machine", MachineError), ("input", InputError)])
def test_a_machine_or_input_fault_stops_the_run_with_its_remedy(
    small_plan: MakePlan, fake_world: FakeWorld, mode: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match=rf"a fault of {mode}.*mend it"):
        loads_of(fake_world({JOB: mode}), small_plan())


def test_a_program_of_another_contract_stops_the_run(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    with pytest.raises(MachineError, match="contract 7"):
        loads_of(fake_world({"*": "other contract"}), small_plan())


def test_a_program_that_cannot_be_started_is_a_machine_error(small_plan: MakePlan, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("no program")
    broken.chmod(0o755)
    with pytest.raises(MachineError, match="cannot be started"):
        loads_of(broken, small_plan())


def test_closing_the_engine_ends_the_worlds_that_run(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    jobs = [planned.job for planned in small_plan(repeats=1).jobs]
    before = children()
    events = HostEngine(fake_world({"*": "hangs"}), 1).run(jobs, {})
    next(loads_in(events))
    assert children() > before
    events.close()
    assert children() == before


def test_an_interrupt_while_a_world_is_started_leaves_no_process(
    small_plan: MakePlan, fake_world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[WorldProcess] = []

    class Interrupted(WorldProcess):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(worlds, "WorldProcess", Interrupted)
    engine = HostEngine(fake_world({"*": "hangs"}))
    with pytest.raises(KeyboardInterrupt):
        list(engine.run([job.job for job in small_plan().jobs], {}))
    assert [world.process.returncode for world in started] == [-signal.SIGKILL]


def test_recorded_bodies_reach_the_world_through_a_file_without_a_name(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path
) -> None:
    plan = small_plan(repeats=1)
    events = list(HostEngine(fake_world(), 1).run([plan.jobs[0].job], {"small": {0: b"A"}}))
    assert list(loads_in(events))
    assert (tmp_path / "state" / "body").read_bytes() == b"A"


def test_no_descriptor_is_left_open(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    before = len(os.listdir("/proc/self/fd"))
    loads_of(fake_world({JOB: "dies"}), small_plan(repeats=3))
    assert len(os.listdir("/proc/self/fd")) == before


def test_with_a_browser_in_each_fewer_worlds_run_at_once() -> None:
    assert 1 <= default_parallel([CHROMIUM]) <= default_parallel() / 4
