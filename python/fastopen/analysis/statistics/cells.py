"""Summarise the loads of each cell: median load times, and improvements by TFO.

A pair is a load with TFO and the load without TFO of the same repeat, both in one emulated network. Its
improvement is (PLT without TFO - PLT with TFO) / PLT without TFO. Results state the median improvement over
the pairs, which is negative if TFO slows the page down.

Invalid loads are counted, but no other figure includes them. Only the last attempt at a load is used."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median, quantiles
from typing import Final

from fastopen.analysis.statistics.bound import Bound, savings_bound
from fastopen.analysis.statistics.intervals import FULL_MIN, VALUES_MIN, confidence_of, median_interval
from fastopen.common.closing import collector_paused
from fastopen.common.grouping import grouped
from fastopen.contract import InvalidKind
from fastopen.experiments import Cell, Comparison, Role
from fastopen.runs import LoadRow

# Tukey 1977: a value more than three interquartile ranges from the quartiles is "far out".
FENCE: Final = 3.0
# The distance of an outlier from the quartiles is also at least this fraction of the median. Loads in an
# emulated network often differ by only 0.1 %, so three interquartile ranges may be a tiny distance.
FENCE_SHARE_MIN: Final = 0.01
# With fewer loads, no load counts as an outlier.
FENCED_MIN: Final = 5


@dataclass(frozen=True)
class Reason:
    """A reason (`kind`) for invalid or repeated loads, the number of such loads, and an example message."""

    kind: str
    loads: int
    example: str


@dataclass(frozen=True)
class CellResult:
    """The result of a cell. `reasons` lists why loads are invalid. Page load times (PLT) are None
    without a valid load. Savings (improvements by TFO) are None without a valid pair of loads."""

    cell: Cell
    loads: int
    invalid: int
    reasons: tuple[Reason, ...]
    plt_ms_median: float | None
    pairs: int
    improvement_percent: float | None
    improvement_ci95: tuple[float, float] | None
    """The confidence interval of the median improvement in percent, at the level `confidence`. If `varied`,
    the central 95 % of the improvements (`range_of_samples`). If `deterministic`, both ends are equal."""
    connections: int
    """The number of connections in all valid loads."""
    syn_data_connections: int
    """The number of connections, in all valid loads, that carried data in their SYN."""
    saved_ms: float | None
    """The median saving over the pairs, in milliseconds."""
    bound: Bound | None
    """The upper bound on the saving, computed from the loads without TFO in all pairs or, for the baseline
    itself, from all its valid loads. None without such loads, and None over QUIC."""
    retransmitted: float | None
    """The median number of retransmitted segments per load."""
    plts_ms: Mapping[int, float]
    """The PLT of each valid load, keyed by repeat number."""
    improvements_percent: Mapping[int, float]
    """The saving, in percent, of each pair of loads (without and with TFO), keyed by repeat number."""
    effect: float | None
    """The matched-pairs rank-biserial correlation (see `rank_biserial`); None without pairs."""
    outliers: Mapping[int, float]
    """PLTs much longer or shorter than the others, keyed by repeat number. All figures include them."""
    repeated: tuple[Reason, ...]
    """The reasons why loads were repeated. Other figures include only the last attempt at each load."""
    deterministic: bool
    """True if nothing was random, and all repeats had the same result."""
    varied: bool
    """True if each repeat sampled uncertain inputs (`--vary`), and nothing else was random."""
    requests: float | None
    """The median over valid loads of the number of requests for resources that the page file contains."""
    asked: int
    """The number of planned loads."""

    @property
    def beats_bound(self) -> bool:
        """Return True if the saving exceeds its upper bound by more than the tolerances of `Bound`."""
        return self.bound is not None and self.bound.beaten_by(self.improvement_percent)

    @property
    def unfinished(self) -> int:
        """Return the number of loads that did not finish."""
        return sum(reason.loads for reason in self.reasons if reason.kind == InvalidKind.INCOMPLETE)

    @property
    def without_valid(self) -> bool:
        """Return True if loads were planned, but none is valid, because none has run or all were invalid."""
        return self.asked > 0 and self.loads == self.invalid

    @property
    def range90(self) -> tuple[float, float] | None:
        """Return the range, in percent, of the central 90 % of improvements; None for fewer than 2 pairs."""
        return central(self.improvements_percent.values(), 0.9)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the improvement, in percent, that tables and verdicts use: `range90` if the
        inputs were sampled (`varied`) for at least FULL_MIN pairs, otherwise `improvement_ci95`."""
        return self.range90 if self.varied and self.pairs >= FULL_MIN else self.improvement_ci95

    @property
    def confidence(self) -> float:
        """Return the probability, 0 to 1, that `interval` contains the true median improvement by TFO. Return
        1 if nothing is random, or if `interval` is `range90`, which is not a confidence interval."""
        of_range = self.varied and self.pairs >= FULL_MIN
        return 1.0 if self.deterministic or of_range else confidence_of(self.pairs)


def summarise(
    cells: Sequence[Cell],
    loads: Iterable[LoadRow],
    unchanging: Collection[Comparison],
    asked: Mapping[Comparison, int],
    *,
    vary: bool,
) -> list[CellResult]:
    """Return the result of each cell. Cells that differ only in the use of TFO belong to one comparison.
    `unchanging`: comparisons without random events such as losses. `asked` maps comparisons to their
    planned repeats. `vary` is True if each repeat samples uncertain inputs, such as RTTs."""
    with collector_paused():
        attempts = grouped((load.cell, load) for load in loads)
        of_cell = {cell.index: _Loads(attempts.get(cell.index, [])) for cell in cells}
        none = _Loads([])
        baselines = {cell.comparison: of_cell[cell.index] for cell in cells if cell.arm.role is Role.BASELINE}
        return [
            _result(
                cell,
                of_cell[cell.index],
                baselines.get(cell.comparison, none),
                asked.get(cell.comparison, 0),
                without_chance=cell.comparison in unchanging,
                vary=vary,
            )
            for cell in cells
        ]


