"""Read one of the runs to compare."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastopen.analysis.attribution import Attribution, attribute
from fastopen.analysis.statistics import Results, collect
from fastopen.runs import RunStore


@dataclass(frozen=True)
class Side:
    """One of two compared runs: its results, the breakdown of its load times, and the seeds of its loads."""

    place: str
    """The run's folder, or a name for a run that is only in memory."""
    label: str
    """The label that the user gave the run; empty if none."""
    results: Results
    attribution: Attribution
    seeds: Mapping[tuple[int, int], int]
    """The seed of each load's world, by (cell, repeat)."""
    bodies: Mapping[str, str]
    """The digest of each page's recorded bodies, by page; pages without bodies are missing."""

    @property
    def environment(self) -> Mapping[str, Any]:
        return self.results.environment


def read_side(folder: Path) -> Side:
    """Read a kept run. Raises InputError if it cannot be read."""
    with RunStore.open(folder) as store:
        return side_of(store, store.place)


def side_of(store: RunStore, place: str) -> Side:
    """Read an open run, which may be only in memory. `place` names the run in messages."""
    rows, jobs = store.loads(), store.jobs()
    return Side(
        place=place,
        label=store.label,
        results=collect(store, rows),
        attribution=attribute(store, rows),
        seeds={(row.cell, row.repeat): jobs[row.job] for row in rows},
        bodies=dict(store.options.get("bodies") or {}),
    )
