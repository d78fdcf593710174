"""Estimate a run's duration from page sizes and RTTs, and refine the estimate as page loads finish."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from fastopen.contract import EngineName, Job
from fastopen.experiments.plan import Plan, transfer_s

# Time to build and remove a world, as measured by the benchmarks.
WORLD_S: Final = 0.1
# A load in virtual time takes only processor time: VIRTUAL_LOAD_S for VIRTUAL_LOAD_RESOURCES resources.
VIRTUAL_LOAD_S: Final = 0.04
VIRTUAL_LOAD_RESOURCES: Final = 44


def estimated_s(
    plan: Plan, parallel: Mapping[EngineName, int], slower: Mapping[EngineName, float] | None = None
) -> float:
    """Estimate the seconds that all jobs of a plan take. `parallel` maps engines to the number of jobs that
    each runs at once. `slower` maps engines to the factor by which the machine's other tasks slow them."""
    total = 0.0
    for engine in plan.engines:
        took = [_job_s(planned.job, engine) for planned in plan.jobs if planned.comparison.engine == engine]
        of_engine = max(sum(took) / parallel.get(engine, 1), max(took, default=0.0))
        total += of_engine * (slower or {}).get(engine, 1.0)
    return total


def slowed_down(load_average: float, cores: int, at_once: int) -> float:
    """Return the factor, at least 1, by which the machine's other tasks slow down `at_once` CPU-bound tasks.
    `load_average` is the load average of the other tasks."""
    return max(1.0, (load_average + min(at_once, cores)) / cores)


@dataclass
class Pace:
    """A prediction of a run's remaining seconds. `costs` maps a job's id to the estimated seconds of one page
    load of the job. `done` and `left` are the sums of these estimates over finished and unfinished loads. The
    prediction is `left`, multiplied by the real time so far and divided by `done`."""

    costs: Mapping[str, float]
    left: float
    done: float = 0.0
    """Estimated seconds of the finished loads. A load counts again each time it is repeated."""
    _seen: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of(cls, plan: Plan, pending: Mapping[str, list[str]]) -> "Pace":
        """Return a prediction for the rest of a run. `pending` maps ids of jobs to ids of loads to run."""
        rest = (planned for planned in plan.jobs if planned.job.id in pending)
        costs = {one.job.id: _job_s(one.job, one.comparison.engine) / len(one.job.loads) for one in rest}
        return cls(costs, sum(cost * len(pending[job]) for job, cost in costs.items()))

    def finished(self, job: str, load: str) -> None:
        """Record that a load of a job has finished."""
        cost = self.costs.get(job, 0.0)
        self.done += cost
        if (job, load) not in self._seen:
            self._seen.add((job, load))
            self.left -= cost

    def left_s(self, elapsed_s: float) -> float | None:
        """Return the remaining seconds after `elapsed_s` seconds of a run; None if no load has finished."""
        return elapsed_s * self.left / self.done if self.done else None


def _job_s(job: Job, engine: EngineName) -> float:
    page, client = job.page, job.client
    if engine == "virtual":
        resource_s = VIRTUAL_LOAD_S / VIRTUAL_LOAD_RESOURCES + client.type.virtual_resource_s
        return WORLD_S + len(job.loads) * (client.type.virtual_load_s + resource_s * len(page.resources))
    # In real time, transfer, the round trips of requests and handshakes, and processing take time.
    at_once = min(client.connections_per_host * len(page.hosts()), client.connections_total)
    depth: list[int] = []
    for resource in page.resources:
        depth.append(1 if resource.initiator is None else depth[resource.initiator] + 1)
    rounds = max(max(depth), ceil(len(page.resources) / at_once))
    trips = rounds * (1 if client.keep_alive else 2) + 1
    processing_us = page.load_event_processing_us if client.profile == "browser" else 0
    load_s = transfer_s(page, job.network) + trips * job.network.rtt_us / 1e6 + processing_us / 1e6
    return WORLD_S + len(job.loads) * (load_s + client.type.start_s)
