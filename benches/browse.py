"""Measure `fastopen browse` in Chromium on a run of 100,000 loads, written by benches/scale.py --run FOLDER.

Prints the times until the first paint and until the verdict, for a first and a second visit, with the
server's processor time, and the time until the first paint of a page of the list of loads."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))

from playwright.sync_api import Page

from apps.browse.browse_server import Visitor
from real_browser import PATIENCE_MS, launched

PAINT = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null"""
FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]


def paint_ms(page: Page) -> float:
    """Wait for the first contentful paint of the document. Return its time in ms."""
    while (found := page.evaluate(PAINT)) is None:
        page.wait_for_timeout(10)
    return float(found)


def processor_s(pid: int) -> float:
    """Return the seconds of processor time that a process has used so far, on all cores."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def visits(page: Page, visitor: Visitor, name: str, server: int) -> None:
    """Visit the run's page twice, then five pages of the list of its loads. Print a row for each time."""
    for visit in ("first", "second"):
        started, used_s = time.monotonic(), processor_s(server)
        page.goto(f"{visitor.base}/runs/{name}", wait_until="domcontentloaded")
        painted = paint_ms(page)
        page.wait_for_selector("#verdict h2")
        took_s, used_s = time.monotonic() - started, processor_s(server) - used_s
        print(f"| {visit} visit: first paint | {painted / 1000:.2f} s | |")
        print(f"| {visit} visit: verdict | {took_s:.2f} s | {used_s:.2f} s |")
    took = []
    for number in (1, 2, 500, 1000, 2000):
        page.goto(f"{visitor.base}/runs/{name}/loads?page={number}")
        took.append(paint_ms(page))
    print(f"| a page of 50 of its loads: first paint | {median(took) / 1000:.2f} s | |")


def main() -> None:
    """Start the server and print a table of times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    command = [*FASTOPEN, "browse", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, launched() as browser:
        assert server.stdout is not None
        visitor = Visitor(server.stdout.readline().strip())
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(visitor.address)
        print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}\n")
        print("| what | took | processor |\n|---|---|---|")
        visits(page, visitor, run.absolute().name, server.pid)
        server.terminate()


main()
