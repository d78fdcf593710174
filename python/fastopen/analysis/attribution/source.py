"""Read a run for figures and reports: its results, and the breakdown of its load times."""

from collections.abc import Iterator
from dataclasses import dataclass

from fastopen.analysis.attribution.breakdown import Attribution, attribute
from fastopen.analysis.attribution.curves import Place, places_of
from fastopen.analysis.attribution.slower import with_reasons
from fastopen.analysis.statistics import Results, collect
from fastopen.contract import WorldRecord
from fastopen.runs import RunStore


@dataclass(frozen=True)
class Source:
    """The results of a run and the breakdown of its load times, read once."""

    results: Results
    attribution: Attribution
    world: WorldRecord | None
    """The world of the run's first load: its kernel and settings; None if the run has no loads."""

    def places(self, page: str) -> list[Place]:
        return places_of(self.results, self.attribution, page)

    def all_places(self) -> Iterator[tuple[str, Place]]:
        return ((page, place) for page in self.results.pages for place in self.places(page))


def read_source(store: RunStore, results: Results | None = None) -> Source:
    """Read a run for figures and reports. `results`: its results, if they have been computed already."""
    rows = store.loads()
    worlds = store.world_records(rows[0].job) if rows else []
    results = results or collect(store, rows)
    world = worlds[0] if worlds else None
    return Source(with_reasons(store, results), attribute(store, rows), world)
