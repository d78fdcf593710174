"""The virtual engine: a pinned Linux kernel in virtual time, one to a job, one job to a core."""

import os
from collections.abc import Generator, Iterable
from pathlib import Path

from fastopen.contract import Job
from fastopen.engines.base import Bodies, Event
from fastopen.engines.host import WorldEngine
from fastopen.kernels import Kernel


class VirtualEngine(WorldEngine):
    """Worlds on User-Mode Linux, where waiting costs no time and the same job gives the same bytes.

    Each job has a kernel of its own, so that nothing passes from job to job; what that costs says
    docs/benchmarks.md. It stays on one core: of its processes only one runs at a time, and waking one
    elsewhere takes longer.
    """

    def __init__(self, program: Path, kernel: Kernel, parallel: int | None = None) -> None:
        command: list[str | Path] = [program, "--kernel", kernel.path, *kernel.manifest.arguments]
        cores = sorted(os.sched_getaffinity(0))
        # Two runs at once start on different cores.
        first = os.getpid() % len(cores)
        super().__init__(command, len(cores) if parallel is None else parallel, cores[first:] + cores[:first])

    def run(self, jobs: Iterable[Job], bodies: Bodies) -> Generator[Event]:
        """See Engine. The longest jobs come first, so that no core is without work for long at the end."""
        return super().run(sorted(jobs, key=_work, reverse=True), bodies)


def _work(job: Job) -> int:
    """About how much there is to do: requests."""
    return len(job.page.resources) * len(job.loads)
