"""The store of results: runs are the same with and without it, and no fault of the store loses a load."""

import json
import os
import random
import threading
import tracemalloc
from collections.abc import Generator, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from command_line import fastopen
from fastopen.apps.store.results import facts, open_store, prune, verify
from fastopen.common.errors import InputError, MachineError
from fastopen.contract import Job
from fastopen.engines import JobEnded, JobStarted, Maker, Reported, ResultsStore, StoredEngine, loads_in
from fastopen.engines import results_store as module
from fastopen.engines.base import Bodies, Event
from fastopen.engines.result_files import DamagedResultError, FolderFiles
from fastopen.engines.results_store import Result, with_job_id, without_job_id
from fastopen.experiments import Plan
from fastopen.runs import RunStore, execute
from made_up_run import ENVIRONMENT, load_data, made_up_page, made_up_plan
from places import GOLDEN

MAKER = Maker("aa", "bb", ("seccomp=on",))
DAY_S = 86_400


def raw(data: dict[str, Any], job: str) -> str:
    """Return a record as JSON, formatted as by the world program: `type` and `job` are the first keys."""
    return json.dumps(
        {"type": data["type"], "job": job, **{k: v for k, v in data.items() if k not in ("type", "job")}},
        separators=(",", ":"),
        ensure_ascii=False,
    )


class MadeUpEngine:
    """An engine that returns the same bytes for the same job, with page load times increased by `late` ns. It
    lists the jobs that it has done."""

    parallel = 2

    def __init__(self, late: int = 0, fault: str | None = None, invalid: str | None = None) -> None:
        self.done: list[str] = []
        self._late = late
        self._fault = fault
        self._invalid = invalid

    def run(
        self,
        jobs: Iterable[Job],
        bodies: Bodies,  # noqa: ARG002
        within_s: float | None = None,  # noqa: ARG002
    ) -> Generator[Event]:
        for job in jobs:
            self.done.append(job.id)
            yield JobStarted(job.id, 1)
            world = raw(json.loads((GOLDEN / "world.json").read_text()), job.id)
            yield Reported.parsed(world)
            for number, load in enumerate(job.loads):
                data = load_data(SimpleNamespace(job=job), load.cookies, number)  # type: ignore[arg-type]
                data.update(load.model_dump(mode="json"), plt_ns=data["plt_ns"] + self._late)
                if self._invalid is not None:
                    data.update(valid=False, invalid=[{"kind": self._invalid, "detail": "so"}])
                text = raw(data, job.id)
                yield Reported.parsed(text)
            yield JobEnded(job.id, self._fault)


def plan_of(name: str = "página", **others: Any) -> Plan:
    return made_up_plan([made_up_page(name, requests=4)], engines=["virtual"], **others)


def executed(folder: Path, plan: Plan, engine: Any) -> list[Any]:
    """Execute a plan on an engine. Return all rows of the run."""
    with RunStore.create(folder, plan, ENVIRONMENT) as run:
        execute(plan, engine, {}, run, lambda _: None)
        tables = ("SELECT * FROM loads", "SELECT * FROM records", "SELECT * FROM worlds")
        return [list(run.rows_of(query)) for query in tables]


def stored(folder: Path, engine: MadeUpEngine, maker: Maker = MAKER) -> StoredEngine:
    return StoredEngine(engine, ResultsStore(folder), maker)


def results(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("??/*") if path.is_file())


def filled(folder: Path, plan: Plan) -> list[Path]:
    """Fill a store with all results of a plan. Return its files."""
    for _ in stored(folder, MadeUpEngine()).run([one.job for one in plan.jobs], {}):
        pass
    return results(folder)


def test_a_run_is_the_same_with_a_store_and_without(tmp_path: Path) -> None:
    plan = plan_of()
    without = executed(tmp_path / "without", plan, MadeUpEngine())
    first, second = MadeUpEngine(), MadeUpEngine()
    assert executed(tmp_path / "first", plan, stored(tmp_path / "store", first)) == without
    again = stored(tmp_path / "store", second)
    assert executed(tmp_path / "second", plan, again) == without
    assert (len(first.done), second.done) == (len(plan.jobs), [])
    assert (again.store.found, again.store.written, again.store.complaint) == (plan.loads(), 0, "")


