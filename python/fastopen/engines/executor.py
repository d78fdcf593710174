"""Run the virtual engine in other processes or on other machines, with an executor of `concurrent.futures`.

A task of the executor runs some jobs in sequence. A worker refuses the task unless it has the caller's builds
of the kernel and of the world program, which emulates networks: other builds may give other results."""

import itertools
import os
import platform
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Final

from fastopen.common.errors import InputError, MachineError
from fastopen.contract import Job
from fastopen.engines import kernels
from fastopen.engines.base import Bodies, Event, JobStarted
from fastopen.engines.kernels import Kernel
from fastopen.engines.programs import find_program, program_digest
from fastopen.engines.results_store import Maker
from fastopen.engines.worlds import VirtualEngine, batches, end_of

# Tasks submitted for each worker, including the one that it runs, so that no worker waits for its next task.
AHEAD: Final = 2
# A job fails for good after this many workers were lost while they ran only this job.
LOSSES: Final = 3


class ExecutorEngine:
    """An engine that runs jobs in virtual time as tasks of an executor, which the caller shuts down."""

    def __init__(self, executor: Executor, maker: Maker, parallel: int | None = None) -> None:
        """Create an engine that runs `parallel` tasks at once: by default, the number of workers or, if it is
        unknown, the number of cores. `maker` identifies the program and kernel that workers must run."""
        known = getattr(executor, "_max_workers", None)
        self.parallel: int = parallel or (known if isinstance(known, int) else os.cpu_count() or 1)
        self.tasks_lost = 0
        """The number of tasks that failed because their workers died."""
        self._executor = executor
        self._maker = maker

    def run(self, jobs: Iterable[Job], bodies: Bodies, within_s: float | None = None) -> Generator[Event]:
        """Run jobs as `Engine.run` does, on the executor's workers. If a worker dies, run its jobs again. At
        the end, wait for running tasks, which cannot be cancelled, and discard their results."""
        deadline = None if within_s is None else time.monotonic() + within_s
        # Pairs of a task (a sequence of jobs) and the number of workers that were lost while they ran it.
        waiting = deque((task, 0) for task in batches(jobs, AHEAD * self.parallel))
        running: dict[Future[list[Event]], tuple[Sequence[Job], int]] = {}
        try:
            while True:
                while waiting and len(running) < AHEAD * self.parallel:
                    task, losses = waiting.popleft()
                    running[self._submitted(task, bodies)] = task, losses
                    yield from (JobStarted(job.id, 1) for job in task)
                if not running:
                    return
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                finished = wait(running, left_s, FIRST_COMPLETED).done
                if not finished:
                    return
                # Successful tasks come first, so that their events are kept if a failed task stops the run.
                for future in sorted(finished, key=lambda one: one.cancelled() or bool(one.exception())):
                    task, losses = running.pop(future)
                    events, reason = _events_of(future)
                    # The first start of each job was yielded when its task was submitted.
                    yield from (one for one in events if not isinstance(one, JobStarted) or one.attempt > 1)
                    if not reason:
                        continue
                    self.tasks_lost += 1
                    if len(task) > 1:  # split it, to find the job that kills workers
                        middle = len(task) // 2
                        waiting.extendleft(((task[middle:], 0), (task[:middle], 0)))
                    elif losses + 1 < LOSSES:
                        waiting.appendleft((task, losses + 1))
                    else:
                        words = f"{LOSSES} workers did not finish it: {reason}"
                        for job in task:
                            yield from end_of(job, [load.id for load in job.loads], words)
        finally:
            wait([future for future in running if not future.cancel()])

    def _submitted(self, jobs: Sequence[Job], bodies: Bodies) -> Future[list[Event]]:
        if bodies.get(jobs[0].page.name):
            message = "recorded bodies are not sent to workers"
            raise InputError(message, f"page {jobs[0].page.name}", "run it on this machine")
        try:
            return self._executor.submit(run_task, [job.model_dump_json() for job in jobs], self._maker)
        except RuntimeError as error:  # BrokenExecutor, or the executor is shut down
            raise _lost(error) from None


def _events_of(future: Future[list[Event]]) -> tuple[Sequence[Event], str]:
    """Return the events of a finished task and "", or no events and the text of an unexpected error. Raises
    the task's InputError or MachineError, and MachineError if all workers are lost."""
    try:
        return future.result(), ""
    except (InputError, MachineError):
        raise
    except (BrokenExecutor, CancelledError) as error:
        raise _lost(error) from None
    except Exception as error:  # an executor may report a dead worker by any exception
        return (), f"{type(error).__name__}: {error}"


def _lost(error: BaseException) -> MachineError:
    message = f"the workers were lost: {type(error).__name__}{f': {error}' if str(error) else ''}"
    return MachineError(message, "start them again, then use fastopen resume")


# Yields the `first_core` of the next task, so that the tasks of this worker are spread over its cores.
_turn = itertools.count(os.getpid())


def run_task(jobs: Sequence[str], maker: Maker) -> list[Event]:
    """Run jobs, given as JSON texts, in this process, and return events such as finished page loads. `maker`
    identifies the kernel and the world program to use. Raises MachineError if this machine lacks them."""
    try:
        program, kernel = _program_and_kernel(maker)
        engine = VirtualEngine(program, kernel, parallel=1, first_core=next(_turn))
        with closing(engine.run_together([list(map(Job.model_validate_json, jobs))], {})) as events:
            return list(events)
    except MachineError as error:
        worker = f"worker {platform.node()} (process {os.getpid()})"
        raise MachineError(f"{worker}: {error.message}", error.remedy) from None


def _program_and_kernel(maker: Maker) -> tuple[Path, Kernel]:
    program = find_program()
    own = _digest(program, program.stat().st_mtime_ns)
    if own != maker.program:
        message = f"its world program is another build ({own[:12]}..., not {maker.program[:12]}...)"
        raise MachineError(message, "install the same wheel on the worker")
    for kernel in kernels.installed():
        manifest = kernel.manifest
        if (manifest.sha256, tuple(manifest.arguments)) == (maker.kernel, maker.arguments):
            return program, kernel
    named = kernels.find() if os.environ.get(kernels.VARIABLE) else None
    if named is not None and named.manifest.sha256 == maker.kernel:
        return program, named
    message = f"the kernel with SHA-256 {maker.kernel[:12]}... is not installed"
    raise MachineError(message, "install the same kernel on the worker")


@lru_cache(maxsize=4)
def _digest(program: Path, modified_ns: int) -> str:  # noqa: ARG001  # the time is part of the cache's key
    return program_digest(program)
