"""Jobs of virtual time as tasks of an executor: the same run, refusals by name, and workers that die."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from command_line import fastopen
from fastopen import Experiment, kernels, run
from fastopen.engines import ExecutorEngine, HostEngine, Maker, executor, find_program, program_digest
from fastopen.engines.executor import Task
from fastopen.engines.host import WorldEngine
from fastopen.errors import InputError, MachineError
from fastopen.experiments import Plan
from fastopen.runs import RunProgress, RunStore, execute

MakePlan = Callable[..., Plan]
FakeWorld = Callable[..., Path]
MAKER = Maker("aa", "bb", ())


class FakeKernel(WorldEngine):
    """The virtual engine with the fake world program."""

    def __init__(self, program: Path, _: object, parallel: int, first_core: int) -> None:
        super().__init__([program], parallel)
        assert first_core > 0


@pytest.fixture(name="worker")
def _worker(fake_world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    """Tasks run the fake world, whatever program and kernel they ask for."""
    monkeypatch.setattr(executor, "VirtualEngine", FakeKernel)
    monkeypatch.setattr(executor, "_own", lambda _: (find_program(), None))
    return fake_world


def rows(store: RunStore) -> list[Any]:
    columns = "jobs.id, loads.id, attempt, valid, plt_ns, requests, invalid"
    return sorted(store.rows_of(f"SELECT {columns} FROM loads JOIN jobs ON jobs.number = loads.job"))


def executed(plan: Plan, engine: Any, watch: Callable[[RunProgress], None] = lambda _: None) -> list[Any]:
    with RunStore.create(None, plan, {}) as store:
        execute(plan, engine, {}, store, watch)
        return rows(store)


def test_a_run_on_an_executor_is_the_run(small_plan: MakePlan, worker: FakeWorld) -> None:
    plan, program = small_plan((20, 100), repeats=6), worker()
    with ThreadPoolExecutor(2) as pool:
        engine = ExecutorEngine(pool, MAKER)
        assert engine.parallel == 2
        assert executed(plan, engine) == executed(plan, HostEngine(program, 2))


def test_processes_do_it_too(small_plan: MakePlan, worker: FakeWorld) -> None:
    plan, program = small_plan((20,), repeats=4), worker()
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        assert executed(plan, ExecutorEngine(pool, MAKER)) == executed(plan, HostEngine(program, 2))


class Scripted(Executor):
    """Runs tasks at once, or fails them as it is told."""

    def __init__(self, faults: Sequence[BaseException | None]) -> None:
        self.faults = list(faults)
        self.tasks = 0

    def submit(self, work: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.tasks += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault is None:
            future.set_result(work(*arguments))
        else:
            future.set_exception(fault)
        return future


def test_a_task_whose_worker_died_is_done_again(small_plan: MakePlan, worker: FakeWorld) -> None:
    plan, _ = small_plan((20,), repeats=2), worker()
    found = executed(plan, ExecutorEngine(Scripted([RuntimeError("KilledWorker")]), MAKER, 1))
    last = {(job, load): valid for job, load, _, valid, *_ in found}
    assert len(last) == 6
    assert all(last.values())
    assert sum("a worker did not finish it: RuntimeError: KilledWorker" in row[-1] for row in found) == 3


def test_where_all_workers_are_lost_the_run_stops_with_what_it_has(
    small_plan: MakePlan, worker: FakeWorld
) -> None:
    plan, _ = small_plan((20, 100), repeats=6), worker()
    with RunStore.create(None, plan, {}) as store:
        engine = ExecutorEngine(Scripted([None, BrokenProcessPool("died")]), MAKER, 1)
        with pytest.raises(MachineError, match=r"workers were lost: BrokenProcessPool: died \(start them"):
            execute(plan, engine, {}, store, lambda _: None)
        assert (store.status, store.loads_done() > 0) == ("stopped", True)
        execute(plan, ExecutorEngine(Scripted([]), MAKER, 1), {}, store, lambda _: None)
        assert (store.loads_done(), store.attempts_done()) == (36, 36)


def test_a_worker_that_is_killed_ends_the_run_in_order(small_plan: MakePlan, worker: FakeWorld) -> None:
    plan, _ = small_plan((20,), repeats=4), worker()
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        engine = ExecutorEngine(pool, MAKER)
        assert pool.submit(os.getpid).result() != os.getpid()
        pool.submit(os.kill, *(pool.submit(os.getpid).result(), signal.SIGKILL))
        with pytest.raises(MachineError, match="workers were lost"):
            executed(plan, engine)


def test_ctrl_c_waits_for_the_tasks_that_run_and_starts_no_more(
    small_plan: MakePlan, worker: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, _ = small_plan((20, 100), repeats=6), worker()
    begun, real, ended = [], executor.do, threading.Semaphore(0)

    def counted(task: Task) -> Any:
        begun.append(task)
        told = real(task)
        ended.release()
        return told

    def stop(progress: RunProgress) -> None:
        if progress.finished is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr(executor, "do", counted)
    with ThreadPoolExecutor(1) as pool, RunStore.create(None, plan, {}) as store:
        outcome = execute(plan, ExecutorEngine(pool, MAKER), {}, store, stop)
        assert outcome.interrupted
        assert store.loads_done() == 1
        assert ended._value == len(begun) <= 2


def test_a_worker_with_another_program_or_kernel_is_refused_by_name(
    fake_world: FakeWorld, small_plan: MakePlan
) -> None:
    job = small_plan((20,), repeats=1).jobs[0].job.model_dump_json()
    own = program_digest(fake_world())
    with pytest.raises(MachineError, match=r"worker .+ \(process \d+\): its world program is another build"):
        executor.do(Task((job,), Maker("a" * 64, "b" * 64, ())))
    with pytest.raises(MachineError, match=r"worker .+: the kernel with SHA-256 bbbbbbbbbbbb\.\.\. is not"):
        executor.do(Task((job,), Maker(own, "b" * 64, ())))


def test_recorded_bodies_are_not_sent(small_plan: MakePlan) -> None:
    plan = small_plan((20,), repeats=1)
    engine = ExecutorEngine(Scripted([]), MAKER, 1)
    with pytest.raises(InputError, match="its recorded bodies are not sent to workers"):
        list(engine.run([plan.jobs[0].job], {plan.pages[0].name: {0: b"body"}}))


def test_real_time_is_not_for_workers(fake_world: FakeWorld) -> None:
    fake_world()
    with ThreadPoolExecutor(1) as pool, pytest.raises(InputError, match="workers run virtual time alone"):
        run(Experiment("example", engines="host", repeats=1), keep=False, executor=pool, progress=False)


@pytest.mark.e2e
def test_real_loads_are_the_same_on_an_executor(kernel: Path) -> None:  # noqa: ARG001
    assert kernels.find()
    experiment = Experiment("example", rtt=["20ms"], loss="1%", engines="virtual", repeats=2, seed=1)
    here = run(experiment, keep=False, progress=False)
    with ThreadPoolExecutor(2) as pool:
        there = run(experiment, keep=False, progress=False, executor=pool)
    jobs = [(row.job, row.load) for row in here._store.loads()]
    assert len(jobs) == 6
    for job, load in jobs:
        assert here._store.load_json(job, load) == there._store.load_json(job, load)


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore")
def test_loads_on_two_dask_workers_of_which_one_is_killed_are_the_same(
    kernel: Path,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install 'fastopen[dask]'"
    )
    asked = [
        "run",
        "example",
        "--engine",
        "virtual",
        "--rtt",
        "20ms,50ms",
        "--loss",
        "1%",
        "-n",
        "6",
        "--seed",
        "1",
    ]
    here = fastopen(*asked, "--json", "-o", tmp_path / "here")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster:
        workers: dict[str, int]
        with distributed.Client(cluster, set_as_default=False) as client:
            workers = client.run(os.getpid)
        killer = threading.Timer(0.5, os.kill, (min(workers.values()), signal.SIGKILL))
        killer.start()
        there = fastopen(*asked, "--json", "-o", tmp_path / "there", "--workers", cluster.scheduler_address)
        killer.join()
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout
    with RunStore.open(tmp_path / "there") as kept:
        assert (kept.loads_done(), kept.attempts_done()) == (36, 36)


def test_without_dask_or_a_scheduler_the_option_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = fastopen("run", "example", "--workers", "tcp://127.0.0.1:1")
    assert done.returncode == 3
    assert "--workers needs Dask (pip install 'fastopen[dask]')" in done.stderr
