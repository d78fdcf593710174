"""Run jobs in processes that emulate networks: in real time on this machine's kernel, or in virtual time on a
kernel for each core."""

import math
import os
import selectors
import time
from collections import Counter, deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import heapreplace
from itertools import groupby
from pathlib import Path
from typing import Final

from fastopen.common.closing import Closing, interrupts_held_back
from fastopen.common.errors import InputError, MachineError
from fastopen.common.files import filling, temporary_file
from fastopen.contract import Invalid, InvalidKind, Job, LoadRecord
from fastopen.contract.client_kinds import LOADER, ClientType
from fastopen.contract.load_record import Counters
from fastopen.engines.base import Bodies, Event, JobEnded, JobStarted, Reported
from fastopen.engines.kernels import Kernel
from fastopen.engines.programs import with_programs
from fastopen.engines.world_process import WorldProcess
from fastopen.pages import Page
from fastopen.pages.recording import RecordedBodies

# The maximum number of attempts to build the world of a job. The program ends without loading the page
# if the network, which it measures first, deviates from the job's.
WORLD_ATTEMPTS: Final = 3
CHUNK: Final = 2**20
# The maximum number of jobs in one kernel.
TOGETHER: Final = 40
# A kernel runs at least this many requests on average, unless TOGETHER or the number of cores requires more
# kernels. Starting a kernel takes as long as about 500 requests.
WORTH_A_START: Final = 5000


class BodiesFile(Closing):
    """An unnamed file with recorded response bodies and headers, for the servers of emulated networks. Child
    processes inherit its file descriptor. Use it as a context manager."""

    def __init__(self, bodies: Bodies) -> None:
        """Write the file. Raises MachineError if it cannot be written."""
        self._offsets: dict[str, dict[int, dict[str, int]]] = {}
        self._pages: dict[str, Page] = {}
        self._file = temporary_file()
        written = bodies if any(bodies.values()) else {}
        with filling():
            for page, of_page in written.items():
                offsets = self._offsets.setdefault(page, {})
                heads = of_page.heads if isinstance(of_page, RecordedBodies) else {}
                for key, recorded in (("body_offset", of_page), ("head_offset", heads)):
                    for index, data in recorded.items():
                        offsets.setdefault(index, {})[key] = self._file.tell()
                        self._file.write(data)
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the file descriptors that child processes must inherit. Empty if there are no bodies."""
        return (self._file.fileno(),) if self._offsets else ()

    def attach(self, job: Job) -> Job:
        """Return a copy of the job that refers to its page's responses in this file, by path and offsets.
        Return the job unchanged if the file has no responses of its page."""
        offsets = self._offsets.get(job.page.name)
        if not offsets:
            return job
        name = job.page.name
        if name not in self._pages:
            self._pages[name] = job.page.changed(offsets)
        origins = job.origins.model_copy(update={"bodies_file": f"/proc/self/fd/{self._file.fileno()}"})
        return job.model_copy(update={"page": self._pages[name], "origins": origins})


def default_parallel(clients: Iterable[ClientType] = (LOADER,)) -> int:
    """Return the number of jobs with these clients that can run at once without slowing each other down."""
    each = min(client.worlds_per_core for client in clients)
    return max(1, int(each * len(os.sched_getaffinity(0))))


class WorldEngine:
    """An engine that runs jobs in up to `parallel` processes at once. Each process runs `command`, a program
    that emulates a network. If `cores` is not empty, each process is bound to one of these CPUs.

    Read the events of `run` in the main thread: a process is killed when the thread that started it ends."""

    def __init__(self, command: Sequence[str | Path], parallel: int, cores: Sequence[int] = ()) -> None:
        self._command = command
        self.parallel = parallel
        self._cores = cores

    def run(self, jobs: Iterable[Job], bodies: Bodies, within_s: float | None = None) -> Generator[Event]:
        return self.run_together(([job] for job in jobs), bodies, within_s)

    def run_together(
        self, batches: Iterable[Sequence[Job]], bodies: Bodies, within_s: float | None = None
    ) -> Generator[Event]:
        """Run jobs as `Engine.run` does, with one process for each batch of jobs. If a process fails, another
        process runs the jobs of the batch that had not begun."""
        deadline = math.inf if within_s is None else time.monotonic() + within_s
        with BodiesFile(bodies) as packed, _WorldProcesses(self._command, packed, self._cores) as worlds:
            waiting = iter(batches)
            again: deque[tuple[Sequence[Job], int]] = deque()
            while True:
                while len(worlds) < self.parallel:
                    batch, attempt = again.popleft() if again else (next(waiting, None), 1)
                    if batch is None:
                        break
                    worlds.start(batch, attempt)
                    yield JobStarted(batch[0].id, attempt)
                if not len(worlds) or time.monotonic() >= deadline:
                    return
                events, finished = worlds.wait(deadline)
                yield from events
                for world in finished:
                    if world.not_begun:
                        again.append((world.not_begun, 1))
                    error = world.error
                    if error is not None and error.fault == "world" and world.attempt < WORLD_ATTEMPTS:
                        remaining = [load for load in world.job.loads if load.id in world.missing]
                        once_more = world.job.model_copy(update={"loads": remaining})
                        again.append(([once_more], world.attempt + 1))
                    else:
                        yield from _conclusion(world)


class HostEngine(WorldEngine):
    """An engine that runs jobs on this machine's kernel, in real time."""

    def __init__(self, program: Path, parallel: int | None = None) -> None:
        super().__init__([program], default_parallel() if parallel is None else parallel)


