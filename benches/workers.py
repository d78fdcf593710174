"""Loads on two Dask workers that are killed again and again: what that costs, and that nothing is lost.

Run as `.venv/bin/python benches/workers.py`; needs `pip install 'fastopen[dask]'` and a kernel of the virtual
engine. The same run is done first on this machine with two kernels at once.
"""

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


def timed(folder: Path, page: str, repeats: int, *options: str) -> float:
    """Seconds that the run takes."""
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
    """How many attempts a run made, and its records."""
    with RunStore.open(folder) as run:
        return run.attempts_done(), {(r.job, r.load): run.load_json(r.job, r.load) for r in run.loads()}


def main() -> None:
    """Prints what both runs took, and whether they are the same."""
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", default="example", help="its name, or a file of it")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--kills", type=int, default=5)
    asked = parser.parse_args()
    killed: list[int] = []
    over = threading.Event()

    def kill(client: Any, every_s: float) -> None:
        while len(killed) < asked.kills and not over.wait(random.uniform(0.5, 1.5) * every_s):
            workers = sorted(client.run(os.getpid, on_error="ignore").values())
            # While both are dead nothing is measured but how long Dask takes to start one.
            if len(workers) == 2:
                os.kill(workers[0], signal.SIGKILL)
                killed.append(workers[0])

    with tempfile.TemporaryDirectory() as temporary:
        here, there = Path(temporary) / "here", Path(temporary) / "there"
        took_here = timed(here, asked.page, asked.repeats, "--jobs", "2")
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50)
        with cluster, Client(cluster, set_as_default=False) as client:
            killer = threading.Thread(target=kill, args=(client, took_here / (asked.kills + 1)))
            killer.start()
            took_there = timed(there, asked.page, asked.repeats, "--workers", cluster.scheduler_address)
            over.set()
            killer.join()
            # Before the cluster is closed, which may fail on a busy machine.
            (attempts, one), (again, other) = records(here), records(there)
            print(
                f"\n{len(one)} loads, {attempts} attempts here, {again} there; {len(killed)} kills\n"
                f"same records: {one == other}\n"
                f"{took_here:.1f} s here, {took_there:.1f} s on workers",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
