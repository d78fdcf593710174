"""Select page loads of a run, for validations that compare page load times."""

from collections.abc import Iterator, Sequence

from fastopen.contract import LoadRecord
from fastopen.runs import RunStore
from fastopen.runs.rows import LoadRow


def median_load(records: Sequence[LoadRecord]) -> LoadRecord:
    """Return the load with the median page load time, the faster load if two are in the middle."""
    return sorted(records, key=lambda record: record.plt_ns or 0)[(len(records) - 1) // 2]


def last_records(store: RunStore) -> Iterator[tuple[LoadRow, LoadRecord]]:
    """Yield the last attempt of each load of a run, with its record."""
    return store.load_records(row for row in store.loads() if not row.superseded)