def test_another_experiment_with_the_same_jobs_finds_them(tmp_path: Path) -> None:
    few, more = plan_of(rtts_ms=(20,)), plan_of(rtts_ms=(20, 100))
    filled(tmp_path, few)
    engine = MadeUpEngine()
    for _ in stored(tmp_path, engine).run([one.job for one in more.jobs], {}):
        pass
    assert len(engine.done) == len(more.jobs) - len(few.jobs)


def test_the_name_of_a_job_decides_nothing_and_is_given_back(tmp_path: Path) -> None:
    plan = plan_of(repeats=1)
    job = plan.jobs[0].job
    filled(tmp_path, plan)
    engine, name = MadeUpEngine(), 'ein "anderer" Näme\t\U0001f680'
    events = list(stored(tmp_path, engine).run([job.model_copy(update={"id": name})], {}))
    assert engine.done == []
    records = [event for event in events if isinstance(event, Reported)]
    assert {event.record.job for event in records} == {name}
    assert {json.loads(event.raw)["job"] for event in records} == {name}
    assert len(records) == 1 + len(job.loads)


def test_a_name_is_taken_out_of_a_record_and_put_back() -> None:
    for name in ("a", 'b"\\', "ü\n\x01"):
        text = raw({"type": "load", "id": "x"}, name)
        assert with_job_id(without_job_id(text, "load", name), name) == text
    with pytest.raises(ValueError, match="world"):
        without_job_id(raw({"type": "world"}, "a"), "load", "a")


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"tcp_trace": True},
        {"start_phase_us": 1},
        {"load_timeout_us": 5},
        {"loads": []},
        {"page": made_up_page("other", requests=4)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_may_decide_the_bytes_is_in_the_key(change: dict[str, Any]) -> None:
    job = plan_of(repeats=1).jobs[0].job
    keys = {
        Result("", module.inputs_of(one, maker, bodies), ()).key
        for one in (job, job.model_copy(update=change))
        for maker in (
            MAKER,
            Maker("ab", "bb", ("seccomp=on",)),
            Maker("aa", "bc", ("seccomp=on",)),
            Maker("aa", "bb", ()),
        )
        for bodies in ("", "cc")
    }
    assert len(keys) == 16


def test_packets_and_other_clients_are_not_looked_up(tmp_path: Path) -> None:
    plan = plan_of(repeats=1)
    filled(tmp_path, plan)
    engine = MadeUpEngine()
    jobs = [plan.jobs[0].job.model_copy(update={"packets": True})]
    list(stored(tmp_path, engine).run(jobs, {}))
    assert len(engine.done) == 1


@pytest.mark.parametrize(
    "engine",
    [MadeUpEngine(fault="died"), MadeUpEngine(invalid="fault"), MadeUpEngine(invalid="link_late")],
    ids=["fault", "faulty load", "late link"],
)
def test_what_the_machine_disturbed_is_not_stored(engine: MadeUpEngine, tmp_path: Path) -> None:
    plan = plan_of(repeats=1)
    events = list(stored(tmp_path, engine).run([one.job for one in plan.jobs], {}))
    assert len(list(loads_in(events))) == plan.loads()
    assert results(tmp_path) == []


def test_a_job_counts_when_it_is_in_the_store(tmp_path: Path) -> None:
    plan = plan_of(repeats=1)
    events = stored(tmp_path, MadeUpEngine()).run([one.job for one in plan.jobs], {})
    next(loads_in(events))
    assert len(results(tmp_path)) == 1
    events.close()


@pytest.mark.parametrize("left", [0, 10, 60, 100, 104, 2000])
def test_a_torn_write_is_made_again(left: int, tmp_path: Path) -> None:
    plan = plan_of(repeats=1)
    first, *_ = files = filled(tmp_path, plan)
    whole = first.read_bytes()
    first.write_bytes(whole[:left])
    assert facts(open_store(tmp_path)).results >= len(files) - 1
    engine = MadeUpEngine()
    list(stored(tmp_path, engine).run([one.job for one in plan.jobs], {}))
    assert len(engine.done) == 1
    assert first.read_bytes() == whole


def test_a_changed_or_misplaced_result_is_not_taken(tmp_path: Path) -> None:
    plan = plan_of(repeats=1)
    first, second, *_ = filled(tmp_path, plan)
    whole = first.read_bytes()
    first.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DamagedResultError, match="cut short or changed"):
        Result.unpacked(first.read_bytes())
    store = ResultsStore(tmp_path)
    assert store.get(first.name) is None
    first.write_bytes(second.read_bytes())
    assert store.get(first.name) is None
    assert store.get(second.name) is not None


