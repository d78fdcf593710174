"""Summaries of the loads of each cell: medians, and improvements over the baseline, the arm without TFO.

The improvement is (PLT without - PLT with) / PLT without of the two loads of one repeat, which ran in the
same world. A cell's improvement is the median of these paired ratios. It is signed: a slowdown is negative.
Invalid loads are counted and left out, and with them the pair that they would have made. A load that was
repeated counts only by its last attempt. If each repeat is a sample (`--vary`) and nothing else is left to
chance, the pairs show how far the answer moves, not how sure a median is.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from statistics import median, quantiles

from fastopen.analysis.statistics.bootstrap import FULL_MIN, VALUES_MIN, confidence_of, median_interval
from fastopen.analysis.statistics.bound import Bound, savings_bound
from fastopen.analysis.statistics.effect import rank_biserial
from fastopen.analysis.statistics.outliers import Outlier, find_outliers
from fastopen.common.collector import collector_paused
from fastopen.common.grouping import grouped
from fastopen.experiments import Cell, Comparison, Role, derive_seed
from fastopen.runs import LoadRow


@dataclass(frozen=True)
class Reason:
    """Why loads were invalid: a kind of the contract, how many loads it struck, and one example in words."""

    kind: str
    loads: int
    example: str


@dataclass(frozen=True)
class CellResult:
    """One cell. PLT in milliseconds, improvement in percent; None where nothing valid allows a figure."""

    cell: Cell
    loads: int
    invalid: int
    reasons: tuple[Reason, ...]
    plt_ms_median: float | None
    pairs: int
    improvement_percent: float | None
    improvement_ci95: tuple[float, float] | None
    """Of the median, as sure as `confidence`; where `varied`, what 95 % of the draws span. Without width
    where `deterministic`."""
    connections: int
    """Of all valid loads together."""
    syn_data_connections: int
    """How many of them carried data in their SYN."""
    saved_ms: float | None
    """Median over the pairs."""
    bound: Bound | None
    """The most that TFO can save here, the same for all arms of a comparison."""
    retransmitted: float | None
    """Segments a load, median."""
    plts_ms: Mapping[int, float]
    """Repeat to PLT of the valid loads."""
    improvements_percent: Mapping[int, float]
    """Repeat to improvement of each pair."""
    effect: float | None
    """Matched-pairs rank-biserial correlation, see rank_biserial."""
    outliers: tuple[Outlier, ...]
    """They are in all figures."""
    repeated: tuple[Reason, ...]
    """Why loads were done again. Those attempts are in no figure."""
    deterministic: bool
    """Whether a load comes out the same however often it is done, and did."""
    varied: bool
    """Whether nothing but what was drawn for each repeat moved the loads."""
    requests: float | None
    """Requests a valid load that the page has an answer to, median."""
    asked: int
    """How many loads the run was to do."""

    @property
    def beats_bound(self) -> bool:
        """Return True if the saving exceeds the time of handshakes, so that something else got faster too."""
        return self.bound is not None and self.bound.beaten_by(self.improvement_percent)

    @property
    def without_valid(self) -> bool:
        """Return True if all planned loads are invalid or missing."""
        return self.asked > 0 and self.loads == self.invalid

    @property
    def range90(self) -> tuple[float, float] | None:
        """Return the range of 90 % of the pairs' improvements; None for fewer than two."""
        return central(self.improvements_percent.values(), 0.9)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the range that tables and verdicts use: that of samples, else the interval of the median."""
        return self.range90 if self.varied and self.pairs >= FULL_MIN else self.improvement_ci95

    @property
    def confidence(self) -> float:
        """Return the probability that such an interval contains the median, 0 to 1; 1 for enough samples."""
        of_range = self.varied and self.pairs >= FULL_MIN
        return 1.0 if self.deterministic or of_range else confidence_of(self.pairs)


def summarise(
    cells: Sequence[Cell],
    loads: Iterable[LoadRow],
    seed: int,
    unchanging: Collection[Comparison] = (),
    asked: Mapping[Comparison, int] | None = None,
    *,
    vary: bool = False,
) -> list[CellResult]:
    """A result for each cell, in their order.

    `seed` is the experiment's, `unchanging` is what comes out the same each time (see
    `without_chance`), in repeats that are draws (`vary`) but for what is drawn, and `asked` is how many
    repeats were to be done (as many as were, if not given).
    """
    with collector_paused():
        attempts = grouped((load.cell, load) for load in loads)
        of_cell = {cell.index: _Loads.of(attempts.get(cell.index, [])) for cell in cells}
        none = _Loads.of([])
        baselines = {cell.comparison: of_cell[cell.index] for cell in cells if cell.arm.role is Role.BASELINE}
        return [
            _result(
                cell,
                of_cell[cell.index],
                baselines.get(cell.comparison, none),
                seed,
                len(of_cell[cell.index].counted) if asked is None else asked.get(cell.comparison, 0),
                without_chance=cell.comparison in unchanging,
                vary=vary,
            )
            for cell in cells
        ]


@dataclass(frozen=True)
class _Loads:
    """The loads of one cell."""

    superseded: list[LoadRow]
    counted: list[LoadRow]
    """The last attempts, which alone count."""
    valid: list[LoadRow]
    plts_ms: dict[int, float]
    """Repeat to PLT of the valid ones, in the order of repeats."""

    @classmethod
    def of(cls, attempts: list[LoadRow]) -> "_Loads":
        superseded = [load for load in attempts if load.superseded]
        counted = [load for load in attempts if not load.superseded] if superseded else attempts
        valid = [load for load in counted if load.valid]
        plts = {
            load.repeat: load.plt_ns / 1e6
            for load in sorted(valid, key=attrgetter("repeat"))
            if load.plt_ns is not None
        }
        return cls(superseded, counted, valid, plts)

    def total(self, name: str) -> int:
        return sum(map(attrgetter(name), self.valid))

    def middle(self, name: str) -> float | None:
        """The median of a field over the valid ones; None where there is none."""
        return median(map(attrgetter(name), self.valid)) if self.valid else None

    @cached_property
    def bound(self) -> Bound | None:
        """The most that a first flight can save, where these are without."""
        return savings_bound([*map(attrgetter("handshakes_ns", "plt_ns"), self.valid)])


def _result(
    cell: Cell, loads: _Loads, baseline: _Loads, seed: int, asked: int, *, without_chance: bool, vary: bool
) -> CellResult:
    plts, others = loads.plts_ms, {} if cell.arm.role is Role.BASELINE else baseline.plts_ms
    pairs = {repeat: (others[repeat], plt) for repeat, plt in plts.items() if others.get(repeat)}
    improvements = {repeat: 100 * (without - plt) / without for repeat, (without, plt) in pairs.items()}
    deterministic = without_chance and len(set(plts.values())) == 1 and len(set(others.values())) <= 1
    varied = vary and without_chance
    if varied:
        interval = _of_draws([*improvements.values()])
    elif deterministic:
        interval = next(((exact, exact) for exact in improvements.values()), None)
    else:
        interval = median_interval([*improvements.values()], derive_seed(seed, "interval", cell.index))
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
        bound=baseline.bound,
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


def _of_draws(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the range of 95 % of the samples; of few samples all of it, of fewer than VALUES_MIN None."""
    if len(values) >= FULL_MIN:
        return central(values, 0.95)
    return (min(values), max(values)) if len(values) >= VALUES_MIN else None


def central(values: Iterable[float], share: float) -> tuple[float, float] | None:
    """Return the range of the middle of the values, of this share of them; None for fewer than two."""
    listed = list(values)
    if len(listed) < 2:
        return None
    cuts = quantiles(listed, n=round(2 / (1 - share)), method="inclusive")
    return (cuts[0], cuts[-1])


def _reasons(loads: list[LoadRow]) -> tuple[Reason, ...]:
    """A load of several kinds counts in each, of several reasons of one kind once."""
    struck = grouped(reason for load in loads for reason in dict(reversed(load.invalid)).items())
    return tuple(Reason(kind, len(details), details[0]) for kind, details in sorted(struck.items()))