class _WorldProcesses(Closing):
    """The running processes of the program that emulates networks. The end of the `with` block kills them."""

    def __init__(self, command: Sequence[str | Path], bodies: BodiesFile, cores: Sequence[int]) -> None:
        self._command = command
        self._bodies = bodies
        self._cores = cores
        self._running: dict[int, WorldProcess] = {}  # by pidfd
        self._selector = selectors.DefaultSelector()

    def close(self) -> None:
        for world in self._running.values():
            world.process.kill()
        for pidfd in list(self._running):
            self._remove(pidfd)
        self._selector.close()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, jobs: Sequence[Job], attempt: int) -> None:
        inherited, now = self._bodies.descriptors, time.monotonic()
        with interrupts_held_back():
            try:
                jobs = [with_programs(self._bodies.attach(job)) for job in jobs]
                world = WorldProcess(self._command, jobs, attempt, inherited, now)
            except OSError as error:
                message = f"{self._command[0]} cannot be started: {error.strerror or error}"
                raise MachineError(message) from None
            pidfd = os.pidfd_open(world.process.pid)
            self._running[pidfd] = world
        if self._cores:
            used = Counter(other.core for other in self._running.values())
            world.core = min(self._cores, key=lambda core: used[core])
            # If this process may not use the core any more, the world runs on any core.
            with suppress(OSError):
                os.sched_setaffinity(world.process.pid, {world.core})
        for descriptor in (pidfd, world.stdout, world.stderr):
            self._selector.register(descriptor, selectors.EVENT_READ, pidfd)

    def wait(self, deadline: float = math.inf) -> tuple[list[Event], list[WorldProcess]]:
        """Wait until a process writes output, ends or exceeds its time limit, at most until `deadline`
        (time.monotonic). Return the new events, and the processes that ended or were killed."""
        first_deadline = min(deadline, *(world.deadline for world in self._running.values()))
        ready = self._selector.select(max(0.0, first_deadline - time.monotonic()))
        now = time.monotonic()
        events: list[Event] = []
        exited: set[int] = set()
        for key, _ in ready:
            pidfd: int = key.data
            if key.fd == pidfd:
                exited.add(pidfd)
            else:
                events += self._read(self._running[pidfd], key.fd, now)
        for pidfd in exited:  # the last output is still in the pipes
            world = self._running[pidfd]
            for descriptor in (world.stdout, world.stderr):
                events += self._read(world, descriptor, now, to_end=True)
        finished: list[WorldProcess] = []
        for pidfd, world in list(self._running.items()):
            late = now >= world.deadline
            if late and pidfd not in exited:
                world.timed_out()
            # A finished program gets time to clean up. A program that broke the contract is killed at once.
            # So is a program that reported an error and has further jobs: another process runs these jobs.
            wrong = world.violation is not None or (world.error is not None and world.not_begun)
            if pidfd in exited or late or wrong:
                finished.append(self._remove(pidfd))
        return events, finished

    def _read(self, world: WorldProcess, descriptor: int, now: float, to_end: bool = False) -> list[Event]:
        events: list[Event] = []
        with suppress(BlockingIOError):
            while data := os.read(descriptor, CHUNK):
                events += world.receive(descriptor, data, now)
                if not to_end:
                    return events
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        return events

    def _remove(self, pidfd: int) -> WorldProcess:
        world = self._running.pop(pidfd)
        for descriptor in (pidfd, world.stdout, world.stderr):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        world.close()
        os.close(pidfd)
        return world


