"""Sentences on browser metrics: requests answered by the cache, and missing screenshots."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from statistics import median

from fastopen.analysis.attribution.phrases import NBSP, plural, time, with_sign
from fastopen.analysis.statistics import BrowserMetrics, CellResult, Results
from fastopen.experiments import baseline_of, headline_of
from fastopen.report.grid import Column, Entry, Grid


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


def paint_grid(results: Results) -> Grid | None:
    """First and largest contentful paint of each cell, and what TFO saves of them; None without a browser."""
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
                    is_baseline = cell is baseline or saved is None
                    figures += [
                        Entry(f"{median(own.values()):.0f}" if own else "-"),
                        Entry("-" if is_baseline else with_sign(saved or 0.0)),
                    ]
                name = results.factors.name(place)
                rows.append((Entry(page), Entry(name), Entry(arm), *figures, Entry(str(len(own)))))
    if not rows:
        return None
    heads = (Column(name, "key") for name in ("page", "network", "arm"))
    columns = (*heads, *map(Column, ("FCP ms", "saves %", "LCP ms", "saves %", "n")))
    note = (
        "Medians of the valid loads that painted: first (FCP) and largest (LCP) contentful paint, as the"
        " browser reports them. Saves: median over paired repeats, as of page load times."
    )
    return Grid("First and largest contentful paint", columns, tuple(rows), note)


def paint_lines(results: Results, page: str) -> Iterator[str]:
    """What TFO saves of both paints, of the treatment that stands for all, row by row."""
    for place, arms in results.comparisons(page).items():
        cells = (baseline_of(arms), headline_of(arms))
        known = [results.browser_metrics.get(cell.cell.index) for cell in cells if cell is not None]
        if len(known) < 2 or known[0] is None or known[1] is None:
            continue
        parts = []
        for name, paints in (("first", "first_paints_ms"), ("largest", "largest_paints_ms")):
            before, after = getattr(known[0], paints), getattr(known[1], paints)
            saved = saved_percent(before, after)
            if saved is not None:
                pairs = f"n{NBSP}{len(before.keys() & after.keys())}"
                parts.append(f"{name} {time(median(before.values()))} (saves {with_sign(saved)} %, {pairs})")
        if parts:
            row = results.factors.where(place)
            yield f"Contentful paint without TFO {row}, and what TFO saves of it: {', '.join(parts)}."


def saved_percent(before: Mapping[int, float], after: Mapping[int, float]) -> float | None:
    """Median over the pairs of repeats; None of none."""
    paired = [(before[repeat], after[repeat]) for repeat in before.keys() & after.keys()]
    savings = [100 * (without - ms) / without for without, ms in paired if without]
    return median(savings) if savings else None


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
