"""Measures what the virtual engine costs: start, loads, growth with their number, and the paper's whole experiment.

Run by `make bench`, or as `.venv/bin/python benches/virtual.py`; needs an installed kernel. Wall times are medians of
repeats; processor time (of the kernel and all its processes) stands beside them, since wall time is the machine's mood.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from fastopen import kernels
from fastopen.engines import find_program
from fastopen.errors import MachineError
from fastopen.pages import load_pages

RTT_US = 100_000
REPEATS = 5
LINK = {
    "down": {"rate_bit_per_s": 4_000_000, "queue_bytes": 256_000},
    "up": {"rate_bit_per_s": 256_000, "queue_bytes": 256_000},
}
FASTOPEN = Path(sys.executable).with_name("fastopen")


def main() -> None:
    """Prints the table."""
    try:
        kernel = kernels.find(None)
    except MachineError as error:
        print(f"virtual engine: not measured: {error}")
        return
    command = [find_program(), "--kernel", kernel.path, *kernel.manifest.arguments]
    print(f"The virtual engine, kernel {kernel.manifest.name}\n")
    print("| what | wall, ms | processor, ms |\n|---|---|---|")
    one = [measured(command, job("cs244-2015", 1), first_load=True) for _ in range(REPEATS)]
    row("boot to the first load's record (44 resources, 7 hosts)", [first for _, _, first in one], None)
    growth = {}
    for loads in (1, 101, 1001):
        runs = [measured(command, job("cs244-2015", loads)) for _ in range(REPEATS if loads < 1000 else 1)]
        growth[loads] = [statistics.median(run[place] for run in runs) for place in (0, 1)]
        row(
            f"{loads} {'load' if loads == 1 else 'loads'} of it, boot and all",
            *[[run[place] for run in runs] for place in (0, 1)],
        )
    for few, many in ((1, 101), (101, 1001)):
        wall, cpu = ((growth[many][place] - growth[few][place]) / (many - few) for place in (0, 1))
        row(f"each load between the {few}st and the {many}st", [wall], [cpu])
    paper = [
        measured(
            [FASTOPEN, "reproduce", "radhakrishnan2011", "--engine", "virtual", "--no-keep", "--json"], ""
        )
        for _ in range(REPEATS)
    ]
    row(
        "the paper's experiment, 36 loads, with the command's own start",
        *[[run[place] for run in paper] for place in (0, 1)],
    )


def row(what: str, wall_s: Sequence[float], cpu_s: Sequence[float] | None) -> None:
    """One line of the table."""
    cpu = "" if cpu_s is None else f"{statistics.median(cpu_s) * 1000:.0f}"
    print(f"| {what} | {statistics.median(wall_s) * 1000:.0f} | {cpu} |", flush=True)


def job(page: str, loads: int) -> str:
    """A job of that many loads without Fast Open and without keep-alive."""
    return json.dumps(
        {
            "contract": 1,
            "id": "bench",
            "seed": 1,
            "page": load_pages([page])[0].page.model_dump(mode="json"),
            "network": {"rtt_us": RTT_US, **LINK},
            "client": {"keep_alive": False},
            "loads": [{"id": str(number), "transport": "tcp"} for number in range(loads)],
        }
    )


def measured(
    command: Sequence[str | Path], text: str, first_load: bool = False
) -> tuple[float, float, float]:
    """Wall and processor time in seconds, and the wall time until the first record of a load."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    first = 0.0
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(text)
        process.stdin.close()
        for line in process.stdout:
            if first_load and not first and line.startswith('{"type":"load"'):
                first = time.perf_counter() - begun
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, first


if __name__ == "__main__":
    main()
