"""Make up runs for tests of figures and reports. A small model of a page loader computes their loads."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastopen.contract import LoadRecord, WorldRecord
from fastopen.experiments import Experiment, Plan, PlannedJob, make_plan
from fastopen.pages import Page
from fastopen.runs import RunStore
from places import GOLDEN

MS = 1_000_000
LATE = {"kind": "link_late", "detail": "a packet left the link down 9.1 ms later than due"}
ENVIRONMENT = {
    "started": "2026-01-01T00:00:00+00:00",
    "versions": {"fastopen": "0.0.1", "fastopen-world": "0.0.1", "python": "3.11.2"},
    "kernel": "6.18.0",
    "architecture": "x86_64",
    "processor": "A processor",
    "cores": 2,
    "memory_bytes": 8_000_000_000,
    "load_average": 0.5,
    "root": False,
    "worlds_at_once": 2,
}


def made_up_page(name: str, requests: int = 12, hosts: Sequence[str] = ("a.test", "b.test", "c.net")) -> Page:
    """Return a page: a document, then images that it initiates when complete, from each host in turn."""
    resources = [
        {
            "url": f"http://{hosts[number % len(hosts)]}/{number}.png",
            "type": "image" if number else "document",
            "body_bytes": 2000 * (number % 5 + 1),
            "initiator": None if number == 0 else 0,
            "processing_us": 4000 if number == 3 else 0,
        }
        for number in range(requests)
    ]
    data = {
        "format": "fastopen-page/1",
        "name": name,
        "url": f"http://{hosts[0]}/",
        "source": "made up",
        "initiators": "declared",
        "load_event_processing_us": 5000,
        "resources": resources,
    }
    return Page.model_validate_json(json.dumps(data))


def made_up_plan(
    pages: Sequence[Page],
    rtts_ms: Sequence[int] = (20, 100),
    repeats: int = 4,
    rates_mbit: Sequence[int] = (4,),
    **others: Any,
) -> Plan:
    """Return a plan that loads the pages over each RTT and rate. `others`: other fields of the experiment."""
    networks = [
        {
            "rtt_us": rtt * 1000,
            "down": {"rate_bit_per_s": rate * 1_000_000, "queue_bytes": 256_000},
            "up": {"rate_bit_per_s": 256_000, "queue_bytes": 256_000},
        }
        for rate in rates_mbit
        for rtt in rtts_ms
    ]
    names = [page.name for page in pages]
    data = {"name": "made-up", "pages": names, "networks": networks, "repeats": repeats, "seed": 7, **others}
    return make_plan(Experiment.model_validate_json(json.dumps(data)), pages)


def fill(store: RunStore, plan: Plan, *, late: Sequence[str] = ()) -> None:
    """Write all loads of the plan to a run's store. Warm loads of the jobs in `late` are invalid."""
    for planned in plan.jobs:
        store.add_world(*_world(planned))
        for number, load in enumerate(planned.job.loads):
            data = load_data(planned, load.cookies, number)
            data.update(id=load.id, transport=load.transport, cookies=load.cookies)
            if load.cookies == "warm" and planned.job.id in late:
                data.update(valid=False, invalid=[LATE])
            raw = json.dumps(data)
            store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
    store.set_status("finished")


def made_up_run(folder: Path, plan: Plan, *, late: Sequence[str] = ()) -> Path:
    """Write a finished run to a new folder. Return the folder."""
    with RunStore.create(folder, plan, ENVIRONMENT) as store:
        fill(store, plan, late=late)
    return folder


def _world(planned: PlannedJob) -> tuple[WorldRecord, str]:
    data = json.loads((GOLDEN / "world.json").read_text())
    rtt_us = planned.job.network.rtt_us
    rtt = {"asked": rtt_us, "expected": rtt_us + 100, "median": rtt_us + 150, "samples": 9}
    data.update(job=planned.job.id, measured={**data["measured"], "rtt_us": rtt})
    raw = json.dumps(data)
    return WorldRecord.model_validate_json(raw), raw


def load_data(planned: PlannedJob, cookies: str | None, number: int) -> dict[str, Any]:
    """Return a load with at most two connections to each host. A handshake takes one RTT, or 50 us if the SYN
    carries data. A response begins one RTT (and noise) after its request, and has the downlink's rate."""
    page, network = planned.job.page, planned.job.network
    rtt_ns = network.rtt_us * 1000
    noise_ns = planned.job.seed % 997 * 1000 + number
    per_byte_ns = 8_000_000_000 // (network.down.rate_bit_per_s or 10**9)
    golden: dict[str, Any] = json.loads((GOLDEN / "load.json").read_text())
    traced = planned.job.tcp_trace
    free: dict[str, list[tuple[int, int]]] = {}
    requests: list[dict[str, Any]] = []
    connections: list[dict[str, Any]] = []
    for index, resource in enumerate(page.resources):
        queued = 0 if index == 0 else requests[0]["end_ns"] + resource.processing_us * 1000
        of_host = free.setdefault(resource.host, [])
        begun: dict[str, int | None] = {"connect_start_ns": None, "connected_ns": None}
        if len(of_host) < 2:
            waits = cookies is None or (cookies == "cold" and not of_host)
            took = rtt_ns if waits else 50_000
            connection, sent = len(connections), queued + took
            connections.append(
                {
                    **golden["connections"][0],
                    "id": connection,
                    "host": resource.host,
                    "opened_ns": queued,
                    "connected_ns": sent,
                    "handshake_us": took // 1000 if waits else None,
                    "client": {**golden["connections"][0]["client"], "syn_data_acked": not waits},
                    "origin": {**golden["connections"][0]["origin"], "syn_data_acked": not waits},
                    "origin_samples": golden["connections"][0]["origin_samples"] if traced else [],
                }
            )
            begun = {"connect_start_ns": queued, "connected_ns": sent}
        else:
            free_at, connection = min(of_host)
            of_host.remove((free_at, connection))
            sent = max(queued, free_at)
        first = sent + rtt_ns + noise_ns
        end = first + resource.body_bytes * per_byte_ns
        of_host.append((end, connection))
        times = {"queued_ns": queued, "sent_ns": sent, "first_byte_ns": first, "end_ns": end}
        usual = {**golden["requests"][0], "resource": index, "connection": connection}
        usual["body_bytes"] = resource.body_bytes
        requests.append({**usual, **begun, **times})
    last = max(request["end_ns"] for request in requests)
    golden.update(
        job=planned.job.id,
        valid=True,
        invalid=[],
        plt_ns=last + page.load_event_processing_us * 1000,
        requests=requests,
        connections=connections,
    )
    return golden
