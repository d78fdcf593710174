"""Write experiments/expected.csv, the results with which `fastopen reproduce NAME --check` compares."""

import csv
from pathlib import Path

from fastopen.engines import kernels
from fastopen.experiments import load_experiment, packaged_experiments
from fastopen.workflows.expected import COLUMNS, FILE, KERNEL, measured


def main() -> None:
    """Run each packaged experiment that is compared with published figures, and write the results."""
    manifest = kernels.find().manifest
    if f"{manifest.source} {manifest.source_version}" != KERNEL:
        raise SystemExit(f"the kernel is not {KERNEL}; build that one, or change KERNEL in expected.py")
    place = Path(__file__).parents[1] / "experiments" / FILE
    with place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name in packaged_experiments():
            experiment = load_experiment(name)
            if experiment.published is not None:
                found = measured(experiment, watch=lambda _: None)
                writer.writerows((*key, "" if ns is None else ns) for key, ns in found.items())


if __name__ == "__main__":
    main()
