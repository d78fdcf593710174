"""Jobs in virtual time on an executor: same results as locally, errors that name the worker, lost workers."""

import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from command_line import FASTOPEN, fastopen
from fastopen import Experiment, run
from fastopen.common.errors import InputError, MachineError
from fastopen.contract import Job
from fastopen.engines import (
    ExecutorEngine,
    HostEngine,
    Maker,
    executor,
    find_program,
    kernels,
    program_digest,
    world_process,
)
from fastopen.engines.worlds import TOGETHER, WorldEngine
from fastopen.experiments import Plan
from fastopen.runs import RunProgress, RunStore, execute
from fastopen.workflows.workers import DaskExecutor

MakePlan = Callable[..., Plan]
FakeWorld = Callable[..., Path]
MAKER = Maker("aa", "bb", ())


class FakeKernel(WorldEngine):
    """The virtual engine with the fake world program."""

    def __init__(self, program: Path, _: object, parallel: int, first_core: int) -> None:
        super().__init__([program], parallel)
        assert first_core > 0


@pytest.fixture(scope="module", autouse=True)
def _folder_of_dask(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Give Dask a folder inside pytest's, because schedulers and killed workers leave files behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DASK_TEMPORARY_DIRECTORY", str(tmp_path_factory.mktemp("dask")))
        yield


@pytest.fixture(name="worker")
def _worker(fake_world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    """Make tasks run the fake world program instead of the program and kernel that they name."""
    monkeypatch.setattr(executor, "VirtualEngine", FakeKernel)
    monkeypatch.setattr(executor, "_program_and_kernel", lambda _: (find_program(), None))
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
    """An executor that runs tasks at once, or fails them as specified."""

    def __init__(self, faults: Sequence[BaseException | None], deadly: str = "") -> None:
        """Fail the first tasks with these faults, and each task that contains the job `deadly`."""
        self.faults = list(faults)
        self.deadly = deadly
        self.tasks: list[list[str]] = []

    def submit(self, work: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        jobs, _ = arguments
        self.tasks.append(jobs)
        fault = self.faults.pop(0) if self.faults else None
        if self.deadly in ids([jobs])[0]:
            fault = RuntimeError("KilledWorker")
        if fault is None:
            future.set_result(work(*arguments))
        else:
            future.set_exception(fault)
        return future


def ids(tasks: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[Job.model_validate_json(job).id for job in jobs] for jobs in tasks]


def test_what_a_dead_worker_had_is_sent_again_in_halves_and_is_no_other_attempt(
    small_plan: MakePlan, worker: FakeWorld
) -> None:
    plan, _ = small_plan((20,), repeats=20), worker()
    pool = Scripted([RuntimeError("KilledWorker"), None, RuntimeError("KilledWorker")])
    engine = ExecutorEngine(pool, MAKER, 1)
    found = executed(plan, engine)
    assert sorted((job, load) for job, load, *_ in found) == sorted(
        (one.job.id, load.id) for one in plan.jobs for load in one.job.loads
    )
    assert {(attempt, valid) for _, _, attempt, valid, *_ in found} == {(1, 1)}
    assert engine.tasks_lost == 2
    first, _, *others = ids(pool.tasks)
    of_first = [task for task in others if {*task} <= {*first}]
    half, quarter = len(first) // 2, len(first) // 4
    assert of_first == [first[:half], first[half:], first[:quarter], first[quarter:half]]


def test_jobs_that_workers_die_of_are_faults_and_the_others_of_their_tasks_are_not(
    small_plan: MakePlan, worker: FakeWorld
) -> None:
    plan, _ = small_plan((20,), repeats=40), worker()
    deadly = plan.jobs[7].job.id
    found = executed(plan, ExecutorEngine(Scripted([], deadly), MAKER, 1))
    assert len({(job, load) for job, load, *_ in found}) == 120
    assert {job for job, _, _, valid, *_ in found if not valid} == {deadly}
    faults = [row[-1] for row in found if row[0] == deadly]
    assert all("3 workers did not finish it: RuntimeError: KilledWorker" in fault for fault in faults)
    assert {attempt for job, _, attempt, *_ in found if job != deadly} == {1}


def test_where_all_workers_are_lost_the_run_stops_with_what_it_has(
    small_plan: MakePlan, worker: FakeWorld
) -> None:
    plan, _ = small_plan((20, 100), repeats=6), worker()
    with RunStore.create(None, plan, {}) as store:
        engine = ExecutorEngine(Scripted([None, BrokenProcessPool("died")]), MAKER, 1)
        with pytest.raises(MachineError, match=r"workers were lost: BrokenProcessPool: died; start them"):
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
    begun, real, ended = [], executor.run_task, threading.Semaphore(0)

    def counted(*task: Any) -> Any:
        begun.append(task)
        told = real(*task)
        ended.release()
        return told

    def stop(progress: RunProgress) -> None:
        if progress.finished is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr(executor, "run_task", counted)
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
        executor.run_task([job], Maker("a" * 64, "b" * 64, ()))
    with pytest.raises(MachineError, match=r"worker .+: the kernel with SHA-256 bbbbbbbbbbbb\.\.\. is not"):
        executor.run_task([job], Maker(own, "b" * 64, ()))


def test_recorded_bodies_are_not_sent(small_plan: MakePlan) -> None:
    plan = small_plan((20,), repeats=1)
    engine = ExecutorEngine(Scripted([]), MAKER, 1)
    with pytest.raises(InputError, match="recorded bodies are not sent to workers"):
        list(engine.run([plan.jobs[0].job], {plan.pages[0].name: {0: b"body"}}))


def test_real_time_is_not_for_workers(fake_world: FakeWorld) -> None:
    fake_world()
    with ThreadPoolExecutor(1) as pool, pytest.raises(InputError, match="workers run only in virtual time"):
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
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")
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


def test_a_full_disk_on_a_worker_stops_the_run_and_names_the_worker(
    small_plan: MakePlan, worker: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, _ = small_plan((20, 100), repeats=2 * TOGETHER), worker()
    with RunStore.create(None, plan, {}) as store:

        def fill(progress: RunProgress) -> None:
            if progress.done == 7:
                monkeypatch.setattr(world_process, "temporary_file", full)

        engine = ExecutorEngine(Scripted([]), MAKER, 1)
        with pytest.raises(MachineError, match=r"^worker .+ \(process \d+\): .*No space left on device"):
            execute(plan, engine, {}, store, fill)
        assert (store.status, store.loads_done() >= 7) == ("stopped", True)
        monkeypatch.undo()
        monkeypatch.setattr(executor, "VirtualEngine", FakeKernel)
        monkeypatch.setattr(executor, "_program_and_kernel", lambda _: (find_program(), None))
        monkeypatch.setenv("FASTOPEN_WORLD", str(worker()))
        execute(plan, engine, {}, store, lambda _: None)
        assert (store.loads_done(), store.attempts_done()) == (plan.loads(), plan.loads())


def full() -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), tempfile.gettempdir())


@pytest.fixture(name="dask")
def _dask() -> Any:
    return pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")


begun, go_on = threading.Event(), threading.Event()


def _held() -> int:
    begun.set()
    go_on.wait()
    return 1


@pytest.fixture(name="threads")
def _threads(dask: Any) -> Generator[Any]:
    """Yield the client of a Dask cluster in this process, with one worker that has one thread."""
    begun.clear()
    go_on.clear()
    with (
        dask.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        dask.Client(cluster, set_as_default=False) as client,
    ):
        try:
            yield client
        finally:
            go_on.set()


@pytest.mark.filterwarnings("ignore")
def test_a_task_that_was_cancelled_while_a_dask_worker_was_at_it_is_waited_for(threads: Any) -> None:
    workers = DaskExecutor(threads)
    running, waiting = workers.submit(_held), workers.submit(_held)
    assert begun.wait(60)
    begun.clear()
    assert running.cancel()
    assert waiting.cancel()
    ended = threading.Thread(target=workers.shutdown)
    ended.start()
    ended.join(0.2)
    assert ended.is_alive()
    go_on.set()
    ended.join(60)
    assert not ended.is_alive()
    assert not begun.is_set()
    with pytest.raises(RuntimeError, match="shut down"):
        workers.submit(_held)


@pytest.mark.filterwarnings("ignore")
def test_without_any_dask_worker_tasks_end_after_a_while(threads: Any) -> None:
    with DaskExecutor(threads, without_workers_s=0.0) as workers:
        go_on.set()
        assert workers.submit(_held).result(60) == 1
        threads.sync(threads.cluster.workers[0].close)
        with pytest.raises(BrokenExecutor, match="the scheduler had no workers for 0 s"):
            workers.submit(_held).result(60)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def cluster_of_processes(port: int) -> Generator[subprocess.Popen[bytes]]:
    """Run a Dask scheduler and two workers (without nannies) as processes. Yield the scheduler's process."""
    address = f"tcp://127.0.0.1:{port}"
    worker = ["dask_worker", address, "--nthreads", "1", "--no-nanny", "--death-timeout", "60"]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{command[0]}", *command[1:], "--no-dashboard"],
            stderr=subprocess.DEVNULL,
        )
        for command in (["dask_scheduler", "--host", "127.0.0.1", "--port", str(port)], worker, worker)
    ]
    try:
        yield started[0]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.e2e