class _Loads:
    """The loads of a cell. The `superseded` loads were repeated later, and the `counted` loads were not."""

    def __init__(self, attempts: Sequence[LoadRow]) -> None:
        self.superseded = [load for load in attempts if load.superseded]
        self.counted = [load for load in attempts if not load.superseded]
        self.valid = [load for load in self.counted if load.valid]
        in_order = sorted(self.valid, key=attrgetter("repeat"))
        self.plts_ms = {load.repeat: load.plt_ns / 1e6 for load in in_order if load.plt_ns is not None}

    def total(self, name: str) -> int:
        return sum(map(attrgetter(name), self.valid))

    def middle(self, name: str) -> float | None:
        return median(map(attrgetter(name), self.valid)) if self.valid else None


def _result(
    cell: Cell, loads: _Loads, baseline: _Loads, asked: int, *, without_chance: bool, vary: bool
) -> CellResult:
    plts, others = loads.plts_ms, {} if cell.arm.role is Role.BASELINE else baseline.plts_ms
    pairs = {repeat: (others[repeat], plt) for repeat, plt in plts.items() if others.get(repeat)}
    improvements = {repeat: 100 * (without - plt) / without for repeat, (without, plt) in pairs.items()}
    deterministic = without_chance and len(set(plts.values())) == 1 and len(set(others.values())) <= 1
    # If only inputs are random, the spread of the pairs shows their influence, not how certain the median is.
    varied = vary and without_chance
    if varied:
        interval = range_of_samples([*improvements.values()], 0.95)
    elif deterministic:
        interval = next(((exact, exact) for exact in improvements.values()), None)
    else:
        interval = median_interval([*improvements.values()])
    compared = [load for load in baseline.valid if load.repeat in plts]
    return CellResult(
        cell=cell,
        loads=len(loads.counted),
        invalid=len(loads.counted) - len(loads.valid),
        reasons=_reasons([load for load in loads.counted if not load.valid]),
        plt_ms_median=median(plts.values()) if plts else None,
        pairs=len(pairs),
        improvement_percent=median(improvements.values()) if improvements else None,
        improvement_ci95=interval,
        connections=loads.total("connections"),
        syn_data_connections=loads.total("syn_data_connections"),
        saved_ms=median(without - plt for without, plt in pairs.values()) if pairs else None,
        bound=savings_bound([*map(attrgetter("handshakes_ns", "plt_ns"), compared)]),
        retransmitted=loads.middle("retransmitted"),
        plts_ms=plts,
        improvements_percent=improvements,
        effect=rank_biserial([without - plt for without, plt in pairs.values()]),
        outliers=find_outliers(plts),
        repeated=_reasons(loads.superseded),
        deterministic=deterministic and not varied,
        varied=varied,
        requests=loads.middle("requests"),
        asked=asked,
    )


def range_of_samples(values: Sequence[float], share: float) -> tuple[float, float] | None:
    """Return the range of the central `share` (0 to 1) of the samples. For fewer than FULL_MIN samples,
    return their whole range. For fewer than VALUES_MIN samples, return None."""
    if len(values) >= FULL_MIN:
        return central(values, share)
    return (min(values), max(values)) if len(values) >= VALUES_MIN else None


def central(values: Iterable[float], share: float) -> tuple[float, float] | None:
    """Return the range of the central `share` (0 to 1) of the values; None for fewer than two values."""
    listed = list(values)
    if len(listed) < 2:
        return None
    cuts = quantiles(listed, n=round(2 / (1 - share)), method="inclusive")
    return (cuts[0], cuts[-1])


def _reasons(loads: list[LoadRow]) -> tuple[Reason, ...]:
    """Return why loads are invalid, sorted by kind of reason. A load counts once per kind of reason."""
    of_kind = grouped(reason for load in loads for reason in dict(reversed(load.invalid)).items())
    return tuple(Reason(kind, len(details), details[0]) for kind, details in sorted(of_kind.items()))


def find_outliers(plts_ms: Mapping[int, float]) -> dict[int, float]:
    """Return the page load times of a cell that are much longer or shorter than the others, keyed by repeat
    number. Return {} for fewer than FENCED_MIN loads."""
    if len(plts_ms) < FENCED_MIN:
        return {}
    low, middle, high = quantiles(plts_ms.values(), n=4, method="inclusive")
    slack = max(FENCE * (high - low), FENCE_SHARE_MIN * middle)
    low, high = low - slack, high + slack
    return {repeat: plt_ms for repeat, plt_ms in plts_ms.items() if not low <= plt_ms <= high}


def rank_biserial(differences: Sequence[float]) -> float | None:
    """Return the effect size of TFO, from -1 (all loads slower with TFO) to 1 (all faster). Return 0 if all
    differences are 0, and None if there are none. This is the matched-pairs rank-biserial correlation (Kerby
    2014). `differences`: for each pair, the page load time without TFO minus the time with TFO."""
    # Cohen's d would be huge, as its unit is the spread, which is small in an emulated network. Ranks are
    # also insensitive to outliers.
    moved = [difference for difference in differences if difference != 0]
    if not moved:
        return 0.0 if differences else None
    ranks = mid_ranks([abs(difference) for difference in moved])
    signed = (rank if difference > 0 else -rank for rank, difference in zip(ranks, moved, strict=True))
    return sum(signed) / sum(ranks)


def mid_ranks(values: Sequence[float]) -> list[float]:
    """Return the ranks of the values, from 1. Equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) + 1) / 2 for value in values]
