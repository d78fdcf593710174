"""Published figures that experiments are held against: facts of tables in papers and reports, as printed."""

import csv
from dataclasses import dataclass
from typing import Final

from fastopen.errors import InputError
from fastopen.experiments.model import Experiment
from fastopen.resources import packaged_folder

FILE: Final = "published.csv"


@dataclass(frozen=True)
class PublishedCell:
    """One row of a published table. PLTs in the unit that was printed, which may be wrong in the source."""

    source: str
    experiment: str
    page: str
    rtt_ms: float
    down_mbit: float
    up_mbit: float
    plt_off: float
    plt_tfo: float
    unit_as_printed: str
    improvement_percent_as_printed: float
    note: str


_NUMBERS: Final = ("rtt_ms", "down_mbit", "up_mbit", "plt_off", "plt_tfo", "improvement_percent_as_printed")
_TEXTS: Final = ("source", "experiment", "page", "unit_as_printed", "note")


def all_published_cells() -> list[PublishedCell]:
    """Every row of the packaged file, in its order. Raises InputError where it is damaged."""
    folder = packaged_folder("experiments")
    if folder is None or not (folder / FILE).is_file():
        raise InputError("the published figures are missing", FILE, "install fastopen again")
    with (folder / FILE).open(encoding="utf-8", newline="") as file:
        return [_cell(row, line) for line, row in enumerate(csv.DictReader(file), start=2)]


def _cell(row: dict[str, str], line: int) -> PublishedCell:
    try:
        numbers = {name: float(row[name]) for name in _NUMBERS}
        return PublishedCell(**{name: row[name] for name in _TEXTS}, **numbers)  # type: ignore[arg-type]
    except (KeyError, ValueError) as error:
        raise InputError(f"not a published cell: {error}", f"{FILE}: line {line}") from None


def published_cells(experiment: Experiment) -> dict[tuple[str, int], PublishedCell]:
    """(name of our page, index of our network) to the published cell of the same page, RTT and rates."""
    if experiment.published is None:
        return {}
    rows = [row for row in all_published_cells() if row.experiment == experiment.published.experiment]
    found: dict[tuple[str, int], PublishedCell] = {}
    for ours, theirs in experiment.published.pages.items():
        for index, network in enumerate(experiment.networks):
            asked = (network.rtt_us, network.down.rate_bit_per_s, network.up.rate_bit_per_s)
            for row in rows:
                printed = (row.rtt_ms * 1000, row.down_mbit * 1e6, row.up_mbit * 1e6)
                if row.page == theirs and asked == printed:
                    found[ours, index] = row
    return found
