"""Read a run for figures and reports, and arrange its results as curves over one setting, such as the RTT."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from fastopen.analysis.attribution.breakdown import Attribution, Breakdown, attribute
from fastopen.analysis.attribution.slower import with_reasons
from fastopen.analysis.statistics import CellResult, Results, collect, deciding_factor
from fastopen.common.grouping import grouped
from fastopen.contract import WorldRecord
from fastopen.experiments import BASELINE, ArmName, Comparison, Factor, baseline_of, headline_of
from fastopen.experiments.factors import RTT
from fastopen.runs import RunStore

NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class Place:
    """A row in a page's table of results: one network with one setup. `arms` maps each arm (use of TFO) to
    its result, and `breakdowns` maps arms with analysed loads to mean page load times, divided into waits."""

    comparison: Comparison
    name: str
    """The values that distinguish this row from the page's other rows, such as `20 ms` or `20 ms, mget`."""
    where: str
    """The values in `name` with a preposition, for sentences, such as `at 20 ms` or `for 1 % loss`."""
    rtt_ms: float
    texts: dict[str, str]
    """The value that tables show for each varying factor, keyed by the factor's name."""
    numbers: dict[str, float]
    """The values of numeric factors, keyed by the factor's name, in the unit of the table's column."""
    arms: dict[ArmName, CellResult]
    breakdowns: dict[ArmName, Breakdown]

    @property
    def baseline(self) -> CellResult | None:
        """Return the result without TFO; None if the page was not loaded without TFO."""
        return baseline_of(self.arms)

    @property
    def headline(self) -> CellResult | None:
        """Return the result that stands for TFO in reports: with warm cookies if measured, otherwise with
        cold cookies. Return None if the page was not loaded with TFO."""
        return headline_of(self.arms)

    @property
    def baseline_path(self) -> Breakdown | None:
        """Return the mean PLT without TFO, divided into kinds of wait; None if no such load was analysed."""
        return self.breakdowns.get(BASELINE.name)

    @property
    def headline_path(self) -> Breakdown | None:
        """Return the mean PLT with TFO, divided into kinds of wait: with warm cookies if measured,
        otherwise with cold cookies. Return None if no load with TFO was analysed."""
        return headline_of(self.breakdowns)


def curves_of(results: Results, places: Iterable[Place], along: str = RTT.name) -> dict[str, list[Place]]:
    """Group the rows of a page's table into curves, and map the name of each curve to its rows. The rows of a
    curve differ only in the factor `along`, such as the RTT, and are sorted by its values if these are
    numbers. A curve's name lists the values of all other varying factors, and is empty if there are none."""
    factors = results.factors
    others = factors.besides(along)
    rows = grouped((factors.phrases(place.comparison, others), place) for place in places)
    for row in rows.values():
        if all(along in place.numbers for place in row):
            row.sort(key=lambda place: place.numbers[along])
    return {", ".join(rest): row for rest, row in rows.items()}


def axis_of(results: Results) -> Factor:
    """Return the factor for the x axis of figures: the factor that affects the saving most (see
    `deciding_factor`), else the RTT if it varies, else the factor with the most values."""
    found = deciding_factor(results, results.cells)
    if found is not None:
        return found.factor
    points = [results.factors.point(result.cell) for result in results.cells]
    values = {factor: len(set(map(factor.text_at, points))) for factor in results.factors.varying}
    return RTT if values.get(RTT, 0) > 1 else max(values, key=lambda factor: values[factor], default=RTT)


@dataclass(frozen=True)
class RunAnalysis:
    """The results of a run, and its load times divided into waits: the data for figures and reports."""

    results: Results
    attribution: Attribution
    world: WorldRecord | None
    """The record of the emulated network of the first load; None if the run has no loads."""

    def places(self, page: str) -> Iterator[Place]:
        """Yield the rows of a page's table of results, in the table's order."""
        factors, breakdowns = self.results.factors, self.attribution.breakdowns
        numeric = [factor.name for factor in factors.varying if factor.quantity.kind in ("int", "float")]
        for comparison, arms in self.results.comparisons(page).items():
            point = factors.point(comparison)
            texts = {factor.name: factor.text_at(point) for factor in factors.varying}
            numbers = {name: texts[name] for name in numeric}
            analysed = {name: one.cell.index for name, one in arms.items() if one.cell.index in breakdowns}
            yield Place(
                comparison=comparison,
                name=factors.name(comparison),
                where=factors.where(comparison),
                rtt_ms=point.network.rtt_us / 1000,
                texts=texts,
                # The value of a numeric factor may be a word.
                numbers={name: float(one) for name, one in numbers.items() if NUMBER.fullmatch(one)},
                arms=arms,
                breakdowns={name: breakdowns[index] for name, index in analysed.items()},
            )

    def all_places(self) -> Iterator[tuple[str, Place]]:
        """Return (page, row) for each row of every page's table of results."""
        return ((page, place) for page in self.results.pages for place in self.places(page))


def analyse_run(store: RunStore, results: Results | None = None) -> RunAnalysis:
    """Compute the results of a run, find reasons for slow results, and divide load times into waits.
    `results`: the results of the run, if they have been computed already."""
    rows = store.loads()
    world = next(iter(store.world_records(rows[0].job)), None) if rows else None
    results = results or collect(store, rows)
    return RunAnalysis(with_reasons(store, results), attribute(store, rows, results), world)
