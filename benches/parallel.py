"""Compare runs of several worlds at once with a run of one at a time: wall times, and shifts of medians."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FASTOPEN = Path(sys.executable).with_name("fastopen")
PAGES = ("wikipedia-tcp", "example")
REPEATS = 5


def measure(jobs: int) -> tuple[float, dict[str, Any]]:
    """Run PAGES with `jobs` worlds at once. Return the wall time in s, and the results as JSON values."""
    started = time.monotonic()
    options = ("--engine", "host", "--repeats", str(REPEATS), "--jobs", str(jobs), "--seed", "1")
    command: list[str | Path] = [FASTOPEN, "run", *PAGES, *options, "--json", "--quiet"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    return time.monotonic() - started, json.loads(done.stdout)


def medians(document: dict[str, Any]) -> dict[tuple[str, ...], float]:
    """Map each cell (page, RTT, transport and cookies) to its median PLT in milliseconds."""
    keys = ("page", "rtt_ms", "transport", "cookies")
    return {tuple(str(cell[key]) for key in keys): cell["plt_ms_median"] for cell in document["cells"]}


def main() -> None:
    """Print a row for each number of worlds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="*", type=int, default=[2, 4, 8, 12, 16, 24])
    chosen = parser.parse_args().worlds
    alone_s, document = measure(1)
    alone = medians(document)
    print(f"\n{os.cpu_count()} cores; {len(alone)} cells of {', '.join(PAGES)}, {REPEATS} repeats\n")
    print(
        "| worlds at once | wall time | of the sum of PLTs | medians moved by at most | by (median)"
        " | invalid loads |"
    )
    print("|---|---|---|---|---|---|")
    for worlds in [1, *chosen]:
        wall_s, document = (alone_s, document) if worlds == 1 else measure(worlds)
        cells = document["cells"]
        plts_s = sum(cell["plt_ms_median"] * cell["loads"] for cell in cells) / 1000
        moved = sorted(abs(plt / alone[cell] - 1) * 100 for cell, plt in medians(document).items())
        invalid = sum(cell["invalid"] for cell in cells)
        loads = sum(cell["loads"] + cell["invalid"] for cell in cells)
        print(
            f"| {worlds} | {wall_s:.1f} s | {wall_s / plts_s:.2f} | {moved[-1]:.2f} % "
            f"| {moved[len(moved) // 2]:.2f} % | {invalid} of {loads} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
