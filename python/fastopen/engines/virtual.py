"""Run jobs on Linux kernels in virtual time, one kernel on each core."""

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from heapq import heapreplace
from itertools import groupby
from pathlib import Path
from typing import Final

from fastopen.contract import Job
from fastopen.engines.base import Bodies, Event
from fastopen.engines.host import WorldEngine
from fastopen.engines.kernels import Kernel

# The maximum number of jobs in one kernel.
TOGETHER: Final = 40
# The minimum number of requests in one kernel, if all cores have work. Starting a kernel takes as long as
# about 500 requests.
WORTH_A_START: Final = 5000


class VirtualEngine(WorldEngine):
    """An engine that runs jobs on User-Mode Linux in virtual time, so that waiting takes no real time.

    Small jobs run one after another on the same kernel, because starting a kernel takes as long as several
    page loads. The order of jobs does not change their results."""

    # A kernel stays on one core: one of its processes runs at a time, and waking one elsewhere is slower.

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
