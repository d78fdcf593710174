"""Summarise browsers' reports on page loads: use of the cache, paint times, and missing responses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from fastopen.common.grouping import grouped
from fastopen.contract import LoadRecord
from fastopen.experiments import Cell, Experiment
from fastopen.runs import LoadRow, RunStore


@dataclass(frozen=True)
class BrowserMetrics:
    """Figures that browsers reported on a cell's loads. `requests`, `from_cache` and `revalidated` are median
    numbers of requests over the valid loads; None without valid loads, or on the first visit to the page."""

    requests: float | None
    from_cache: float | None
    """The median number of requests that the browser's cache answered without a request to the origin."""
    revalidated: float | None
    """The median number of cached responses that the browser used after the origin confirmed them (304)."""
    missing_screenshots: tuple[str, ...]
    """The error of each load that lacks a requested screenshot."""
    unmatched: tuple[str, ...] = ()
    """Requests for which the recorded bodies contain no response, each listed once."""
    first_paints_ms: Mapping[int, float] = field(default_factory=dict)
    """First contentful paint (FCP) times of the valid loads that have one, keyed by repeat number."""
    largest_paints_ms: Mapping[int, float] = field(default_factory=dict)
    """Largest contentful paint (LCP) times of the valid loads that have one, keyed by repeat number."""


def browser_metrics(
    store: RunStore, experiment: Experiment, cells: Sequence[Cell], loads: Iterable[LoadRow]
) -> dict[int, BrowserMetrics]:
    """Return figures reported by browsers, keyed by cell index. Leave out cells without such figures."""
    setups = {cell.index: experiment.setups[cell.setup] for cell in cells}
    repeat = {index for index, setup in setups.items() if setup.client.view == "repeat"}
    wanted = repeat | {
        index
        for index, setup in setups.items()
        if setup.client.type.paints or setup.client.screenshot or setup.origins.bodies == "recorded"
    }
    counted = (row for row in loads if row.cell in wanted and not row.superseded)
    records = grouped((row.cell, (row.repeat, record)) for row, record in store.load_records(counted))
    return {index: _metrics(dict(found), repeat=index in repeat) for index, found in records.items()}


def _metrics(of_repeat: Mapping[int, LoadRecord], *, repeat: bool) -> BrowserMetrics:
    records, browsers = of_repeat.values(), [one.browser for one in of_repeat.values() if one.browser]
    valid = {number: record for number, record in sorted(of_repeat.items()) if record.valid}
    caching = [[request.cache for request in record.requests] for record in valid.values() if repeat]

    def paints_ms(name: str) -> dict[int, float]:
        times_ns = {number: getattr(one.browser, name) for number, one in valid.items() if one.browser}
        return {number: ns / 1e6 for number, ns in times_ns.items() if ns is not None}

    return BrowserMetrics(
        requests=median(map(len, caching)) if caching else None,
        from_cache=median(one.count("fresh") for one in caching) if caching else None,
        revalidated=median(one.count("revalidated") for one in caching) if caching else None,
        missing_screenshots=tuple(
            one.screenshot_error for one in browsers if one.screenshot_error is not None
        ),
        unmatched=tuple(dict.fromkeys(one for record in records for one in record.unmatched)),
        first_paints_ms=paints_ms("first_contentful_paint_ns"),
        largest_paints_ms=paints_ms("largest_contentful_paint_ns"),
    )
