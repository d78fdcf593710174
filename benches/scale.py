"""Measure writing, opening, showing and reporting a run of 100,000 loads with 5,000,000 requests.

With `--shards 200`, it writes the run as 200 shards and measures merging them.

The loads are made up, a few for each cell. The store writes the loads of the first and the last repeats as in
any run. The loads between are copies of the first ones, made in SQL to save time."""

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))

from fastopen.contract import LoadRecord
from fastopen.experiments import Plan, PlannedJob, Shard
from fastopen.runs import RunStore
from made_up_run import ENVIRONMENT, load_data, made_up_page, made_up_plan

PAGES: Final = 4
RTTS_MS: Final = tuple(range(20, 220, 20))
REQUESTS: Final = 50
HOSTS: Final = tuple(f"host{number}.test" for number in range(7))
VARIANTS: Final = 4
# Copies the first VARIANTS loads of each cell, in turn, to the repeats between the first and the last ones.
COPY_LOADS: Final = f"""
CREATE TEMP TABLE first AS SELECT loads.*, record_zlib FROM loads JOIN records ON load = number
    WHERE repeat < {VARIANTS};
CREATE INDEX of_repeat ON first (repeat, cell);
INSERT INTO loads SELECT NULL, jobs.number, first.id, 1, cell, jobs.repeat, valid, plt_ns, requests,
    connections, syn_data_connections, handshakes_ns, retransmitted, started_unix_ms, invalid
    FROM jobs JOIN cells USING (page, network, setup, engine)
    JOIN first ON cell = cells.id AND first.repeat = jobs.repeat % {VARIANTS}
    WHERE jobs.repeat BETWEEN {VARIANTS} AND (SELECT max(repeat) - {VARIANTS} FROM jobs) ORDER BY jobs.number;
INSERT INTO records SELECT loads.number, record_zlib
    FROM loads JOIN first ON first.cell = loads.cell AND first.repeat = loads.repeat % {VARIANTS}
    WHERE loads.repeat >= {VARIANTS} ORDER BY loads.number;
"""  # noqa: S608  # our own text
# Runs a command and prints its wall and processor time and peak memory as the last line of standard error.
CHILD: Final = """
import resource, sys, time
sys.argv = ["fastopen", *sys.argv[1:]]
from fastopen.cli import main
started = time.monotonic()
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    took = time.monotonic() - started
    # Not ru_maxrss, which a process inherits from its parent.
    with open("/proc/self/status") as status:
        peak_kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    sys.stderr.write(f"\\n{took} {used.ru_utime + used.ru_stime} {peak_kib * 1024}\\n")
"""


