"""A run of many pages: how savings are distributed over them, and which properties of a page go with that."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final

from fastopen.analysis.statistics.bootstrap import CONFIDENCE, median_interval
from fastopen.analysis.statistics.cells import CellResult
from fastopen.analysis.statistics.judgement import Effect, effect_of
from fastopen.common.grouping import grouped
from fastopen.experiments import Arm, Comparison, derive_seed, treatments_of
from fastopen.pages import Page
from fastopen.pages.index import page_facts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fastopen.analysis.statistics.results import Results

# Of fewer pages a table has each of them, and no correlation says anything.
PAGES_MIN: Final = 20
RESAMPLES: Final = 2_000
# So many numbers of resamples in memory at once.
BATCH: Final = 2_000_000
# What may decide what TFO saves of a page, in words; facts of an index, or ratios of them.
PROPERTIES: Final = {
    "connections": "connections",
    "hosts": "hosts",
    "third_parties": "third parties",
    "requests": "requests",
    "requests_per_connection": "requests a connection",
    "depth": "longest chain",
    "redirects": "redirects",
    "bytes_down": "bytes down",
    "bytes_per_request": "bytes a request",
    "server_think_us": "server think time",
    "processing_us_longest_chain": "processing on a chain",
}


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation of a property of pages with what is saved of them."""

    name: str
    """Of PROPERTIES."""
    pages: int
    rho: float
    """-1 to 1."""
    interval: tuple[float, float]
    """95 %, percentiles of a bootstrap over pages."""

    @property
    def sign(self) -> int:
        """1: more is saved where there is more of it, -1: less, 0: the interval holds both."""
        low, high = self.interval
        return 1 if low > 0 else -1 if high < 0 else 0


@dataclass(frozen=True)
class Distribution:
    """The savings of an arm over the pages at one place: a network, a setup and an engine."""

    place: str
    comparison: Comparison
    """Of its first page: where it is."""
    arm: Arm
    savings: Mapping[str, float]
    """Page to percent of its PLT, of pages with a valid pair of loads."""
    without: int
    """Pages without one."""
    quantiles: tuple[float, float, float, float, float]
    """5, 25, 50, 75 and 95 % of pages save no more than this, in percent."""
    median_interval: tuple[float, float] | None
    """95 %, of the median over pages as a sample of others; None of too few."""
    effects: Mapping[Effect, int]
    """Of how many pages is said what."""
    correlations: tuple[Correlation, ...]
    """Of properties that differ from page to page, in the order of PROPERTIES."""

    @property
    def strongest(self) -> tuple[Correlation, ...]:
        signed = (one for one in self.correlations if one.sign)
        return tuple(sorted(signed, key=lambda one: -abs(one.rho)))


def distributions(results: "Results") -> list[Distribution]:
    """For each place and treatment what is saved over pages; none of fewer than PAGES_MIN pages."""
    if len(results.pages) < PAGES_MIN:
        return []
    of_place = grouped(((results.factors.name(one.cell), one.cell.arm.name), one) for one in results.cells)
    arms = treatments_of(results.experiment.arms)
    properties = {name: properties_of(page) for name, page in results.pages.items()}
    places = dict.fromkeys(place for place, _ in of_place)
    made = [
        _distribution(results, place, arm, of_place[place, arm.name], properties)
        for place in places
        for arm in arms
        if (place, arm.name) in of_place
    ]
    return [one for one in made if one is not None]


def properties_of(page: Page) -> dict[str, float]:
    facts = page_facts(page, Path())
    facts["requests_per_connection"] = facts["requests"] / facts["connections"]
    facts["bytes_per_request"] = facts["bytes_down"] / facts["requests"]
    return {name: float(facts[name]) for name in PROPERTIES}


def _distribution(
    results: "Results",
    place: str,
    arm: Arm,
    cells: Sequence[CellResult],
    properties: Mapping[str, Mapping[str, float]],
) -> Distribution | None:
    known = [(cell, cell.improvement_percent) for cell in cells if cell.improvement_percent is not None]
    if len(known) < PAGES_MIN:
        return None
    savings = {cell.cell.page: saving for cell, saving in known}
    cuts = quantiles(savings.values(), n=20, method="inclusive")
    effects: dict[Effect, int] = defaultdict(int)
    for cell, _ in known:
        effects[effect_of(cell, results.experiment.smallest_effect)] += 1
    seed = derive_seed(results.experiment.seed, "corpus", place)
    interval = median_interval([*savings.values()], seed)
    return Distribution(
        place=place,
        comparison=known[0][0].cell.comparison,
        arm=arm,
        savings=savings,
        without=len(cells) - len(known),
        quantiles=(cuts[0], cuts[4], cuts[9], cuts[14], cuts[18]),
        median_interval=interval,
        effects=dict(effects),
        correlations=correlations([properties[page] for page in savings], [*savings.values()], seed),
    )


def correlations(
    properties: Sequence[Mapping[str, float]], savings: Sequence[float], seed: int
) -> tuple[Correlation, ...]:
    """Spearman's correlation of each property with the savings, of a page each, with its interval."""
    import numpy as np

    varying = [name for name in PROPERTIES if len({page[name] for page in properties}) > 1]
    if len(set(savings)) == 1 or not varying:
        return ()
    pages = len(savings)
    columns = [np.array([page[name] for page in properties]) for name in varying]
    columns.append(np.array(savings))
    whole = _spearman(columns, np.ones((1, pages)))[0]
    rng = np.random.default_rng(seed)
    each = max(1, BATCH // pages)
    drawn = np.concatenate(
        [
            _spearman(columns, rng.multinomial(pages, np.full(pages, 1 / pages), min(each, RESAMPLES - done)))
            for done in range(0, RESAMPLES, each)
        ]
    )
    tail = 50 * (1 - CONFIDENCE)
    # In a resample without two values a property correlates with nothing.
    ends = np.nanpercentile(drawn, [tail, 100 - tail], axis=0)
    return tuple(
        Correlation(name, pages, float(rho), (float(low), float(high)))
        for name, rho, low, high in zip(varying, whole, *ends, strict=True)
    )


def _spearman(columns: "Sequence[NDArray[np.float64]]", weights: "NDArray[Any]") -> "NDArray[np.float64]":
    """The correlation of each column but the last with the last, a row for each row of weights.

    A page of weight 2 stands for two pages. Ranks are mid-ranks, as Kendall gives them to ties, and so are
    those of resamples without sorting them again: a cumulative sum of weights in the order of the whole.
    """
    import numpy as np

    *properties, savings = (_centred(_mid_ranks(column, weights), weights) for column in columns)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt((weights * savings**2).sum(axis=1))
        return np.stack(
            [
                (weights * ranks * savings).sum(axis=1) / (np.sqrt((weights * ranks**2).sum(axis=1)) * spread)
                for ranks in properties
            ],
            axis=1,
        )


def _mid_ranks(values: "NDArray[np.float64]", weights: "NDArray[Any]") -> "NDArray[np.float64]":
    import numpy as np

    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    counts = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks: NDArray[np.float64] = (np.cumsum(counts, axis=1) - (counts - 1) / 2)[:, group]
    return ranks


def _centred(ranks: "NDArray[np.float64]", weights: "NDArray[Any]") -> "NDArray[np.float64]":
    centred: NDArray[np.float64] = ranks - (weights * ranks).sum(axis=1, keepdims=True) / ranks.shape[1]
    return centred