def test_a_result_that_unpacks_to_more_than_any_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = filled(tmp_path, plan_of(repeats=1, rtts_ms=(20,)))
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    with pytest.raises(DamagedResultError, match="larger than the result of any"):
        Result.unpacked(first.read_bytes())


def body_of(inputs: list[str], records: list[str]) -> bytes:
    """Return the content of a results file with these fields and a correct digest."""
    return Result(MAKER.digest, tuple(inputs), tuple(records)).packed()


@pytest.mark.parametrize(
    "data",
    [
        f"fastopen-result/1 {'0' * 64} maker  4\n".encode(),
        f"fastopen-result/1 {'0' * 64} maker 3 ".encode() + b"4" * 300,
        body_of([], []),
        body_of(["a"], []),
        body_of([MAKER.text(), "", "[1]"], []),
        body_of([MAKER.text(), "", "[" * 100_000], []),
        body_of([MAKER.text(), "", "no JSON"], []),
        Result("\x1b]0;maker", (MAKER.text(), "", ""), ()).packed(),
    ],
)
def test_a_hostile_result_is_damaged_wherever_it_is_read(data: bytes, tmp_path: Path) -> None:
    plan = plan_of(repeats=1, rtts_ms=(20,))
    (first,) = filled(tmp_path, plan)
    try:
        name = Result.unpacked(data).key
    except DamagedResultError:
        name = first.name
    path = tmp_path / name[:2] / name
    first.unlink()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    assert verify(open_store(tmp_path), MadeUpEngine(), MAKER, 1.0).damaged == 1
    engine = MadeUpEngine()
    list(stored(tmp_path, engine).run([one.job for one in plan.jobs], {}))
    assert len(engine.done) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"client": {"kind": "command", "command": ["touch", "made"]}},
        {"client": {"kind": "chromium"}},
        {"origins": {"server": ["touch", "made"]}},
        {"origins": {"bodies_file": "/etc/passwd"}},
        {"loads": [{"id": str(number), "transport": "tcp", "cookies": None} for number in range(9)]},
    ],
)
def test_a_result_is_made_again_only_if_a_store_would_keep_it(change: dict[str, Any], tmp_path: Path) -> None:
    (first,) = filled(tmp_path, plan_of(repeats=1, rtts_ms=(20,)))
    whole = Result.unpacked(first.read_bytes())
    first.unlink()
    job = json.loads(whole.inputs[-1]) | change
    foreign = Result(MAKER.digest, (MAKER.text(), "", json.dumps(job)), whole.records)
    ResultsStore(tmp_path).put(foreign)
    engine = MadeUpEngine()
    assert foreign.job("valid").loads
    assert verify(open_store(tmp_path), engine, MAKER, 1.0).damaged == 1
    assert engine.done == []


