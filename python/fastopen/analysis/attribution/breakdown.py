"""The loads of a run taken apart: the mean critical path of each cell, and one load to be shown whole."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fastopen.analysis.attribution.critical_path import critical_path
from fastopen.analysis.attribution.segments import CriticalPath, Kind
from fastopen.common.grouping import grouped
from fastopen.contract import LoadRecord
from fastopen.experiments import loaded_with
from fastopen.runs import LoadRow, RunStore

# A load of fifty requests takes two milliseconds to read and take apart; more loads would change no mean.
LOADS_MAX: Final = 1_000


@dataclass(frozen=True)
class Breakdown:
    """The mean over loads of one cell, in milliseconds; the kinds add up to the page load time."""

    loads: int
    """How many were taken apart: of a large run not all."""
    plt_ms: float
    kinds_ms: dict[Kind, float]
    handshakes: float
    """How many handshakes are on the path."""
    ready_ms: float
    connections: float

    def share(self, kind: Kind) -> float:
        """Return the share of this kind in the page load time, 0 to 1."""
        return self.kinds_ms[kind] / self.plt_ms if self.plt_ms else 0.0

    def changes_ms(self, after: "Breakdown") -> dict[Kind, float]:
        """By how much each kind takes longer in `after`; the changes add up to that of the page load time."""
        return {kind: after.kinds_ms[kind] - self.kinds_ms[kind] for kind in Kind}


@dataclass(frozen=True)
class Shown:
    """A whole load: the valid one with the median page load time of its cell (the lower one of two)."""

    record: LoadRecord
    path: CriticalPath


@dataclass(frozen=True)
class Attribution:
    """By the index of cells; a cell without a valid load is missing in both."""

    breakdowns: dict[int, Breakdown]
    shown: dict[int, Shown]


def attribute(store: RunStore, rows: Iterable[LoadRow], loads_max: int = LOADS_MAX) -> Attribution:
    """Takes apart the valid loads of a run, of each cell equally many where there are more than `loads_max`.

    Which ones is decided by how near they are to the median page load time, so that it is the same each time.
    """
    experiment, pages = store.experiment(), store.pages()
    valid = (row for row in rows if row.valid and not row.superseded and row.plt_ns is not None)
    of_cell = grouped((row.cell, row) for row in valid)
    cells = {cell.index: cell for cell in store.cells() if cell.index in of_cell}
    each = max(1, loads_max // max(len(cells), 1))
    breakdowns: dict[int, Breakdown] = {}
    shown: dict[int, Shown] = {}
    for index, cell in cells.items():
        taken = []
        for row, record in store.load_records(_nearest_the_median(of_cell[index], each)):
            _, client = loaded_with(experiment, cell, row.repeat)
            path = critical_path(pages[cell.page], record, client)
            if path is None:
                # Seen at the origins alone, as the other loads of its cell.
                break
            taken.append(Shown(record, path))
        if taken:
            breakdowns[index], shown[index] = _mean(taken), taken[0]
    return Attribution(breakdowns, shown)


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
