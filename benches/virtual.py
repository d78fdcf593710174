"""Measure the speed of the virtual engine: start, one load, many loads, and the paper's experiment.

Run by `make bench`, or as `.venv/bin/python benches/virtual.py`; needs an installed kernel. Wall times are
medians of repeats. They depend on the machine's other work, so the processor time of the kernel and all its
processes is printed too. The last column is the sum of page load times divided by wall time."""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastopen.common.errors import MachineError
from fastopen.contract import CONTRACT
from fastopen.engines import find_program, kernels
from fastopen.pages import load_pages

RTT_US = 100_000
REPEATS = 5
LOADS = 20
LINK = {
    "down": {"rate_bit_per_s": 4_000_000, "queue_bytes": 256_000},
    "up": {"rate_bit_per_s": 256_000, "queue_bytes": 256_000},
}
FASTOPEN = Path(sys.executable).with_name("fastopen")


@dataclass(frozen=True)
class Measured:
    """Times of a run of a command, in seconds."""

    wall: float
    cpu: float
    first_load: float
    """The time from the start to the record of the first load; 0 if there is none."""
    plts: float
    """The sum of the page load times."""


def main() -> None:
    """Measure each task, and print a row for each."""
    try:
        kernel = kernels.find(None)
    except MachineError as error:
        print(f"virtual engine: not measured: {error}")
        return
    # Pin the kernel to one core, as the engine does.
    core = max(os.sched_getaffinity(0))
    world: list[str | Path] = [find_program(), "--kernel", kernel.path, *kernel.manifest.arguments]
    print(f"The virtual engine, kernel {kernel.manifest.name}\n")
    print("| what | wall, ms | processor, ms | times real time |\n|---|---|---|---|")
    one = [measured(world, job("cs244-2015", 1), plts_of_records, core) for _ in range(REPEATS)]
    row("boot to the first load's record (44 resources, 7 hosts)", middle(one).first_load)
    growth = {}
    for loads in (1, 101, 1001):
        repeats = REPEATS if loads < 1000 else 1
        runs = [measured(world, job("cs244-2015", loads), plts_of_records, core) for _ in range(repeats)]
        growth[loads] = middle(runs)
        row_of(f"{loads} {'load' if loads == 1 else 'loads'} of it, boot and all", growth[loads])
    apart = [word for word in world if word != "direct-init"]
    runs = [measured(apart, job("cs244-2015", 101), plts_of_records, core) for _ in range(REPEATS)]
    row_of("101 loads of it, the program in a process of its own", middle(runs))
    for few, many in ((1, 101), (101, 1001)):
        row_of(f"each load between the {few}st and the {many}st", each(growth[few], growth[many], many - few))
    versions(world, core)
    options = ("--engine", "virtual", "--no-keep", "--json")
    reproduce: list[str | Path] = [FASTOPEN, "reproduce", "radhakrishnan2011", *options]
    paper = [measured(reproduce, "", plts_of_results) for _ in range(REPEATS)]
    row_of("the paper's experiment, 36 loads, with the command's own start", middle(paper))


def versions(world: Sequence[str | Path], core: int) -> None:
    """Print rows for HTTP/2 and HTTP/3 loads, measured alternately, and the ratio of their wall times."""
    for page in ("wikipedia-tcp", "amazon"):
        runs: dict[str, list[Measured]] = {"2": [], "3": []}
        for _ in range(REPEATS):
            for version, of_version in runs.items():
                few, many = (
                    measured(world, over_tls(page, version, loads), plts_of_records, core)
                    for loads in (1, 1 + LOADS)
                )
                of_version.append(each(few, many, LOADS))
        for version, of_version in runs.items():
            row_of(f"a load of {page} over TLS and HTTP/{version}", middle(of_version))
        ratio = statistics.median(
            three.wall / two.wall for two, three in zip(runs["2"], runs["3"], strict=True)
        )
        print(f"| HTTP/3 of HTTP/2, wall | {ratio:.2f} | | |", flush=True)


def row_of(what: str, run: Measured) -> None:
    """Print a row with the times of a run."""
    row(what, run.wall, f"{run.cpu * 1000:.0f} | {run.plts / run.wall:.0f}")


def row(what: str, wall_s: float, rest: str = " | ") -> None:
    """Print a row of the table with this wall time in seconds and `rest` as the other columns."""
    print(f"| {what} | {wall_s * 1000:.0f} | {rest} |", flush=True)


def middle(runs: Sequence[Measured]) -> Measured:
    """Return the median of each time over several runs."""
    return Measured(
        wall=statistics.median(run.wall for run in runs),
        cpu=statistics.median(run.cpu for run in runs),
        first_load=statistics.median(run.first_load for run in runs),
        plts=statistics.median(run.plts for run in runs),
    )


def each(few: Measured, many: Measured, count: int) -> Measured:
    """Return (`many` - `few`) / `count`: the times per load, if `many` has `count` more loads than `few`."""
    return Measured(
        wall=(many.wall - few.wall) / count,
        cpu=(many.cpu - few.cpu) / count,
        first_load=0.0,
        plts=(many.plts - few.plts) / count,
    )


def job(page: str, loads: int) -> str:
    """Return a job of `loads` loads without Fast Open and without keep-alive."""
    return json.dumps(
        {
            "contract": CONTRACT,
            "id": "bench",
            "seed": 1,
            "page": load_pages([page])[0].page.model_dump(mode="json"),
            "network": {"rtt_us": RTT_US, **LINK},
            "client": {"keep_alive": False},
            "loads": [{"id": str(number), "transport": "tcp"} for number in range(loads)],
        }
    )


def over_tls(page: str, http: str, loads: int) -> str:
    """Return a job of `loads` loads over TLS with this version of HTTP."""
    return json.dumps(
        {
            **json.loads(job(page, 0)),
            "client": {},
            "origins": {"http": http},
            "tls": {"key_share": "x25519"},
            "loads": [{"id": str(number), "transport": "tls"} for number in range(loads)],
        }
    )


def plts_of_records(lines: Sequence[str]) -> float:
    """Return the sum of page load times in the records of a world, in seconds."""
    records = map(json.loads, lines)
    return sum(float(record["plt_ns"]) / 1e9 for record in records if record["type"] == "load")


def plts_of_results(lines: Sequence[str]) -> float:
    """Estimate the sum of page load times in s from the median and load count of each cell of the results."""
    cells = json.loads("".join(lines))["cells"]
    return sum(float(cell["plt_ms_median"]) * int(cell["loads"]) for cell in cells) / 1e3


def measured(
    command: Sequence[str | Path],
    text: str,
    plts: Callable[[Sequence[str]], float],
    core: int | None = None,
) -> Measured:
    """Run a command with `text` on its standard input, on this `core` if it is given. Return its times.
    `plts` computes the sum of page load times from the lines of output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    first = 0.0
    lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        process.stdin.write(text)
        process.stdin.close()
        for line in process.stdout:
            if not first and line.startswith('{"type":"load"'):
                first = time.perf_counter() - started
            lines.append(line)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(wall, cpu, first, plts(lines))


if __name__ == "__main__":
    main()
