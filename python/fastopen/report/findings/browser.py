"""Report the requests, contentful paints, cache hits and missing screenshots of page loads in browsers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median

from fastopen.analysis.statistics import Results
from fastopen.common.grid import Entry, Grid, entries
from fastopen.common.grouping import grouped
from fastopen.common.phrases import capitalised, ends, listed, plural, sizes, times, with_sign
from fastopen.experiments import baseline_of, headline_of, requested_urls
from fastopen.report.findings import Finding, finds
from fastopen.report.shared_columns import cell_columns, known


@finds(rank=81, severity="detail")
def missing_requests(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding for each client that requested only a part of the page's resources."""
    wanted = len(requested_urls(results.pages[page]))
    least: dict[str, float] = {}
    for result in results.cells:
        client = results.experiment.setups[result.cell.setup].client
        partial = result.cell.page == page and not client.type.loads_everything
        if partial and result.requests is not None:
            least[client.label] = min(result.requests, least.get(client.label, result.requests))
    for name, requests in least.items():
        if requests < wanted:
            sentence = (
                f"{name} requested {requests:g} of the {wanted} resources that the load event waits for."
            )
            yield Finding("requests_missing", sentence, {"requests": requests, "resources": wanted})


@finds(rank=82, severity="detail")
def contentful_paints(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding on the first and largest contentful paint, over all networks and settings."""
    found: dict[str, list[float]] = defaultdict(list)
    for arms in results.comparisons(page).values():
        cells = (baseline_of(arms), headline_of(arms))
        metrics = [results.browser_metrics.get(cell.cell.index) for cell in cells if cell is not None]
        if len(metrics) < 2 or None in metrics:
            continue
        for name, paints in (("first", "first_paints_ms"), ("largest", "largest_paints_ms")):
            before, after = (getattr(one, paints) for one in metrics)
            saved = saved_percent(before, after)
            if saved is not None:
                found[f"{name}_ms"].append(median(before.values()))
                found[f"{name}_saved_percent"].append(saved)
                found[f"{name}_pairs"].append(len(before.keys() & after.keys()))
    if found:
        parts = [
            f"{name} contentful paint takes {times(min(ms), max(ms))} without TFO"
            f" (saving {ends(found[f'{name}_saved_percent'])}, {sizes(found[f'{name}_pairs'])})"
            for name in ("first", "largest")
            if (ms := found[f"{name}_ms"])
        ]
        figures = {name: values[0] for name, values in found.items() if len(values) == 1}
        yield Finding("paint", f"{capitalised(listed(parts))}.", figures)


@finds(rank=83, severity="detail")
def cache_answers(results: Results, page: str) -> Iterator[Finding]:
    """Yield findings on answers from the browser's cache, and on resources with unknown caching headers."""
    answers: list[tuple[str, str]] = []
    for row, arms in results.comparisons(page).items():
        found = (results.browser_metrics.get(cell.cell.index) for cell in arms.values())
        counts = (
            (one.requests, one.from_cache, one.revalidated)
            for one in found
            if one is not None and one.requests is not None
        )
        # If arms differ, which is rare, only the arm with the most requests is reported.
        if most := max(counts, default=None):
            words = (
                f"of {most[0]:g} requests {most[1]:g} were answered by the browser's cache and"
                f" {most[2]:g} confirmed by the origin (304)"
            )
            answers.append((words, results.factors.name(row)))
    where = grouped(answers)
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


@finds(rank=84, severity="warning")
def missing_screenshots(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding if loads of `page` lack the requested screenshot."""
    missing = [reason for one in results.metrics_of(page) for reason in one.missing_screenshots]
    if missing:
        words = plural(len(missing), "load has", "loads have")
        yield Finding("screenshots_missing", f"{words} no screenshot: {missing[0]}.", {"loads": len(missing)})


@finds(rank=85, severity="detail")
def unmatched_requests(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding if loads of `page` requested resources that are not in the recording."""
    requests = list(dict.fromkeys(one for found in results.metrics_of(page) for one in found.unmatched))
    if requests:
        words = plural(len(requests), "request was", "requests were")
        sentence = (
            f"{words} for resources outside the recording (unmatched in loads), first {requests[0][:120]}"
        )
        yield Finding("unmatched_requests", sentence, {"requests": len(requests)})


def paint_grid(results: Results) -> Grid:
    """Return a table of first and largest contentful paint times, with the percentage of each time that TFO
    saves. It has a row for each page, network and arm for which the browser reported paints."""
    rows = []
    for page in results.pages:
        for place, arms in results.comparisons(page).items():
            baseline = baseline_of(arms)
            without = None if baseline is None else results.browser_metrics.get(baseline.cell.index)
            for arm, cell in arms.items():
                metrics = results.browser_metrics.get(cell.cell.index)
                if metrics is None or not metrics.first_paints_ms:
                    continue
                figures = []
                for paints in ("first_paints_ms", "largest_paints_ms"):
                    own = getattr(metrics, paints)
                    saved = saved_percent({} if without is None else getattr(without, paints), own)
                    figures.append(known(median(own.values()) if own else None, "{:.0f}".format))
                    figures.append(known(None if cell is baseline else saved, with_sign))
                heads = entries(page, results.factors.name(place), arm)
                rows.append((*heads, *figures, Entry(str(len(own)))))
    columns = cell_columns("FCP ms", "saves %", "LCP ms", "saves %", "n")
    note = (
        "Medians of the valid loads that painted: first (FCP) and largest (LCP) contentful paint, as the"
        " browser reports them. Saves: median over paired repeats, as of page load times."
    )
    return Grid("First and largest contentful paint", columns, tuple(rows), note)


def saved_percent(before: Mapping[int, float], after: Mapping[int, float]) -> float | None:
    """Return the median saving, in percent, of times with TFO (`after`) compared with times without it
    (`before`). Both map repeats to times. Repeats in only one are ignored. None if no repeat is in both."""
    paired = [(before[repeat], after[repeat]) for repeat in before.keys() & after.keys()]
    savings = [100 * (without - ms) / without for without, ms in paired if without]
    return median(savings) if savings else None
