"""What a browser's loads tell beside their times: what it had kept, and missing screenshots."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from fastopen.contract import LoadRecord
from fastopen.experiments import Cell, Experiment
from fastopen.runs import LoadRow, RunStore


@dataclass(frozen=True)
class Browsed:
    """Of one cell. Requests a valid load, medians; None where loads are first visits."""

    requests: float | None
    fresh: float | None
    """Answered by what the browser had kept, without asking."""
    revalidated: float | None
    """Asked, and answered with: what you have is still good (304)."""
    unshown: tuple[str, ...]
    """Why screenshots that were asked for are missing, each load."""


def browsed(
    store: RunStore, experiment: Experiment, cells: Sequence[Cell], loads: Iterable[LoadRow]
) -> dict[int, Browsed]:
    """By cell, for those that have something to tell: only their records are read."""
    telling = {cell.index for cell in cells if _tells(experiment, cell)}
    counted = (row for row in loads if row.cell in telling and not row.superseded)
    records: dict[int, list[LoadRecord]] = defaultdict(list)
    for row, record in store.load_records(counted):
        records[row.cell].append(record)
    repeat = {cell.index for cell in cells if experiment.setups[cell.setup].client.view == "repeat"}
    return {index: _browsed(found, repeat=index in repeat) for index, found in records.items()}


def _tells(experiment: Experiment, cell: Cell) -> bool:
    client = experiment.setups[cell.setup].client
    return client.view == "repeat" or client.screenshot


def _browsed(records: Sequence[LoadRecord], *, repeat: bool) -> Browsed:
    browsers = [record.browser for record in records if record.browser is not None]
    unshown = tuple(one.screenshot_error for one in browsers if one.screenshot_error is not None)
    valid = [record for record in records if record.valid]
    if not repeat or not valid:
        return Browsed(None, None, None, unshown)
    kept = [[request.cache for request in record.requests] for record in valid]
    return Browsed(
        requests=median(len(one) for one in kept),
        fresh=median(one.count("fresh") for one in kept),
        revalidated=median(one.count("revalidated") for one in kept),
        unshown=unshown,
    )
