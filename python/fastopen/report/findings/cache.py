"""Report how many requests of repeat views the browser's cache answered."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from fastopen.analysis.statistics import Results
from fastopen.report.model import Finding

RANK: Final = 83
SEVERITY: Final = "detail"


def findings(results: Results, page: str) -> Iterator[Finding]:
    where: dict[str, list[str]] = defaultdict(list)
    for row, arms in results.comparisons(page).items():
        known = {
            (one.requests, one.from_cache, one.revalidated)
            for one in (results.browser_metrics.get(cell.cell.index) for cell in arms.values())
            if one is not None and one.requests is not None
        }
        # If arms differ, which is rare, only the arm with the most requests is reported.
        for requests, from_cache, revalidated in sorted(known, reverse=True)[:1]:
            words = (
                f"of {requests:g} requests {from_cache:g} were answered by the browser's cache and"
                f" {revalidated:g} confirmed by the origin (304)"
            )
            where[words].append(results.factors.name(row))
    for words, places in where.items():
        rows = f", RTT {'; '.join(places)}" if len(where) > 1 else ""
        yield Finding("cache_answers", f"Repeat view{rows}: {words}.")
    resources = results.pages[page].resources
    unknown = sum(one.fresh_s is None and not one.validator for one in resources)
    if where and unknown:
        sentence = (
            f"The recording has no caching headers of {unknown} of the page's {len(resources)} resources, so"
            " they are loaded again."
        )
        yield Finding("cache_unknown", sentence, {"resources": unknown})
