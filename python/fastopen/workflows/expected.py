"""Compare page load times of packaged experiments with expected.csv, to the nanosecond, in virtual time."""

import csv
from collections.abc import Mapping
from typing import Final

from fastopen.common.errors import InputError
from fastopen.common.resources import packaged_file
from fastopen.engines import kernels
from fastopen.experiments import Experiment, make_plan
from fastopen.pages import load_chosen
from fastopen.workflows.run import Watch, run_in_memory

FILE: Final = "expected.csv"
KERNEL: Final = "linux-source-7.3 7.3.4-1~bpo13+1"  # used by tools/expected_tables.py to make FILE
COLUMNS: Final = ("experiment", "page", "network", "setup", "arm", "plt_ns")


def measured(
    experiment: Experiment, *, kernel: str | None = None, jobs: int | None = None, watch: Watch
) -> dict[tuple[str, ...], int | None]:
    """Load each page of the experiment once in virtual time over each network with each setup and arm, up to
    `jobs` networks at once. Return load times in ns (None: no valid load), with keys such as ("experiment",
    "page", "0", "1", "warm") for network 0, setup 1 and warm cookies. `watch` is called after each event."""
    asked = experiment.model_copy(update={"engines": ["virtual"], "repeats": 1, "vary": None})
    plan = make_plan(asked, [one.page for one in load_chosen(asked.pages, asked.corpus)], "virtual")
    with run_in_memory(plan, kernel, jobs, watch) as run:
        last = (load for load in run.store.loads() if not load.superseded)
        taken = {load.cell: load.plt_ns if load.valid else None for load in last}
    return {
        (experiment.name, cell.page, str(cell.network), str(cell.setup), cell.arm.name): taken.get(cell.index)
        for cell in plan.cells
    }


def first_difference(experiment: Experiment, found: Mapping[tuple[str, ...], int | None]) -> str | None:
    """Describe the first difference between measured page load times and the table expected.csv; None if all
    are equal. `found` is the result of `measured`. Raises InputError if the table lacks the experiment."""

    def shown(ns: int | None) -> str:
        return "no valid load" if ns is None else f"{ns / 1e6:.6f} ms"

    expected = expected_table(experiment)
    for key in dict.fromkeys([*expected, *found]):
        if expected.get(key) != found.get(key):
            _, page, network, _, arm = key
            place = f"{page}, RTT {experiment.networks[int(network)].rtt_us / 1000:g} ms (network {network})"
            return f"{place}, {arm}: {shown(found.get(key))}, expected {shown(expected.get(key))}"
    return None


def both_kernels(name: str | None) -> str:
    """Name the kernels of the expected times and of ours. `name` is the kernel that the user chose."""
    own = kernels.find(name).manifest
    cause = "" if f"{own.source} {own.source_version}" == KERNEL else " (another kernel is the likely cause)"
    return f"expected on {KERNEL}, measured on {own.source} {own.source_version}{cause}"


def expected_table(experiment: Experiment) -> dict[tuple[str, ...], int | None]:
    """Return the experiment's page load times in ns from expected.csv, with the keys of `measured`. A value
    is None if no load was valid. Raises InputError if the table lacks the experiment."""
    with packaged_file("experiments", FILE).open(encoding="utf-8", newline="") as file:
        expected = {
            tuple(row[name] for name in COLUMNS[:-1]): int(row["plt_ns"]) if row["plt_ns"] else None
            for row in csv.DictReader(file)
            if row["experiment"] == experiment.name
        }
    if not expected:
        message = "--check works only with packaged experiments that have published figures"
        raise InputError(message, experiment.name, "drop --check")
    return expected
