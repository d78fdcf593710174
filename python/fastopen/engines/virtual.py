"""The virtual engine: a pinned Linux kernel in virtual time, one to a core."""

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Final

from fastopen.contract import Job
from fastopen.engines.base import Bodies, Event
from fastopen.engines.host import WorldEngine
from fastopen.kernels import Kernel

# The most jobs of a kernel: its start is then less than a hundredth of what they take.
TOGETHER: Final = 10
# At least so many kernels one after another on each core: else one core works alone at the end.
ROUNDS: Final = 4


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
    """The jobs, the longest first, several together where there are many for each core.

    A client that does not do the same each time may remember, and takes far longer to start than a kernel: it
    has one for each job.
    """
    jobs = sorted(asked, key=_work, reverse=True)
    size = min(TOGETHER, len(jobs) // (parallel * ROUNDS))
    for deterministic, alike in groupby(jobs, key=lambda job: job.client.type.deterministic):
        left = iter(alike)
        while batch := list(islice(left, max(size, 1) if deterministic else 1)):
            yield batch


def _work(job: Job) -> int:
    """About how much there is to do: requests."""
    return len(job.page.resources) * len(job.loads)
