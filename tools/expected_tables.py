"""Write experiments/expected.csv, the results with which `fastopen reproduce NAME --check` compares."""

import csv
from pathlib import Path

from fastopen.experiments import load_experiment, packaged_experiments
from fastopen.workflows.expected import COLUMNS, FILE, measured, rows


def main() -> None:
    """Run each packaged experiment that is compared with published figures, and write the results."""
    place = Path(__file__).parents[1] / "experiments" / FILE
    with place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for name in packaged_experiments():
            experiment = load_experiment(name)
            if experiment.published is not None:
                writer.writerows(rows(measured(experiment, watch=lambda _: None)))


if __name__ == "__main__":
    main()
