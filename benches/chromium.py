"""Measure Chromium's overhead on the host engine: the wall time of a load minus its page load time.

Run by `make bench`, or as `.venv/bin/python benches/chromium.py`; needs Chromium. One world runs at a time.
The wall time of a load is the time between the previous record (for the first load, the world's record) and
the load's record. The first load's time thus includes the browser's start. Loads without Fast Open and with
warm cookies alternate. Prints medians over several worlds (of later loads' overhead also quartiles), the load
average, and the processor time of a world's processes for each load, which depends less on other programs."""

import json
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from fastopen.common.errors import MachineError
from fastopen.contract import CONTRACT
from fastopen.contract.client_kinds import CHROMIUM
from fastopen.engines import find_program
from fastopen.pages import load_pages

PAGES: Final = ("example", "wikipedia-tcp", "cs244-2015")
WORLDS: Final = 3
LOADS: Final = 9
RTT_US: Final = 100_000
LINK: Final = {
    "down": {"rate_bit_per_s": 4_000_000, "queue_bytes": 256_000},
    "up": {"rate_bit_per_s": 256_000, "queue_bytes": 256_000},
}


@dataclass(frozen=True)
class World:
    """Times of the loads of a world, in milliseconds."""

    plts: list[float]
    first_beyond: float
    """Overhead of the first load: time from the world's record to the load's, minus the page load time."""
    later_beyond: list[float]
    """Overhead of each later load: time since the previous load's record, minus the page load time."""
    processor: float
    """Processor time of the world and all its processes."""


def main() -> None:
    """Load each page in several worlds, and print a table of the times."""
    try:
        CHROMIUM.find()
    except MachineError as error:
        print(f"Chromium on host: not measured: {error}")
        return
    print(f"Chromium on host, one world at a time; load average {os.getloadavg()[0]:.1f}\n")
    columns = ("page", "PLT, ms", "a load beyond its PLT, ms", "the first, with the browser's start")
    print(f"| {' | '.join(columns)} | processor, ms a load |\n{'|---' * 5}|")
    for page in PAGES:
        worlds = [world(page) for _ in range(WORLDS)]
        later = [beyond for one in worlds for beyond in one.later_beyond]
        plt = statistics.median(plt for one in worlds for plt in one.plts)
        first = statistics.median(one.first_beyond for one in worlds)
        processor = statistics.median(one.processor for one in worlds) / LOADS
        print(f"| {page} | {plt:.0f} | {spread(later)} | {first:.0f} | {processor:.0f} |", flush=True)


def spread(times_ms: Sequence[float]) -> str:
    """Return the median and the quartiles of times as text: `12 (10 to 15)`."""
    low, middle, high = statistics.quantiles(times_ms, n=4)
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


def world(page: str) -> World:
    """Load the page LOADS times in a new world, and return the times."""
    plts: list[float] = []
    at: list[float] = []
    before = processor_ms()
    with subprocess.Popen(
        [find_program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(job(page))
        process.stdin.close()
        for line in process.stdout:
            record: dict[str, Any] = json.loads(line)
            if record["type"] == "load" and record["plt_ns"] is not None:
                plts.append(record["plt_ns"] / 1e6)
            if record["type"] in ("world", "load"):
                at.append(time.perf_counter() * 1e3)
    beyond = [end - start - plt for (start, end), plt in zip(pairwise(at), plts, strict=True)]
    return World(plts, beyond[0], beyond[1:], processor_ms() - before)


def processor_ms() -> float:
    """Return the processor time in ms of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3


def job(page: str) -> str:
    """Return a job of loads in Chromium. Its tolerances are so wide that a busy machine causes no error."""
    arms = [{"transport": "tcp"}, {"transport": "tfo", "cookies": "warm"}]
    return json.dumps(
        {
            "contract": CONTRACT,
            "id": "bench",
            "seed": 1,
            "page": load_pages([page])[0].page.model_dump(mode="json"),
            "network": {"rtt_us": RTT_US, **LINK},
            "client": {"kind": "chromium"},
            "origins": {"bodies": "synthetic"},
            "loads": [{"id": str(number), **arms[number % 2]} for number in range(LOADS)],
            "tolerance": {"rtt_us": 50_000, "rate_fraction": 0.9, "late_us": 10_000_000},
        }
    )


if __name__ == "__main__":
    main()
