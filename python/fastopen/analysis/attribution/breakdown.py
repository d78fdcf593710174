"""Break down the page load times of a run: each cell's mean critical path, and the load that reports show."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fastopen.analysis.attribution.critical_path import CriticalPath, Kind, critical_path
from fastopen.analysis.statistics import CellResult, Results
from fastopen.common.grouping import grouped
from fastopen.contract import LoadRecord
from fastopen.experiments import headline_of, loaded_with
from fastopen.runs import LoadRow, RunStore

# The maximum number of loads to analyse. Each takes about 2 ms, and more loads hardly change the means.
LOADS_MAX: Final = 1_000


@dataclass(frozen=True)
class Breakdown:
    """Means over the loads of one cell. The values of `kinds_ms` add up to `plt_ms`."""

    loads: int
    """The number of analysed loads. In a large run, only some of the cell's loads are analysed."""
    plt_ms: float
    kinds_ms: dict[Kind, float]
    handshakes: float
    """The mean number of handshakes on the critical path."""
    ready_ms: float
    """The time for which requests on the critical path were queued only for lack of a free connection."""
    connections: float

    def share(self, kind: Kind) -> float:
        """Return the fraction of the page load time that this kind of wait takes, 0 to 1."""
        return self.kinds_ms[kind] / self.plt_ms if self.plt_ms else 0.0

    def changes_ms(self, after: "Breakdown") -> dict[Kind, float]:
        """Return how much longer each kind of wait is in `after`, in ms. The sum is the change of the PLT."""
        return {kind: after.kinds_ms[kind] - self.kinds_ms[kind] for kind in Kind}


@dataclass(frozen=True)
class Shown:
    """The load that reports show for a cell. All arms show the `median_repeat` of the preferred treatment, so
    that they are compared within one repeat. If an arm lacks it, the load with the (lower) median PLT."""

    record: LoadRecord
    path: CriticalPath


@dataclass(frozen=True)
class Attribution:
    """Breakdowns and shown loads by cell index, for cells with a valid load observed at the client."""

    breakdowns: dict[int, Breakdown]
    shown: dict[int, Shown]


def attribute(
    store: RunStore, rows: Iterable[LoadRow], results: Results, loads_max: int = LOADS_MAX
) -> Attribution:
    """Break down the page load times of a run. Each cell gets an equal share of `loads_max`, but at least one
    load: the valid loads nearest to the cell's median PLT, so that the choice is deterministic."""
    valid = (row for row in rows if row.valid and not row.superseded and row.plt_ns is not None)
    of_cell = grouped((row.cell, row) for row in valid)
    each = max(1, loads_max // max(len(of_cell), 1))
    repeats = {
        result.cell.index: median_repeat(headline_of(arms))
        for page in results.pages
        for arms in results.comparisons(page).values()
        for result in arms.values()
    }
    breakdowns: dict[int, Breakdown] = {}
    shown: dict[int, Shown] = {}
    for cell in (result.cell for result in results.cells if result.cell.index in of_cell):
        nearest = _nearest_the_median(of_cell[cell.index], each)
        best = next((row for row in of_cell[cell.index] if row.repeat == repeats[cell.index]), nearest[0])
        taken: dict[int, Shown] = {}
        for row, record in store.load_records([best, *(row for row in nearest if row is not best)]):
            _, client = loaded_with(results.experiment, cell, row.repeat)
            path = critical_path(results.pages[cell.page], record, client)
            if path is None:
                # Only the origins observed this load, and so all loads of this cell.
                break
            taken[row.repeat] = Shown(record, path)
        if taken:
            shown[cell.index] = taken[best.repeat]
            breakdowns[cell.index] = _mean([taken[row.repeat] for row in nearest])
    return Attribution(breakdowns, shown)


def median_repeat(cell: CellResult | None) -> int | None:
    """Return the first of the repeats whose saving is nearest to the median saving; None without savings."""
    if cell is None or cell.improvement_percent is None:
        return None
    off = {one: abs(saving - cell.improvement_percent) for one, saving in cell.improvements_percent.items()}
    return min(off, key=lambda one: (off[one], one))


def _nearest_the_median(rows: Sequence[LoadRow], count: int) -> list[LoadRow]:
    ordered = sorted(rows, key=lambda row: (row.plt_ns or 0, row.repeat))
    middle = (len(ordered) - 1) // 2
    return [ordered[at] for at in sorted(range(len(ordered)), key=lambda at: abs(at - middle))[:count]]


def _mean(taken: Sequence[Shown]) -> Breakdown:
    count = len(taken)
    paths = [one.path for one in taken]
    return Breakdown(
        loads=count,
        plt_ms=sum(path.plt_ns for path in paths) / count / 1e6,
        kinds_ms={kind: sum(path.total_ns(kind) for path in paths) / count / 1e6 for kind in Kind},
        handshakes=sum(path.count(Kind.HANDSHAKE) for path in paths) / count,
        ready_ms=sum(path.ready_ns for path in paths) / count / 1e6,
        connections=sum(one.record.connection_count for one in taken) / count,
    )
