"""Compute the distribution of savings over many pages, and its correlation with properties of the pages."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final

from fastopen.analysis.statistics.intervals import CONFIDENCE, median_interval
from fastopen.analysis.statistics.verdicts import Effect, effect_of
from fastopen.common.grouping import grouped
from fastopen.experiments import Arm, Comparison, derive_seed, treatments_of
from fastopen.pages import Page
from fastopen.pages.corpus import page_properties

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fastopen.analysis.statistics.results import Results

# With fewer pages, tables list each page, and correlations are not reported, because they are too uncertain.
PAGES_MIN: Final = 20
RESAMPLES: Final = 2_000
# The number of resampled values in memory at once.
BATCH: Final = 2_000_000
# The names, in reports, of the properties of a page that may determine its saving.
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
    """Spearman's rank correlation of a property of pages, such as their number of hosts, with the saving."""

    name: str
    """The property of pages, a key of PROPERTIES."""
    pages: int
    rho: float
    """The correlation, from -1 to 1."""
    interval: tuple[float, float]
    """The 95 % confidence interval of `rho`, from percentiles of a bootstrap over pages."""

    @property
    def sign(self) -> int:
        """Return the sign of the correlation, 1 or -1; 0 if the confidence interval contains 0."""
        low, high = self.interval
        return 1 if low > 0 else -1 if high < 0 else 0


@dataclass(frozen=True)
class Distribution:
    """The distribution of TFO's savings over many pages on one network with one setup (`place`)."""

    place: str
    comparison: Comparison
    """The table row of the first page in `savings`. All pages share its network, setup and engine."""
    arm: Arm
    savings: Mapping[str, float]
    """The saving of each page that has a valid pair of loads, as a percentage of the PLT."""
    pages_without_pairs: int
    quantiles: tuple[float, float, float, float, float]
    """The 5, 25, 50, 75 and 95 % quantiles of the pages' savings, in percent."""
    median_interval: tuple[float, float] | None
    """The 95 % confidence interval of the median, if pages are a random sample; None for too few pages."""
    effects: Mapping[Effect, int]
    """The number of pages on which TFO has each effect."""
    correlations: tuple[Correlation, ...]
    """Correlations with the properties that vary over the pages, in the order of PROPERTIES."""

    @property
    def strongest(self) -> tuple[Correlation, ...]:
        """Return the correlations whose confidence interval excludes 0, the strongest first."""
        return tuple(sorted((one for one in self.correlations if one.sign), key=lambda one: -abs(one.rho)))


def distributions(results: "Results") -> Iterator[Distribution]:
    """Yield the distribution of the pages' savings for each combination of network, setup, engine and use of
    TFO. Leave out combinations with fewer than PAGES_MIN pages."""
    if len(results.pages) < PAGES_MIN:
        return
    of_place = grouped(((results.factors.name(one.cell), one.cell.arm.name), one) for one in results.cells)
    properties = {name: properties_of(page) for name, page in results.pages.items()}
    smallest = results.experiment.smallest_effect
    places = dict.fromkeys(place for place, _ in of_place)
    for place, arm in product(places, treatments_of(results.experiment.arms)):
        cells = of_place.get((place, arm.name), [])
        known = [cell for cell in cells if cell.improvement_percent is not None]
        if len(known) < PAGES_MIN:
            continue
        savings = {cell.cell.page: cell.improvement_percent or 0.0 for cell in known}
        cuts = quantiles(savings.values(), n=20, method="inclusive")
        seed = derive_seed(results.experiment.seed, "corpus", place)
        yield Distribution(
            place=place,
            comparison=known[0].cell.comparison,
            arm=arm,
            savings=savings,
            pages_without_pairs=len(cells) - len(known),
            quantiles=(cuts[0], cuts[4], cuts[9], cuts[14], cuts[18]),
            median_interval=median_interval([*savings.values()]),
            effects=Counter(effect_of(cell, smallest) for cell in known),
            correlations=correlations([properties[page] for page in savings], [*savings.values()], seed),
        )


def properties_of(page: Page) -> dict[str, float]:
    """Return the values of a page's PROPERTIES, such as its number of hosts."""
    facts = page_properties(page, Path())
    facts["requests_per_connection"] = facts["requests"] / facts["connections"]
    facts["bytes_per_request"] = facts["bytes_down"] / facts["requests"]
    return {name: float(facts[name]) for name in PROPERTIES}


def correlations(
    properties: Sequence[Mapping[str, float]], savings: Sequence[float], seed: int
) -> tuple[Correlation, ...]:
    """Return the rank correlation of each property of pages with the savings. `properties`, `savings`: an
    item for each page. Leave out properties that are equal for all pages. Return an empty tuple if all
    savings are equal. `seed`: the random seed of the resamples for confidence intervals."""
    import numpy as np

    varying = [name for name in PROPERTIES if len({page[name] for page in properties}) > 1]
    if len(set(savings)) == 1 or not varying:
        return ()
    pages = len(savings)
    columns = [np.array([page[name] for page in properties]) for name in varying]
    columns.append(np.array(savings))
    whole = _spearman(columns, np.ones((1, pages)))[0]
    rng = np.random.default_rng(seed)
    each, odds = max(1, BATCH // pages), np.full(pages, 1 / pages)
    batches = [min(each, RESAMPLES - done) for done in range(0, RESAMPLES, each)]
    drawn = np.concatenate([_spearman(columns, rng.multinomial(pages, odds, size)) for size in batches])
    tail = 50 * (1 - CONFIDENCE)
    # Ignore resamples in which a property has only one value: its correlation is undefined.
    ends = np.nanpercentile(drawn, [tail, 100 - tail], axis=0)
    return tuple(
        Correlation(name, pages, float(rho), (float(low), float(high)))
        for name, rho, low, high in zip(varying, whole, *ends, strict=True)
    )


def _spearman(columns: "Sequence[NDArray[np.float64]]", weights: "NDArray[Any]") -> "NDArray[np.float64]":
    """Return Spearman's correlation of each property with the savings (the last of `columns`). There is a row
    for each resample. Each row of `weights` is a resample: the number of times that each page was drawn."""
    import numpy as np

    ranked = [_mid_ranks(column, weights) for column in columns]
    *properties, savings = (one - (weights * one).sum(axis=1, keepdims=True) / one.shape[1] for one in ranked)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt((weights * savings**2).sum(axis=1))
        rhos = [
            (weights * ranks * savings).sum(axis=1) / (np.sqrt((weights * ranks**2).sum(axis=1)) * spread)
            for ranks in properties
        ]
    return np.stack(rhos, axis=1)


def _mid_ranks(values: "NDArray[np.float64]", weights: "NDArray[Any]") -> "NDArray[np.float64]":
    import numpy as np

    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    # Sort the values only once: each resample's mid-ranks are cumulative sums of its weights in this order.
    counts = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks: NDArray[np.float64] = (np.cumsum(counts, axis=1) - (counts - 1) / 2)[:, group]
    return ranks
