"""What the loads of each cell come to: medians, and improvements over the arm without TFO.

Improvement is (PLT off - PLT on) / PLT off of the two loads of one repeat, which ran in the same world; a
cell's improvement is the median of these paired ratios. It is signed: a slowdown is negative. Invalid loads
are counted and left out, and with them the pair that they would have made.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from fastopen.experiments import Cell, derive_seed
from fastopen.runs import LoadRow
from fastopen.statistics.bootstrap import median_interval


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
    connections: int
    """Of all valid loads together."""
    syn_data_connections: int
    """How many of them carried data in their SYN."""
    saved_ms: float | None
    """Median over the pairs."""
    handshakes_ms: float | None
    """The longest handshakes in a row of the loads without TFO, median: the most that TFO can save."""
    retransmitted: float | None
    """Segments a load, median."""

    @property
    def beats_bound(self) -> bool:
        """Whether more was saved than handshakes took, by more than two in a hundred and a millisecond."""
        if self.saved_ms is None or self.handshakes_ms is None:
            return False
        return self.saved_ms > self.handshakes_ms * 1.02 + 1


def summarise(cells: Sequence[Cell], loads: Iterable[LoadRow], seed: int) -> list[CellResult]:
    """A result for each cell, in their order. `seed` is the experiment's."""
    of_cell: dict[int, list[LoadRow]] = defaultdict(list)
    for load in loads:
        of_cell[load.cell].append(load)
    baselines = {cell.comparison: cell.index for cell in cells if cell.arm.transport == "tcp"}
    return [
        _result(cell, of_cell[cell.index], of_cell.get(baselines.get(cell.comparison, -1), []), seed)
        for cell in cells
    ]


def _result(cell: Cell, loads: list[LoadRow], baseline: list[LoadRow], seed: int) -> CellResult:
    plts_ns = _plts(loads)
    ratios: list[float] = []
    saved_ns: list[int] = []
    if cell.arm.transport != "tcp":
        without_ns = _plts(baseline)
        ratios = [
            100 * (without_ns[repeat] - plt_ns) / without_ns[repeat]
            for repeat, plt_ns in sorted(plts_ns.items())
            if without_ns.get(repeat)
        ]
        saved_ns = [without_ns[repeat] - plt for repeat, plt in plts_ns.items() if without_ns.get(repeat)]
    handshakes_ns = [load.handshakes_ns for load in baseline if load.valid]
    valid = [load for load in loads if load.valid]
    return CellResult(
        cell=cell,
        loads=len(loads),
        invalid=len(loads) - len(valid),
        reasons=_reasons(loads),
        plt_ms_median=median(plts_ns.values()) / 1e6 if plts_ns else None,
        pairs=len(ratios),
        improvement_percent=median(ratios) if ratios else None,
        improvement_ci95=median_interval(ratios, derive_seed(seed, "interval", cell.index)),
        connections=sum(load.connections for load in valid),
        syn_data_connections=sum(load.syn_data_connections for load in valid),
        saved_ms=median(saved_ns) / 1e6 if saved_ns else None,
        handshakes_ms=median(handshakes_ns) / 1e6 if handshakes_ns else None,
        retransmitted=median(load.retransmitted for load in valid) if valid else None,
    )


def _plts(loads: list[LoadRow]) -> dict[int, int]:
    """Repeat to PLT in nanoseconds, of the valid loads."""
    return {load.repeat: load.plt_ns for load in loads if load.valid and load.plt_ns is not None}


def _reasons(loads: list[LoadRow]) -> tuple[Reason, ...]:
    """A load of several kinds counts in each, of several reasons of one kind once."""
    struck: dict[str, list[str]] = defaultdict(list)
    for load in loads:
        if not load.valid:
            for kind, detail in dict(reversed(load.invalid)).items():
                struck[kind].append(detail)
    return tuple(Reason(kind, len(details), details[0]) for kind, details in sorted(struck.items()))
