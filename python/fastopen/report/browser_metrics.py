"""Sentences on browser metrics: requests answered by the cache, and missing screenshots."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from fastopen.attribution.phrases import plural
from fastopen.statistics import BrowserMetrics, CellResult, Results


def cache_lines(results: Results, page: str) -> Iterator[str]:
    """What the browser's cache answered, row by row where that differs; and what was not recorded."""
    where: dict[str, list[str]] = defaultdict(list)
    for row, arms in results.comparisons(page).items():
        known = {
            (one.requests, one.from_cache, one.revalidated)
            for one in _metrics(results, arms.values())
            if one.requests is not None
        }
        # The same in every arm but where a browser does otherwise now and then.
        for requests, from_cache, revalidated in sorted(known, reverse=True)[:1]:
            words = (
                f"of {requests:g} requests {from_cache:g} were answered by the browser's cache and"
                f" {revalidated:g} confirmed by the origin (304)"
            )
            where[words].append(results.factors.name(row))
    for words, places in where.items():
        rows = f", RTT {'; '.join(places)}" if len(where) > 1 else ""
        yield f"Repeat view{rows}: {words}."
    resources = results.pages[page].resources
    unknown = sum(one.fresh_s is None and not one.validator for one in resources)
    if where and unknown:
        yield (
            f"Of {unknown} of the page's {len(resources)} resources nobody recorded whether they may be kept:"
            " they are loaded again."
        )


def missing_screenshot_lines(results: Results, page: str) -> Iterator[str]:
    """How many screenshots are missing, and why the first is."""
    cells = [cell for cell in results.cells if cell.cell.page == page]
    reasons = [reason for one in _metrics(results, cells) for reason in one.missing_screenshots]
    if reasons:
        yield f"{plural(len(reasons), 'load has', 'loads have')} no screenshot: {reasons[0]}."


def unmatched_lines(results: Results, page: str) -> Iterator[str]:
    """How many requests recorded bodies do not answer, and which is the first."""
    cells = [cell for cell in results.cells if cell.cell.page == page]
    requests = list(dict.fromkeys(one for found in _metrics(results, cells) for one in found.unmatched))
    if requests:
        words = plural(len(requests), "request was", "requests were")
        yield f"{words} for what the recording does not have (unmatched of loads), first {requests[0][:120]}"


def _metrics(results: Results, cells: Iterable[CellResult]) -> list[BrowserMetrics]:
    found = (results.browser_metrics.get(cell.cell.index) for cell in cells)
    return [one for one in found if one is not None]
