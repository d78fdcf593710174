"""Measure the processor time of writing a load to the store of results, and of finding it again.

Run as `.venv/bin/python benches/results_store.py`; needs a kernel of the virtual engine. The loads are real,
each with 44 requests; a job has three loads. All are written several times, each time to a new store, and
found several times. Finding a load includes parsing and checking its record, as when it is read from the
world program."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fastopen.engines import ResultsStore, StoredEngine, VirtualEngine, find_program, kernels, loads_in
from fastopen.engines.results_store import Result
from fastopen.workflows.engines import maker_of

ROUNDS: Final = 20
ASKED: Final = ("cs244-2015", "--engine", "virtual", "--rtt", "20ms,50ms,100ms,200ms", "-q", "--no-keep")
COMMAND: Final = "from fastopen.cli import main; main()"


def per_load_ms(work: Callable[[int], int]) -> float:
    """Call `work` with the number of each round. Return the milliseconds of processor time for each load in
    the fastest round. `work` returns its number of loads."""
    took = []
    for number in range(ROUNDS):
        started = time.process_time()
        loads = work(number)
        took.append(1000 * (time.process_time() - started) / loads)
    return min(took)


def main() -> None:
    """Fill a store, and print the processor times of writing its loads and of finding them."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        command = [sys.executable, "-c", COMMAND, "run", *ASKED, "--store", str(folder / "store")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        results = [Result.unpacked(path.read_bytes()) for path in (folder / "store").glob("??/*")]
        jobs = [result.job(f"job {number}") for number, result in enumerate(results)]
        loads = sum(len(job.loads) for job in jobs)
        size = sum(path.stat().st_size for path in (folder / "store").glob("??/*"))
        program, kernel = find_program(), kernels.find()
        maker = maker_of(program, kernel)

        def write(number: int) -> int:
            store = ResultsStore(folder / f"new-{number}")
            for result in results:
                store.put(result)
            return loads

        def find(_: int) -> int:
            store = ResultsStore(folder / "store")
            engine = StoredEngine(VirtualEngine(program, kernel), store, maker)
            found = len(list(loads_in(engine.run(jobs, {}))))
            assert found == store.found == loads
            return loads

        each = f"{size / loads / 1000:.1f} kB a load"
        print(f"{loads} loads of {len(jobs)} jobs, {each}; {os.cpu_count()} cores\n")
        print("| what | processor, a load |\n|---|---:|")
        print(f"| writing a result | {per_load_ms(write):.2f} ms |")
        print(f"| finding one | {per_load_ms(find):.2f} ms |")


main()
