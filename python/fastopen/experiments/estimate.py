"""How long a plan will take, roughly, from sizes and round trips: to warn before a long sweep begins."""

from collections.abc import Mapping
from math import ceil
from typing import Final

from fastopen.contract import EngineName, Job
from fastopen.experiments.plan import Plan, transfer_s

# Building and leaving a world (docs/benchmarks.md).
WORLD_S: Final = 0.1
# A load in virtual time takes processor time alone: of a page of this many resources, so long.
VIRTUAL_LOAD_S: Final = 0.04
VIRTUAL_LOAD_RESOURCES: Final = 44


def estimated_s(plan: Plan, parallel: Mapping[EngineName, int]) -> float:
    """Seconds of wall time for all jobs, with so many worlds at once on each engine; right to a factor."""
    total = 0.0
    for engine in plan.engines:
        took = [_job_s(planned.job, engine) for planned in plan.jobs if planned.comparison.engine == engine]
        total += max(sum(took) / parallel.get(engine, 1), max(took, default=0.0))
    return total


def _job_s(job: Job, engine: EngineName) -> float:
    if engine == "virtual":
        resource_s = VIRTUAL_LOAD_S / VIRTUAL_LOAD_RESOURCES + job.client.type.virtual_resource_s
        each_s = job.client.type.virtual_load_s + resource_s * len(job.page.resources)
        return WORLD_S + len(job.loads) * each_s
    return WORLD_S + len(job.loads) * (load_s(job) + job.client.type.start_s)


def load_s(job: Job) -> float:
    """Seconds that one load takes: its bytes at the link's rate, its rounds of requests, its processing.

    A round is a request and its answer, and a handshake where connections are not kept.
    """
    page, client = job.page, job.client
    at_once = min(client.connections_per_host * len(page.hosts()), client.connections_total)
    depth: list[int] = []
    for resource in page.resources:
        depth.append(1 if resource.initiator is None else depth[resource.initiator] + 1)
    rounds = max(max(depth), ceil(len(page.resources) / at_once))
    trips = rounds * (1 if client.keep_alive else 2) + 1
    processing_us = page.load_event_processing_us if client.profile == "browser" else 0
    return transfer_s(page, job.network) + trips * job.network.rtt_us / 1e6 + processing_us / 1e6