def test_a_result_of_very_many_lines_is_not_cut_into_them() -> None:
    data = body_of([MAKER.text(), "", "\n" * 2**23], [])
    tracemalloc.start()
    with pytest.raises(DamagedResultError, match="other numbers of lines"):
        Result.unpacked(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 2**23


def test_a_result_that_would_take_much_memory_is_refused() -> None:
    with pytest.raises(DamagedResultError, match="more memory"):
        Result.unpacked(body_of([MAKER.text(), "", "{}"], ["[" + "[]," * 2**21 + "[]]"]))


def test_a_result_that_is_too_large_to_be_read_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    assert filled(tmp_path, plan_of(repeats=1, rtts_ms=(20,))) == []


def test_no_link_in_a_store_is_followed(tmp_path: Path) -> None:
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    plan = plan_of(repeats=1, rtts_ms=(20,))
    (first,) = filled(store, plan)
    whole = first.read_bytes()
    elsewhere.mkdir()
    (elsewhere / "result").write_bytes(whole)
    first.unlink()
    first.symlink_to(elsewhere / "result")
    first.with_name("ring").symlink_to("ring")
    assert facts(open_store(store)).damaged == 2
    engine = MadeUpEngine()
    list(stored(store, engine).run([plan.jobs[0].job], {}))
    assert engine.done == [plan.jobs[0].job.id]
    assert first.read_bytes() == whole
    assert not first.is_symlink()
    assert prune(open_store(store), 0) == (1, 4)
    first.unlink()
    first.parent.rmdir()
    first.parent.symlink_to(elsewhere)
    list(stored(store, engine).run([plan.jobs[0].job], {}))
    assert [path.name for path in elsewhere.iterdir()] == ["result"]


def test_a_pipe_in_a_store_is_no_result_and_nobody_waits_for_it(tmp_path: Path) -> None:
    plan = plan_of(repeats=1, rtts_ms=(20,))
    (first,) = filled(tmp_path, plan)
    first.unlink()
    os.mkfifo(first)
    assert facts(open_store(tmp_path)).damaged == 1
    assert verify(open_store(tmp_path), MadeUpEngine(), MAKER, 1.0).damaged == 1
    list(stored(tmp_path, MadeUpEngine()).run([plan.jobs[0].job], {}))
    assert first.is_file()


@pytest.mark.parametrize("mark", ["fastopen-result/1" + "9" * 1000, "\N{SNOWMAN}"])
def test_a_store_with_a_damaged_mark_is_refused(mark: str, tmp_path: Path) -> None:
    (tmp_path / module.MARK).write_text(mark, encoding="utf-8")
    with pytest.raises(InputError, match="by another version of fastopen"):
        ResultsStore(tmp_path)


def test_a_record_that_names_another_job_is_not_taken(tmp_path: Path) -> None:
    plan = plan_of(repeats=1, rtts_ms=(20,))
    (first,) = filled(tmp_path, plan)
    whole = Result.unpacked(first.read_bytes())
    records = [whole.records[0], *(f'{one[:-1]},"job":"other"}}' for one in whole.records[1:])]
    first.write_bytes(body_of([*whole.inputs], records))
    engine = MadeUpEngine()
    with pytest.raises(MachineError, match="gave two different results"):
        list(stored(tmp_path, engine).run([plan.jobs[0].job], {}))
    assert engine.done == [plan.jobs[0].job.id]


def test_two_writers_of_one_key_leave_one_result(tmp_path: Path) -> None:
    plan = plan_of(repeats=1, rtts_ms=(20,))
    (first,) = filled(tmp_path / "model", plan)
    result = Result.unpacked(first.read_bytes())
    stores = [ResultsStore(tmp_path / "store") for _ in range(8)]
    threads = [threading.Thread(target=store.put, args=(result,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.read_bytes() for path in results(tmp_path / "store")] == [first.read_bytes()]
    assert sum(store.written for store in stores) == len(result.records) - 1
    assert {store.complaint for store in stores} == {""}


def test_two_writers_that_disagree_stop_and_both_results_are_kept(tmp_path: Path) -> None:
    plan = plan_of(repeats=1, rtts_ms=(20,))
    (mine,) = filled(tmp_path / "store", plan)
    list(stored(tmp_path / "other", MadeUpEngine(late=1)).run([plan.jobs[0].job], {}))
    (other,) = results(tmp_path / "other")
    store, result = ResultsStore(tmp_path / "store"), Result.unpacked(other.read_bytes())
    before = mine.read_bytes()
    with pytest.raises(MachineError, match=r"gave two different results: .*\.kept and .*\.again"):
        store.put(result)
    assert (tmp_path / "store" / "disputed" / f"{mine.name}.kept").read_bytes() == before
    assert (tmp_path / "store" / "disputed" / f"{mine.name}.again").read_bytes() == other.read_bytes()
    store.put(result)
    assert results(tmp_path / "store") == []


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError(30, "Read-only file system")]
)
def test_a_store_that_cannot_be_written_costs_no_load(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    plan = plan_of()
    without = executed(tmp_path / "without", plan, MadeUpEngine())
    engine = stored(tmp_path / "store", MadeUpEngine())
    monkeypatch.setattr(Path, "write_bytes", fail)
    assert executed(tmp_path / "with", plan, engine) == without
    assert error.strerror is not None
    assert engine.store.complaint == f"{tmp_path / 'store'}: cannot be written: {error.strerror}"
    assert [*(tmp_path / "store").glob("??/*")] == []


def test_a_store_that_cannot_be_read_costs_no_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(repeats=1)
    filled(tmp_path, plan)
    engine = stored(tmp_path, MadeUpEngine())

    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(FolderFiles, "read", fail)
    events = list(engine.run([one.job for one in plan.jobs], {}))
    assert len(list(loads_in(events))) == plan.loads()
    assert engine.store.complaint.endswith("cannot be read: Input/output error")


def test_a_slow_store_says_what_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(0, 10_000, 2))
    monkeypatch.setattr("fastopen.engines.results_store.time.perf_counter", lambda: float(next(moments)))
    engine = stored(tmp_path, MadeUpEngine())
    list(engine.run([one.job for one in plan_of(repeats=1, rtts_ms=(20,)).jobs], {}))
    assert engine.store.seconds == 4.0


def test_what_is_no_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is not empty and not a store"):
        ResultsStore(tmp_path)
    with pytest.raises(InputError, match="not a store of results"):
        open_store(tmp_path / "nothing")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / module.MARK).write_text("fastopen-result/9\n")
    with pytest.raises(InputError, match="by another version of fastopen"):
        ResultsStore(tmp_path / "new")


