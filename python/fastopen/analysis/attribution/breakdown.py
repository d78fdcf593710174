"""Divide page load times into kinds of wait on the critical path, and choose the loads that reports show."""

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
LOADS_MAX: Final = 2_000


@dataclass(frozen=True)
class Breakdown:
    """The mean page load time of a cell's loads, divided into kinds of wait on the critical path."""

    loads: int
    """The number of analysed loads. In a large run, only some of the loads are analysed."""
    plt_ms: float
    kinds_ms: dict[Kind, float]
    """The mean time that each kind of wait takes on the critical path. The times add up to `plt_ms`."""
    handshakes: float
    """The mean number of TCP handshakes on the critical path."""
    ready_ms: float
    """The mean time that requests on the critical path were queued only because no connection was free."""
    connections: float
    """The mean number of connections of a load, including connections that are not on the critical path."""

    def share(self, kind: Kind) -> float:
        """Return the fraction of the page load time that waits of this `kind` take, 0 to 1."""
        return self.kinds_ms[kind] / self.plt_ms if self.plt_ms else 0.0

    def changes_ms(self, after: "Breakdown", least_ms: float = 0.0) -> dict[Kind, float]:
        """Return the change in each kind of wait from this breakdown to `after`, in ms. It is positive if the
        wait grows. All of them add up to the change in page load time. Leave out those below `least_ms`."""
        changes = {kind: after.kinds_ms[kind] - self.kinds_ms[kind] for kind in Kind}
        return {kind: by for kind, by in changes.items() if abs(by) >= least_ms}


@dataclass(frozen=True)
class Shown:
    """An example load of a cell for reports (`record`), and the critical path of this load. The examples with
    and without TFO are from the repeat whose saving is nearest to the median saving. If a cell has no valid
    load in this repeat, its example is the load with the median page load time."""

    record: LoadRecord
    path: CriticalPath


@dataclass(frozen=True)
class Attribution:
    """The mean critical path (`breakdowns`) and an example load (`shown`) of each cell, keyed by cell index.
    Cells are left out if no load is valid, or if the loads were observed only at the origins."""

    breakdowns: dict[int, Breakdown]
    shown: dict[int, Shown]


def attribute(
    store: RunStore, rows: Iterable[LoadRow], results: Results, loads_max: int = LOADS_MAX
) -> Attribution:
    """Divide the page load times of a run into kinds of wait, and choose the example loads for reports.
    `rows`: all loads of the run. `loads_max`: the maximum number of loads to analyse, shared equally among
    the cells, with at least one for each cell. Loads near the median page load time are preferred."""
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
                # Only the origins observed this load. The same holds for all other loads of the cell.
                break
            taken[row.repeat] = Shown(record, path)
        if taken:
            shown[cell.index] = taken[best.repeat]
            breakdowns[cell.index] = _mean([taken[row.repeat] for row in nearest])
    return Attribution(breakdowns, shown)


def median_repeat(cell: CellResult | None) -> int | None:
    """Return the number of the repeat whose saving by TFO is nearest to the median saving of `cell`. If
    several are equally near, return the lowest number. Return None if no saving is known."""
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
