"""Runs: the data that an execution stores, even after faults."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fastopen.common.errors import InputError, MachineError
from fastopen.contract import Client, LoadRecord
from fastopen.engines import Event, HostEngine
from fastopen.experiments import Plan, repeats_to_the_byte
from fastopen.runs import RunProgress, RunStore, execute
from fastopen.runs.store import attempts_for

MakePlan = Callable[..., Plan]
FakeWorld = Callable[..., Path]


class Watched(list[RunProgress]):
    """A list of all progress reports, to pass as the watcher of a run."""

    def __call__(self, progress: RunProgress) -> None:
        self.append(progress)


class InterruptedAfter:
    """An engine that raises `error` (by default KeyboardInterrupt, as Ctrl-C does) after `events` events.
    `closed` is True after the generator of events has ended or was closed."""

    def __init__(self, program: Path, events: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self._inner = HostEngine(program, 1)
        self._events = events
        self._error = error
        self.closed = False

    def run(self, *arguments: object) -> Iterator[Event]:
        try:
            for number, event in enumerate(self._inner.run(*arguments)):  # type: ignore[arg-type]
                if number == self._events:
                    raise self._error
                yield event
        finally:
            self.closed = True


def test_a_kept_run_is_read_back_whole(small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path) -> None:
    plan = small_plan((20, 100), repeats=2)
    with RunStore.create(tmp_path / "kept", plan, {"kernel": "6"}) as store:
        outcome = execute(plan, HostEngine(fake_world(), 2), {}, store, Watched())
    assert (outcome.interrupted, outcome.faults) == (False, {})
    with RunStore.open(tmp_path / "kept") as store:
        assert store.status == "finished"
        assert store.experiment() == plan.experiment
        assert store.cells() == list(plan.cells)
        assert tuple(store.pages().values()) == plan.pages
        assert store.environment == {"kernel": "6"}
        assert len(store.loads()) == 12
        assert {*store.rtt_deviations()} == {("small", 0, 50), ("small", 1, 50)}
        (world,) = store.world_records("small@20ms#0")
        assert (world.job, world.engine) == ("small@20ms#0", "host")
        record = store.load_record("small@20ms#0", "tfo-warm")
        ((_, same),) = store.load_records([row for row in store.loads() if row.plt_ns == record.plt_ns])
        assert same == record
        assert isinstance(record, LoadRecord)
        row = next(row for row in store.loads() if (row.job, row.cell) == ("small@20ms#0", 2))
        assert (row.plt_ns, row.connections, row.syn_data_connections) == (record.plt_ns, 2, 1)


def test_a_watcher_is_told_of_every_load_and_of_what_runs(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    plan, told = small_plan(repeats=2), Watched()
    with RunStore.create(None, plan, {}) as store:
        execute(plan, HostEngine(fake_world(), 2), {}, store, told)
    assert sum(progress.finished is not None for progress in told) == 6
    assert max(len(progress.running) for progress in told) == 2
    assert told[-1].running == ()
    assert [progress.done for progress in told if progress.finished] == [1, 2, 3, 4, 5, 6]
    assert told[-1].counts() == "6 of 6 loads"


def test_each_load_is_on_disk_before_the_next_event(
    small_plan: MakePlan, fake_world: FakeWorld, tmp_path: Path
) -> None:
    plan = small_plan(repeats=2)
    counts: list[int] = []

    def look(progress: RunProgress) -> None:
        if progress.finished is not None:
            with sqlite3.connect(tmp_path / "kept" / "run.sqlite") as other:
                counts.append(other.execute("SELECT count(*) FROM loads").fetchone()[0])
            other.close()

    with RunStore.create(tmp_path / "kept", plan, {}) as store:
        execute(plan, HostEngine(fake_world(), 1), {}, store, look)
    assert counts == [1, 2, 3, 4, 5, 6]


def test_ctrl_c_keeps_what_is_finished_and_ends_the_engine(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    plan = small_plan(repeats=2)
    engine = InterruptedAfter(fake_world(), events=4)  # started, world, load, load
    with RunStore.create(None, plan, {}) as store:
        outcome = execute(plan, engine, {}, store, Watched())  # type: ignore[arg-type]
        assert outcome.interrupted
        assert (store.status, len(store.loads())) == ("interrupted", 2)
    assert engine.closed


def test_ctrl_c_while_a_load_is_written_ends_the_engine_too(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    def interrupt(progress: RunProgress) -> None:
        if progress.finished is not None:
            raise KeyboardInterrupt

    plan = small_plan(repeats=2)
    engine = InterruptedAfter(fake_world(), events=99)
    with RunStore.create(None, plan, {}) as store:
        assert execute(plan, engine, {}, store, interrupt).interrupted  # type: ignore[arg-type]
        assert len(store.loads()) == 1
    assert engine.closed


def test_a_machine_that_cannot_go_on_leaves_what_is_finished(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    plan = small_plan(repeats=2)
    program = fake_world({plan.jobs[1].job.id: "machine"})
    with RunStore.create(None, plan, {}) as store:
        with pytest.raises(MachineError):
            execute(plan, HostEngine(program, 1), {}, store, Watched())
        assert (store.status, len(store.loads())) == ("stopped", 3)


def test_more_jobs_are_done_until_there_are_none(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    plan, told = small_plan(repeats=1), Watched()
    more = [[job] for job in small_plan(repeats=3).jobs[1:]]
    program = fake_world({plan.jobs[0].job.id: "dies"})
    with RunStore.create(None, plan, {}) as store:
        outcome = execute(plan, HostEngine(program, 1), {}, store, told, lambda: more.pop(0) if more else [])
        assert (store.status, store.pending(), len(store.jobs())) == ("finished", {}, 3)
    assert list(outcome.faults.values()) == [[plan.jobs[0].job.id]]
    assert (told[-1].done, told[-1].loads, told[-1].repeated) == (9, 9, 4)


def test_faults_are_kept_and_named_with_their_jobs(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    plan = small_plan(repeats=2)
    with RunStore.create(None, plan, {}) as store:
        outcome = execute(plan, HostEngine(fake_world({"*": "dies"}), 1), {}, store, Watched())
        ((reason, jobs),) = outcome.faults.items()
        assert "exit code 70" in reason
        assert sorted(jobs) == ["small@20ms#0", "small@20ms#1"]
        invalid = [row for row in store.loads() if not row.valid and not row.superseded]
        assert [row.invalid[0][0] for row in invalid] == ["fault"] * 4
        assert store.faults()[0] == ("small@20ms#0", reason)


def rows_by_attempt(store: RunStore) -> list[tuple[str, int, bool, bool]]:
    return sorted((row.load, row.attempt, row.valid, row.superseded) for row in store.loads())


@pytest.mark.parametrize(("mode", "kind"), [("late once", "link_late"), ("dies once", "fault")])
def test_a_load_that_the_machine_disturbed_is_done_again_and_both_are_kept(
    small_plan: MakePlan, fake_world: FakeWorld, mode: str, kind: str
) -> None:
    plan, told = small_plan(repeats=1), Watched()
    first, second, third = (load.id for load in plan.jobs[0].job.loads)
    with RunStore.create(None, plan, {}) as store:
        outcome = execute(plan, HostEngine(fake_world({"*": mode}), 1), {}, store, told)
        again = [second, third] if mode == "dies once" else [second]
        assert rows_by_attempt(store) == sorted(
            [(load, 1, load not in again, load in again) for load in (first, second, third)]
            + [(load, 2, True, False) for load in again]
        )
        (reason,) = {row.invalid for row in store.loads() if row.superseded}
        assert reason[0][0] == kind
        assert not store.load_record(plan.jobs[0].job.id, second, attempt=1).valid
        assert store.load_record(plan.jobs[0].job.id, second).valid
        with pytest.raises(KeyError):
            store.load_record(plan.jobs[0].job.id, second, attempt=9)
    assert outcome.faults == {}
    assert told[-1].left == 0
    assert told[-1].counts() == f"3 of 3 loads, {len(again)} repeated"


@pytest.mark.parametrize(("mode", "most"), [("late", 10), ("dies", 3)])
def test_a_load_that_is_always_disturbed_is_done_so_often_and_no_more(
    small_plan: MakePlan, fake_world: FakeWorld, mode: str, most: int
) -> None:
    plan = small_plan(repeats=1)
    with RunStore.create(None, plan, {}) as store:
        execute(plan, HostEngine(fake_world({"*": mode}), 1), {}, store, Watched(), keep_going=True)
        assert max(row.attempt for row in store.loads()) == most
        assert store.pending() == {}
        assert store.status == "finished"


def test_a_machine_that_disturbs_every_load_of_an_arm_stops_the_run(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    plan = small_plan((20,), repeats=3)
    with RunStore.create(None, plan, {}) as store:
        outcome = execute(plan, HostEngine(fake_world({"*": "late"}), 1), {}, store, Watched())
        assert "the first 3 loads of" in outcome.hopeless
        assert "are invalid: link_late: a packet was 9 ms late; this machine" in outcome.hopeless
        assert max(row.attempt for row in store.loads()) == 4
        assert store.status == "interrupted"


def test_one_load_that_is_disturbed_again_and_again_is_not_taken_for_several(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    plan = small_plan(repeats=1)
    with RunStore.create(None, plan, {}) as store:
        outcome = execute(plan, HostEngine(fake_world({"*": "late"}), 1), {}, store, Watched())
        assert outcome.hopeless == ""
        assert max(row.attempt for row in store.loads()) == 10


def test_a_load_that_is_invalid_by_itself_is_not_done_again(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    plan = small_plan(repeats=1)
    with RunStore.create(None, plan, {}) as store:
        told = Watched()
        execute(plan, HostEngine(fake_world({"*": "blackhole"}), 1), {}, store, told)
        assert told[-1].counts() == "3 of 3 loads, 3 invalid"
        assert [(row.attempt, row.valid) for row in store.loads()] == [(1, False)] * 3


def test_a_folder_that_holds_something_is_refused_and_left_alone(
    small_plan: MakePlan, tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(InputError, match="not empty"):
        RunStore.create(tmp_path, small_plan(), {})
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_folder_that_cannot_be_made_is_refused(small_plan: MakePlan, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written"):
        RunStore.create(tmp_path / "file" / "run", small_plan(), {})


def test_what_is_no_run_is_refused(tmp_path: Path, small_plan: MakePlan) -> None:
    with pytest.raises(InputError, match=r"no run\.sqlite"):
        RunStore.open(tmp_path)
    (tmp_path / "run.sqlite").write_bytes(b"rubbish" * 1000)
    with pytest.raises(InputError, match="damaged"):
        RunStore.open(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    sqlite3.connect(other / "run.sqlite").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(InputError, match="not a fastopen run"):
        RunStore.open(other)
    newer = tmp_path / "newer"
    RunStore.create(newer, small_plan(), {}).close()
    database = sqlite3.connect(newer / "run.sqlite")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(InputError, match="format 99"):
        RunStore.open(newer)


def test_a_run_stops_where_the_first_loads_of_an_arm_are_all_invalid_alike(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    plan = small_plan((20,), repeats=20)
    with RunStore.create(None, plan, {}) as store:
        outcome = execute(plan, HostEngine(fake_world({"*": "refused"}), 1), {}, store, Watched())
        assert " loads of TFO, cold cookies are invalid: no_syn_data: 2 of 3 connections" in outcome.hopeless
        assert (store.status, len(store.loads()) < 12) == ("interrupted", True)


def test_it_goes_on_where_that_was_asked_for(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    plan = small_plan((20,), repeats=6)
    with RunStore.create(None, plan, {}) as store:
        engine = HostEngine(fake_world({"*": "refused"}), 1)
        outcome = execute(plan, engine, {}, store, Watched(), keep_going=True)
        assert (outcome.hopeless, store.status, len(store.loads())) == ("", "finished", 18)


def test_an_arm_that_was_valid_once_stops_nothing(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    plan = small_plan((20,), repeats=6)
    modes = {plan.jobs[0].job.id: "works", "*": "refused"}
    with RunStore.create(None, plan, {}) as store:
        outcome = execute(plan, HostEngine(fake_world(modes), 1), {}, store, Watched())
        assert (outcome.hopeless, store.status) == ("", "finished")


@pytest.mark.parametrize(
    ("kind", "exact", "attempts"),
    [("link_late", False, 10), ("link_late", True, 1), ("fault", True, 3), ("first_byte_late", True, 1)],
)
def test_a_load_that_repeats_to_the_byte_is_done_again_only_where_its_world_died(
    kind: str, exact: bool, attempts: int
) -> None:
    assert attempts_for([kind], exact=exact) == attempts


def test_only_virtual_time_and_a_client_of_ours_repeat_to_the_byte(small_plan: Callable[..., Plan]) -> None:
    plan = small_plan()
    cell = plan.cells[0]
    assert not repeats_to_the_byte(plan.experiment, cell)
    virtual = replace(cell, engine="virtual")
    assert repeats_to_the_byte(plan.experiment, virtual)
    setup = plan.experiment.setups[0]
    browser = setup.model_copy(update={"client": Client.model_validate({"kind": "chromium"})})
    assert not repeats_to_the_byte(plan.experiment.model_copy(update={"setups": [browser]}), virtual)