def test_facts_count_what_is_there(tmp_path: Path) -> None:
    plan = plan_of(repeats=1)
    first, *_ = files = filled(tmp_path, plan)
    list(stored(tmp_path, MadeUpEngine(), Maker("x", "y", ())).run([plan.jobs[0].job], {}))
    first.write_bytes(b"")
    (first.parent / ".new-left").write_bytes(b"half")
    found = facts(open_store(tmp_path))
    assert (found.results, found.damaged, found.unfinished) == (len(files), 1, 1)
    assert sorted(found.makers.values()) == [1, len(files) - 1]


def test_pruning_takes_the_old_the_damaged_and_those_of_others(tmp_path: Path) -> None:
    plan = plan_of(rtts_ms=range(10, 90, 10))
    files = filled(tmp_path, plan)
    for age, path in enumerate(files):
        os.utime(path, (1e9 - age * DAY_S, 1e9 - age * DAY_S))
    (tmp_path / "left").mkdir()
    left = files[0].parent / ".new-left"
    left.write_bytes(b"half")
    os.utime(left, (1e9 - 2 * DAY_S, 1e9 - 2 * DAY_S))
    store = open_store(tmp_path)
    assert prune(store, 1e9) == (1, 4)
    assert prune(store, 1e9, older_than_s=5.5 * DAY_S)[0] == 2
    assert results(tmp_path) == sorted(files[:6])
    most = sum(path.stat().st_size for path in files[:3])
    assert prune(store, 1e9, most_bytes=most)[0] == 3
    assert results(tmp_path) == sorted(files[:3])
    files[0].write_bytes(b"torn")
    assert prune(store, 1e9, keep_maker=MAKER.digest)[0] == 1
    assert prune(store, 1e9, keep_maker="another")[0] == 2


def test_clocks_that_differ_between_machines_cost_no_result(tmp_path: Path) -> None:
    plan = plan_of(rtts_ms=range(10, 50, 10))
    files = filled(tmp_path, plan)
    for path, written_s in zip(files, (0, 1e9 - 1, 1e9 + 40 * DAY_S, 4e9), strict=True):
        os.utime(path, (written_s, written_s))
    again = MadeUpEngine()
    list(stored(tmp_path, again).run([one.job for one in plan.jobs], {}))
    assert again.done == []
    assert prune(open_store(tmp_path), 1e9, older_than_s=30 * DAY_S)[0] == 1, "that of 1970"
    assert results(tmp_path) == files[1:]


