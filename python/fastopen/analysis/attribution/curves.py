"""Read a run for figures and reports, and arrange its results as curves over one setting, such as the RTT."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fastopen.analysis.attribution.breakdown import Attribution, Breakdown, attribute
from fastopen.analysis.attribution.slower import with_reasons
from fastopen.analysis.statistics import CellResult, Results, collect, deciding_factor
from fastopen.common.grouping import grouped
from fastopen.contract import WorldRecord
from fastopen.experiments import BASELINE, ArmName, Comparison, Factor, baseline_of, headline_of
from fastopen.experiments.factors import RTT
from fastopen.runs import RunStore


@dataclass(frozen=True)
class Place:
    """A row in a page's table of results: one network with one setting. `arms` and `breakdowns` have, by use
    of TFO, the result and the mean page load time divided into waits."""

    comparison: Comparison
    name: str
    """The values that distinguish this row from others of its page: `20 ms`, or `20 ms, mget`."""
    where: str
    """The values in `name` with a preposition, for sentences: `at 20 ms`, `for 1 % loss`."""
    rtt_ms: float
    texts: dict[str, str]
    """The value that tables show for each varying factor, by the factor's name."""
    numbers: dict[str, float]
    """The values of numeric factors by the factor's name, in the unit of the table's column."""
    arms: dict[ArmName, CellResult]
    breakdowns: dict[ArmName, Breakdown]

    @property
    def baseline(self) -> CellResult | None:
        """Return the result without TFO; None if the page was not loaded without TFO."""
        return baseline_of(self.arms)

    @property
    def headline(self) -> CellResult | None:
        """Return the result with TFO that reports are about: with warm cookies, if measured, rather than with
        cold ones. None if the page was not loaded with TFO."""
        return headline_of(self.arms)

    @property
    def baseline_path(self) -> Breakdown | None:
        """Return the page load time without TFO, broken down by kind of wait; None if it is unknown."""
        return self.breakdowns.get(BASELINE.name)

    @property
    def headline_path(self) -> Breakdown | None:
        """Return the page load time with TFO, divided into kinds of wait such as handshakes. Loads for which
        the client had TFO cookies already (warm) are preferred. None if no load with TFO was analysed."""
        return headline_of(self.breakdowns)


def places_of(results: Results, attribution: Attribution, page: str) -> list[Place]:
    """Return the rows of a page's table of results in order, with kinds of wait from `attribution`."""
    places = []
    factors, breakdowns = results.factors, attribution.breakdowns
    numeric = [factor.name for factor in factors.varying if factor.quantity.kind in ("int", "float")]
    for comparison, arms in results.comparisons(page).items():
        point = factors.point(comparison)
        texts = {factor.name: factor.text_at(point) for factor in factors.varying}
        indices = {name: result.cell.index for name, result in arms.items()}
        places.append(
            Place(
                comparison=comparison,
                name=factors.name(comparison),
                where=factors.where(comparison),
                rtt_ms=point.network.rtt_us / 1000,
                texts=texts,
                # The value of a numeric factor may be a word.
                numbers={
                    name: float(texts[name])
                    for name in numeric
                    if re.fullmatch(r"-?\d+(\.\d+)?", texts[name])
                },
                arms=arms,
                breakdowns={name: breakdowns[at] for name, at in indices.items() if at in breakdowns},
            )
        )
    return places


def curves_of(results: Results, places: list[Place], along: str = RTT.name) -> dict[str, list[Place]]:
    """Group the rows of a page's table into curves for a figure. The rows of a curve differ only in the
    setting named `along`, such as the RTT, and are sorted by its values if these are numbers. The name of a
    curve lists the values of the other settings that vary. It is empty if no other setting varies."""
    factors = results.factors
    others = factors.besides(along)
    rows = grouped((factors.phrases(place.comparison, others), place) for place in places)
    for row in rows.values():
        if all(along in place.numbers for place in row):
            row.sort(key=lambda place: place.numbers[along])
    return {", ".join(rest): row for rest, row in rows.items()}


def axis_of(results: Results) -> Factor:
    """Return the setting for the x axis of figures. It is the setting that explains most differences between
    the times that TFO saves (see `deciding_factor`). If there is none, it is the RTT if it varies, else the
    setting with the most values."""
    found = deciding_factor(results, results.cells)
    if found is not None:
        return found.factor
    points = [results.factors.point(result.cell) for result in results.cells]
    values = {factor: len(set(map(factor.text_at, points))) for factor in results.factors.varying}
    return RTT if values.get(RTT, 0) > 1 else max(values, key=lambda factor: values[factor], default=RTT)


@dataclass(frozen=True)
class RunAnalysis:
    """The results of a run, its load times divided into waits, and its kernel and network (`world`)."""

    results: Results
    attribution: Attribution
    world: WorldRecord | None
    """The kernel and settings of the first load's emulated network; None if the run has no loads."""

    def places(self, page: str) -> list[Place]:
        return places_of(self.results, self.attribution, page)

    def all_places(self) -> Iterator[tuple[str, Place]]:
        return ((page, place) for page in self.results.pages for place in self.places(page))


def analyse_run(store: RunStore, results: Results | None = None) -> RunAnalysis:
    """Read the results of a run and break down its page load times. `results`: the results of the run, if
    they have been computed already."""
    rows = store.loads()
    worlds = store.world_records(rows[0].job) if rows else []
    results = results or collect(store, rows)
    world = worlds[0] if worlds else None
    return RunAnalysis(with_reasons(store, results), attribute(store, rows, results), world)
