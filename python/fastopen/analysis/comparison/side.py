"""One of the runs that are compared, read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastopen.analysis.attribution import Attribution, attribute
from fastopen.analysis.statistics import Results, collect
from fastopen.runs import RunStore


@dataclass(frozen=True)
class Side:
    """A run: its results, where the time of its loads went, and what its loads were drawn from."""

    place: str
    """Its folder, or what stands in for one."""
    label: str
    """What people call it; empty where nobody gave it a name."""
    results: Results
    attribution: Attribution
    seeds: Mapping[tuple[int, int], int]
    """(cell, repeat) to the seed of the world that the load was done in."""
    bodies: Mapping[str, str]
    """Digest of each page's recorded bodies, where there are any."""

    @property
    def environment(self) -> Mapping[str, Any]:
        return self.results.environment


def read_side(folder: Path) -> Side:
    """Reads a kept run. Raises InputError where it cannot be read."""
    with RunStore.open(folder) as store:
        return side_of(store, store.place)


def side_of(store: RunStore, place: str) -> Side:
    """A run that is open, and may be in memory alone: `place` is what it is called."""
    rows, jobs = store.loads(), store.jobs()
    return Side(
        place=place,
        label=store.label,
        results=collect(store, rows),
        attribution=attribute(store, rows),
        seeds={(row.cell, row.repeat): jobs[row.job] for row in rows},
        bodies=dict(store.options.get("bodies") or {}),
    )