def _conclusion(world: WorldProcess) -> Iterator[Event]:
    error = world.error
    if error is not None and error.fault == "input":
        raise InputError(error.message, f"job {world.job.id}", error.remedy)
    if error is not None and error.fault == "machine":
        raise MachineError(error.message, error.remedy)
    yield from end_of(world.job, world.missing, world.reason())


def end_of(job: Job, missing: Collection[str], reason: str | None) -> Iterator[Event]:
    """Yield the last events of a job: an invalid page load for each id in `missing`, with `reason` in its
    record, and then the job's end. `reason` is None if the job is complete."""
    for load in job.loads:
        if load.id in missing:
            record = LoadRecord(
                type="load",
                job=job.id,
                id=load.id,
                transport=load.transport,
                cookies=load.cookies,
                valid=False,
                invalid=[Invalid(kind=InvalidKind.FAULT, detail=reason or "never reported")],
                plt_ns=None,
                started_unix_ms=time.time_ns() // 1_000_000,
                client_address="",
                cookies_before=0,
                requests=[],
                connections=[],
                counters=Counters(client={}, origins={}),
                link=None,
            )
            yield Reported(record, record.model_dump_json())
    yield JobEnded(job.id, reason)


class VirtualEngine(WorldEngine):
    """An engine that runs jobs on User-Mode Linux in virtual time, so that waiting takes no real time.

    Small jobs run one after another on the same kernel, because starting a kernel takes as long as several
    page loads. The order of jobs does not change their results."""

    # Each kernel stays on one core: only one of its processes runs at a time, and switching cores takes time.

    def __init__(
        self, program: Path, kernel: Kernel, parallel: int | None = None, first_core: int | None = None
    ) -> None:
        """Create an engine that runs `parallel` kernels at once, by default one for each core. Each kernel is
        bound to a core: the first one to the usable core with the index `first_core`, by default to any."""
        command: list[str | Path] = [program, "--kernel", kernel.path, *kernel.manifest.arguments]
        cores = sorted(os.sched_getaffinity(0))
        first = (os.getpid() if first_core is None else first_core) % len(cores)
        super().__init__(command, len(cores) if parallel is None else parallel, cores[first:] + cores[:first])

    def run(self, jobs: Iterable[Job], bodies: Bodies, within_s: float | None = None) -> Generator[Event]:
        """Run jobs as `Engine.run` does, the longest first, so that cores finish at about the same time."""
        return self.run_together(batches(jobs, self.parallel), bodies, within_s)


def batches(jobs: Iterable[Job], parallel: int) -> Iterator[Sequence[Job]]:
    """Divide the jobs among kernels that run on `parallel` cores, and yield the jobs of each kernel. A job
    whose client is not deterministic gets its own kernel."""
    by_work = sorted(jobs, key=_work, reverse=True)
    for deterministic, alike in groupby(by_work, key=lambda job: job.client.type.deterministic):
        of_kind = list(alike)
        yield from _dealt(of_kind, parallel) if deterministic else ([job] for job in of_kind)


def _dealt(jobs: Sequence[Job], parallel: int) -> list[list[Job]]:
    """Assign each job to the kernel with the least work so far. `jobs` must be sorted, the longest first."""
    kernels = max(parallel, -(-len(jobs) // TOGETHER), sum(map(_work, jobs)) // WORTH_A_START)
    dealt: list[list[Job]] = [[] for _ in range(min(kernels, len(jobs)))]
    least = [(0, number) for number in range(len(dealt))]  # a heap
    for job in jobs:
        work, number = least[0]
        dealt[number].append(job)
        heapreplace(least, (work + _work(job), number))
    return dealt


def _work(job: Job) -> int:
    return len(job.page.resources) * len(job.loads)
