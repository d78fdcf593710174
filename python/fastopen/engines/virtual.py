"""The virtual engine: a pinned Linux kernel in virtual time, one to a core."""

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from heapq import heapify, heapreplace
from itertools import groupby
from pathlib import Path
from typing import Final

from fastopen.contract import Job
from fastopen.engines.base import Bodies, Event
from fastopen.engines.host import WorldEngine
from fastopen.engines.kernels import Kernel

# The most jobs of a kernel.
TOGETHER: Final = 10
# Requests that a kernel has to make at least, where there are as many for each core: its start costs as much
# as some 160.
WORTH_A_START: Final = 1600


class VirtualEngine(WorldEngine):
    """Worlds on User-Mode Linux, where waiting costs no time and the same job gives the same bytes.

    Small jobs share a kernel, one after another: starting one costs as much as several loads, and a job gives
    the same bytes wherever it stands among them. It stays on one core: of its processes only one runs at a
    time, and waking one elsewhere takes longer.
    """

    def __init__(
        self, program: Path, kernel: Kernel, parallel: int | None = None, first_core: int | None = None
    ) -> None:
        """`first_core` is the number of the core that is used first, of those that there are."""
        command: list[str | Path] = [program, "--kernel", kernel.path, *kernel.manifest.arguments]
        cores = sorted(os.sched_getaffinity(0))
        # Two runs at once start on different cores.
        first = (os.getpid() if first_core is None else first_core) % len(cores)
        super().__init__(command, len(cores) if parallel is None else parallel, cores[first:] + cores[:first])

    def run(self, jobs: Iterable[Job], bodies: Bodies, within_s: float | None = None) -> Generator[Event]:
        """See Engine. The longest jobs come first, so that no core is without work for long at the end."""
        return self.run_together(batches(jobs, self.parallel), bodies, within_s)


def batches(asked: Iterable[Job], parallel: int) -> Iterator[Sequence[Job]]:
    """The jobs, the longest first, dealt to as few kernels as keep `parallel` cores busy.

    A client that does not do the same each time may remember, and takes far longer to start than a kernel: it
    has one for each job.
    """
    jobs = sorted(asked, key=_work, reverse=True)
    for deterministic, alike in groupby(jobs, key=lambda job: job.client.type.deterministic):
        of_kind = list(alike)
        yield from _dealt(of_kind, parallel) if deterministic else ([job] for job in of_kind)


def _dealt(jobs: Sequence[Job], parallel: int) -> list[list[Job]]:
    """Each job goes to the kernel with the least to do so far: all have about as much in the end (LPT)."""
    kernels = max(parallel, -(-len(jobs) // TOGETHER), sum(map(_work, jobs)) // WORTH_A_START)
    dealt: list[list[Job]] = [[] for _ in range(min(kernels, len(jobs)))]
    least = [(0, number) for number in range(len(dealt))]
    heapify(least)
    for job in jobs:
        work, number = least[0]
        dealt[number].append(job)
        heapreplace(least, (work + _work(job), number))
    return dealt


def _work(job: Job) -> int:
    """About how much there is to do: requests."""
    return len(job.page.resources) * len(job.loads)