def test_a_run_whose_scheduler_is_lost_stops_with_what_it_has_and_is_resumed_on_another(
    kernel: Path,  # noqa: ARG001
    dask: Any,
    tmp_path: Path,
) -> None:
    kept, port = tmp_path / "kept", _free_port()
    asked = ["run", "example", "--engine", "virtual", "--rtt", "20ms,50ms", "--loss", "1%", "-n", "12"]
    address = f"tcp://127.0.0.1:{port}"
    with cluster_of_processes(port) as scheduler:
        command = [*FASTOPEN, *asked, "--seed", "1", "-q", "-o", str(kept), "--workers", address]
        with dask.Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
            while running.poll() is None and loads_in(kept) < 3:
                time.sleep(0.01)
            scheduler.kill()
            _, said = running.communicate(timeout=120)
        assert running.returncode == 3, said
        assert "the workers were lost" in said
        assert "then use fastopen resume" in said
    with RunStore.open(kept) as store:
        before = [(row.job, row.load) for row in store.loads()]
        assert (store.status, 0 < len(before) < 72) == ("stopped", True)
    with cluster_of_processes(port):
        resumed = fastopen("resume", kept, "-q", "--workers", address)
    assert resumed.returncode == 0, resumed.stderr
    with RunStore.open(kept) as store:
        assert [(row.job, row.load) for row in store.loads()][: len(before)] == before
        assert (store.loads_done(), store.attempts_done()) == (72, 72)


def loads_in(folder: Path) -> int:
    if not (folder / "run.sqlite").exists():
        return 0
    with RunStore.open(folder) as store:
        return store.loads_done()


def test_without_dask_or_a_scheduler_the_option_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = fastopen("run", "example", "--workers", "tcp://127.0.0.1:1")
    assert done.returncode == 3
    assert f"--workers needs Dask; {sys.executable} -m pip install distributed" in done.stderr
