"""Browser metrics of a cell: requests that its cache answered, and missing screenshots."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from fastopen.contract import LoadRecord
from fastopen.experiments import Cell, Experiment
from fastopen.runs import LoadRow, RunStore


@dataclass(frozen=True)
class BrowserMetrics:
    """The browser's metrics of one cell. Requests are medians of valid loads; None for first views."""

    requests: float | None
    from_cache: float | None
    """Answered by the browser's cache, without asking."""
    revalidated: float | None
    """Answered by the cache after the origin validated it (304)."""
    missing_screenshots: tuple[str, ...]
    """Why screenshots that were asked for are missing, of each such load."""
    unmatched: tuple[str, ...] = ()
    """Each request, once, that recorded bodies do not answer."""
    first_paints_ms: Mapping[int, float] = field(default_factory=dict)
    """Repeat to first contentful paint (FCP) of the valid loads that painted."""
    largest_paints_ms: Mapping[int, float] = field(default_factory=dict)
    """The same of largest contentful paint (LCP)."""


def browser_metrics(
    store: RunStore, experiment: Experiment, cells: Sequence[Cell], loads: Iterable[LoadRow]
) -> dict[int, BrowserMetrics]:
    """By the index of cells: of repeat views, and where screenshots or recorded bodies were asked for."""
    wanted = {cell.index for cell in cells if _has_metrics(experiment, cell)}
    counted = (row for row in loads if row.cell in wanted and not row.superseded)
    records: dict[int, dict[int, LoadRecord]] = defaultdict(dict)
    for row, record in store.load_records(counted):
        records[row.cell][row.repeat] = record
    repeat = {cell.index for cell in cells if experiment.setups[cell.setup].client.view == "repeat"}
    return {index: _metrics(found, repeat=index in repeat) for index, found in records.items()}


def _has_metrics(experiment: Experiment, cell: Cell) -> bool:
    client = experiment.setups[cell.setup].client
    bodies = experiment.setups[cell.setup].origins.bodies
    return client.type.paints or client.view == "repeat" or client.screenshot or bodies == "recorded"


def _metrics(of_repeat: Mapping[int, LoadRecord], *, repeat: bool) -> BrowserMetrics:
    made = _caching([*of_repeat.values()], repeat=repeat)
    painted = {
        number: record.browser
        for number, record in sorted(of_repeat.items())
        if record.valid and record.browser is not None
    }
    first = {number: one.first_contentful_paint_ns for number, one in painted.items()}
    largest = {number: one.largest_contentful_paint_ns for number, one in painted.items()}
    return replace(made, first_paints_ms=_ms(first), largest_paints_ms=_ms(largest))


def _ms(times_ns: Mapping[int, int | None]) -> dict[int, float]:
    return {number: ns / 1e6 for number, ns in times_ns.items() if ns is not None}


def _caching(records: Sequence[LoadRecord], *, repeat: bool) -> BrowserMetrics:
    browsers = [record.browser for record in records if record.browser is not None]
    missing = tuple(one.screenshot_error for one in browsers if one.screenshot_error is not None)
    unmatched = tuple(dict.fromkeys(one for record in records for one in record.unmatched))
    valid = [record for record in records if record.valid]
    if not repeat or not valid:
        return BrowserMetrics(None, None, None, missing, unmatched)
    caching = [[request.cache for request in record.requests] for record in valid]
    return BrowserMetrics(
        requests=median(len(one) for one in caching),
        from_cache=median(one.count("fresh") for one in caching),
        revalidated=median(one.count("revalidated") for one in caching),
        missing_screenshots=missing,
        unmatched=unmatched,
    )
