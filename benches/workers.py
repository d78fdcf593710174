"""Measure a run on two Dask workers that are killed again and again, and check that no load is lost.

Run as `.venv/bin/python benches/workers.py`; needs Dask (`pip install distributed`) and a kernel of the
virtual engine. For comparison, the same run is first done on this machine with two kernels at once. Processor
times include all processes that have ended, except kernels that a killed worker left behind."""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from fastopen.cli import main as fastopen
from fastopen.runs import RunStore

NETWORK: Final = ("--engine", "virtual", "--rtt", "20ms,50ms,100ms", "--loss", "1%", "--seed", "1")


def processor_s() -> float:
    """Return the processor time in seconds of this process and of its descendants that have ended."""
    return sum(os.times()[:4])


def timed(folder: Path, page: str, repeats: int, *options: str) -> float:
    """Run `page` with NETWORK and `options`, store the run in `folder`, and return the wall time in s."""
    sys.argv = ["fastopen", "run", page, *NETWORK, "-n", str(repeats), "--json", "-q", "-o", str(folder)]
    sys.argv += options
    started = time.monotonic()
    try:
        fastopen()
    except SystemExit as ended:
        if ended.code:
            raise
    return time.monotonic() - started


def records(folder: Path) -> tuple[int, dict[tuple[str, str], bytes]]:
    """Return a run's number of attempts at loads, and its JSON records, keyed by ids of job and load."""
    with RunStore.open(folder) as run:
        return run.attempts_done(), {(r.job, r.load): run.load_json(r.job, r.load) for r in run.loads()}


def main() -> None:
    """Run the experiment locally and on the workers. Print both times, and whether the records are equal."""
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", default="example", help="a packaged page or a file")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--kills", type=int, default=5)
    asked = parser.parse_args()
    # The seconds from each kill until there were two workers again.
    missing_s: list[float] = []
    over = threading.Event()

    def workers_of(client: Any) -> list[int]:
        return sorted(client.run(os.getpid, on_error="ignore").values())

    def kill(client: Any, every_s: float) -> None:
        while len(missing_s) < asked.kills and not over.wait(random.uniform(0.5, 1.5) * every_s):
            workers = workers_of(client)
            os.kill(random.choice(workers), signal.SIGKILL)
            killed_at = time.monotonic()
            while not over.wait(0.5):
                now = workers_of(client)
                if len(now) == 2 and now != workers:
                    break
            missing_s.append(time.monotonic() - killed_at)

    with tempfile.TemporaryDirectory() as temporary:
        here, there = Path(temporary) / "here", Path(temporary) / "there"
        began = processor_s()
        took_here = timed(here, asked.page, asked.repeats, "--jobs", "2")
        used_here, began = processor_s() - began, processor_s()
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50)
        with cluster, Client(cluster, set_as_default=False) as client:
            killer = threading.Thread(target=kill, args=(client, took_here / (asked.kills + 1)))
            killer.start()
            took_there = timed(there, asked.page, asked.repeats, "--workers", cluster.scheduler_address)
            over.set()
            killer.join()
            # Read and print before the cluster is closed, because closing it may fail on a busy machine.
            (attempts, one), (again, other) = records(here), records(there)
            print(
                f"\n{len(one)} loads, {attempts} attempts here, {again} there; {len(missing_s)} kills\n"
                f"same records: {one == other}\n"
                f"{took_here:.1f} s here, {took_there:.1f} s on workers, of which one was missing for "
                f"{sum(missing_s):.1f} s",
                file=sys.stderr,
            )
        used_there = processor_s() - began
        print(f"processor: {used_here:.1f} s here, {used_there:.1f} s with workers", file=sys.stderr)


if __name__ == "__main__":
    main()