def test_pruning_removes_nothing_behind_a_link_out_of_the_store(tmp_path: Path) -> None:
    filled(tmp_path / "store", plan_of(repeats=1))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    (tmp_path / "store" / "zz").symlink_to(tmp_path / "mine")
    assert prune(open_store(tmp_path / "store"), 1e9) == (0, 0)
    assert (tmp_path / "mine" / "file").read_text() == "mine"


def test_verifying_makes_results_again(tmp_path: Path) -> None:
    plan = plan_of()
    filled(tmp_path, plan)
    engine = MadeUpEngine()
    found = verify(open_store(tmp_path), engine, MAKER, 1.0)
    assert (found.same, found.loads, found.disputed) == (len(plan.jobs), plan.loads(), [])
    assert len(engine.done) == len(plan.jobs)
    few = verify(open_store(tmp_path), MadeUpEngine(), MAKER, 0.0001, chance=random.Random(1))
    assert few.same == 1


def test_a_result_that_comes_out_otherwise_is_taken_out_of_use(tmp_path: Path) -> None:
    plan = plan_of(repeats=1)
    first, *_ = files = filled(tmp_path, plan)
    before = first.read_bytes()
    found = verify(open_store(tmp_path), MadeUpEngine(late=1), MAKER, 1.0)
    assert (found.same, len(found.disputed)) == (0, len(files))
    assert results(tmp_path) == []
    assert {Path(kept).read_bytes() for _, kept, _ in found.disputed} >= {before}
    assert all(Path(again).exists() for *_, again in found.disputed)
    assert facts(open_store(tmp_path)).disputed == len(files)


def test_results_of_others_and_damaged_ones_are_not_made_again(tmp_path: Path) -> None:
    first, *others = filled(tmp_path, plan_of(repeats=1))
    first.write_bytes(b"torn")
    engine = MadeUpEngine()
    found = verify(open_store(tmp_path), engine, Maker("x", "y", ()), 1.0)
    assert (found.of_others, found.damaged, engine.done) == (len(others), 1, [])
    assert len(results(tmp_path)) == len(others) + 1


def test_the_command_line_looks_after_a_store(tmp_path: Path) -> None:
    files = filled(tmp_path, plan_of(repeats=1))
    told = fastopen("store", "info", tmp_path)
    assert told.stdout.startswith(f"{len(files)} results in ")
    assert "made by another program or kernel" in told.stdout
    (document,) = [json.loads(fastopen("store", "info", tmp_path, "--json").stdout)]
    assert (document["results"], document["makers"][0]["own"]) == (len(files), False)
    named = fastopen("store", "prune", "--size", "0", env={**os.environ, "FASTOPEN_STORE": str(tmp_path)})
    assert named.stdout.startswith(f"removed {len(files)} files, ")
    for arguments, said in (
        (("info",), "needs a store; give its folder, or set FASTOPEN_STORE"),
        (("verify", tmp_path, "--sample", "2"), "--sample: invalid share '2'"),
        (("prune", tmp_path, "--size", "x"), "--size: "),
    ):
        wrong = fastopen("store", *arguments)
        assert (wrong.returncode, said in wrong.stderr) == (2, True)


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
def test_real_loads_are_the_same_with_a_store_and_verified(tmp_path: Path) -> None:
    asked = (
        "run",
        "example",
        "--engine",
        "virtual",
        "--rtt",
        "20ms",
        "--loss",
        "1%",
        "-n",
        "2",
        "--seed",
        "1",
        "--json",
    )
    without = fastopen(*asked, "-o", tmp_path / "without")
    first = fastopen(*asked, "--store", tmp_path / "store", "-o", tmp_path / "first")
    second = fastopen(*asked, "--store", tmp_path / "store", "-o", tmp_path / "second")
    assert without.stdout == first.stdout == second.stdout
    assert f"store {tmp_path / 'store'}: 0 loads found, 6 added" in first.stderr
    assert f"store {tmp_path / 'store'}: 6 loads found, 0 added" in second.stderr
    told = fastopen("store", "verify", tmp_path / "store", "--sample", "1")
    assert (told.returncode, told.stdout) == (0, "2 results (6 loads) repeated to the byte\n")