def made_plan(loads: int) -> Plan:
    """Return a plan of about this many loads: pages of 50 requests to 7 hosts, 10 RTTs, three arms."""
    pages = [made_up_page(f"page-{number}", requests=REQUESTS, hosts=HOSTS) for number in range(PAGES)]
    return made_up_plan(pages, rtts_ms=RTTS_MS, repeats=max(1, loads // (PAGES * len(RTTS_MS) * 3)))


def variants(plan: Plan) -> dict[int, Iterator[tuple[LoadRecord, str]]]:
    """Return for each cell an endless iterator over VARIANTS different loads, as records and as JSON text."""
    made: dict[int, list[tuple[LoadRecord, str]]] = {}
    for planned in plan.jobs:
        for load in planned.job.loads:
            of_cell = made.setdefault(planned.cells[load.id], [])
            if len(of_cell) < VARIANTS:
                data = load_data(planned, load.cookies, len(of_cell))
                data.update(id=load.id, transport=load.transport, cookies=load.cookies)
                raw = json.dumps(data)
                of_cell.append((LoadRecord.model_validate_json(raw), raw))
    return {cell: cycle(of_cell) for cell, of_cell in made.items()}


def written(folder: Path, loads: int) -> tuple[int, list[float]]:
    """Write a run of about `loads` loads. Return their exact number, and the seconds that it took to write
    each load, without the loads that were copied in SQL."""
    plan = made_plan(loads)
    of_cell = variants(plan)
    last = max(planned.repeat for planned in plan.jobs) - VARIANTS
    with RunStore.create(folder, plan, ENVIRONMENT, {}) as store:
        took_s = fill(store, (planned for planned in plan.jobs if planned.repeat < VARIANTS), of_cell)
    with closing(sqlite3.connect(folder / "run.sqlite")) as database:
        database.executescript(f"BEGIN; {COPY_LOADS} COMMIT;")
    with RunStore.resume(folder) as store:
        late = (planned for planned in plan.jobs if planned.repeat > max(last, VARIANTS - 1))
        took_s += fill(store, late, of_cell)
        store.set_status("finished")
    return plan.loads(), took_s


def fill(
    store: RunStore, jobs: Iterable[PlannedJob], of_cell: dict[int, Iterator[tuple[LoadRecord, str]]]
) -> list[float]:
    """Write the loads of the jobs. Return the list of seconds that it took to write each load."""
    took_s: list[float] = []
    for planned in jobs:
        for load in planned.job.loads:
            record, raw = next(of_cell[planned.cells[load.id]])
            record = record.model_copy(update={"job": planned.job.id})
            started = time.perf_counter()
            store.add_load(planned, record, raw)
            took_s.append(time.perf_counter() - started)
    return took_s


def merging(folder: Path, loads: int, shards: int) -> None:
    """Write the shards, and print time and memory of merging them."""
    plan = made_plan(loads)
    of_cell = variants(plan)
    for index in range(1, shards + 1):
        shard = Shard(shards, index)
        part, options = shard.of(plan), {"shard": str(shard)}
        with RunStore.create(folder / "shards" / str(index), part, ENVIRONMENT, options) as store:
            fill(store, part.jobs, of_cell)
            store.set_status("finished")
    wall, processor, memory = measured("merge", str(folder / "shards"), "-o", str(folder / "whole"), "-q")
    size = (folder / "whole" / "run.sqlite").stat().st_size / 1e6
    print(f"{plan.loads():,} loads in {shards} shards, {size:.0f} MB; {os.cpu_count()} cores\n")
    print("| what | wall | processor | memory |\n|---|---|---|---|")
    print(f"| `merge` | {wall:.1f} s | {processor:.1f} s | {memory / 1e6:.0f} MB |")


def measured(*arguments: str) -> tuple[float, float, int]:
    """Run a command of fastopen. Return its wall and processor time in seconds and peak memory in bytes."""
    command = [sys.executable, "-c", CHILD, *arguments]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    wall, processor, memory = done.stderr.split("\n")[-2].split()
    return float(wall), float(processor), int(memory)


def print_rows(folder: Path, exports: Sequence[str]) -> None:
    """Print the time and memory of each command that reads the run."""
    report = folder / "report.html"
    commands = {
        "opening (`ls`)": ("ls", str(folder)),
        "table (`show`)": ("show", str(folder)),
        "report (`report`)": ("report", str(folder), "--output", str(report)),
    }
    for form in exports:
        commands[f"`export --format {form}`"] = ("export", str(folder), "-q", "-f", form)
    for name, command in commands.items():
        wall, processor, memory = measured(*command)
        print(f"| {name} | {wall:.1f} s | {processor:.1f} s | {memory / 1e6:.0f} MB |")
    print(f"\nThe report has {report.stat().st_size / 1e6:.1f} MB.")


def main() -> None:
    """Write a run, or use an existing one, and print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=100_000)
    parser.add_argument("--run", type=Path, help="folder for the run; an existing run there is used")
    parser.add_argument("--export", action="append", default=[], choices=["parquet", "csv"])
    parser.add_argument("--shards", type=int, default=0, help="write this number of shards, and merge them")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if asked.shards:
            merging(Path(temporary), asked.loads, asked.shards)
            return
        folder = asked.run or Path(temporary) / "run"
        if not folder.exists():
            loads, took_s = written(folder, asked.loads)
            size = (folder / "run.sqlite").stat().st_size / 1e6
            print(f"{loads:,} loads, {loads * REQUESTS:,} requests, {size:.0f} MB; {os.cpu_count()} cores")
            early, late = median(took_s[:1000]), median(took_s[-1000:])
            print(f"Writing a load: {1000 * early:.2f} ms at first, {1000 * late:.2f} ms in the end.\n")
        print("| what | wall | processor | memory |\n|---|---|---|---|")
        print_rows(folder, asked.export)


main()
