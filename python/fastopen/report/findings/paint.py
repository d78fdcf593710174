"""Report first and largest contentful paint, and their savings by TFO."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Final

from fastopen.analysis.statistics import Results
from fastopen.common.grid import Entry, Grid, Value
from fastopen.common.phrases import NBSP, time, with_sign
from fastopen.experiments import baseline_of, headline_of
from fastopen.report.entries import cell_columns, cell_heads, known
from fastopen.report.model import Finding

RANK: Final = 82
SEVERITY: Final = "detail"


def paint_grid(results: Results) -> Grid | None:
    """Return a table of the paint times of cells and their savings by TFO; None if no paint time is known."""
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
                heads = cell_heads(page, results.factors.name(place), arm)
                rows.append((*heads, *figures, Entry(str(len(own)))))
    if not rows:
        return None
    columns = cell_columns("FCP ms", "saves %", "LCP ms", "saves %", "n")
    note = (
        "Medians of the valid loads that painted: first (FCP) and largest (LCP) contentful paint, as the"
        " browser reports them. Saves: median over paired repeats, as of page load times."
    )
    return Grid("First and largest contentful paint", columns, tuple(rows), note)


def findings(results: Results, page: str) -> Iterator[Finding]:
    for place, arms in results.comparisons(page).items():
        cells = (baseline_of(arms), headline_of(arms))
        metrics = [results.browser_metrics.get(cell.cell.index) for cell in cells if cell is not None]
        if len(metrics) < 2 or None in metrics:
            continue
        parts: list[str] = []
        figures: dict[str, Value] = {}
        for name, paints in (("first", "first_paints_ms"), ("largest", "largest_paints_ms")):
            before, after = (getattr(one, paints) for one in metrics)
            saved = saved_percent(before, after)
            if saved is not None:
                ms, pairs = median(before.values()), len(before.keys() & after.keys())
                parts.append(f"{name} {time(ms)} (saves {with_sign(saved)} %, n{NBSP}{pairs})")
                figures |= {f"{name}_ms": ms, f"{name}_saved_percent": saved, f"{name}_pairs": pairs}
        if parts:
            row = results.factors.where(place)
            sentence = f"Contentful paint without TFO {row}, and what TFO saves of it: {', '.join(parts)}."
            yield Finding("paint", sentence, figures)


def saved_percent(before: Mapping[int, float], after: Mapping[int, float]) -> float | None:
    """Return the median saving over pairs of repeats, in percent; None if there are no pairs."""
    paired = [(before[repeat], after[repeat]) for repeat in before.keys() & after.keys()]
    savings = [100 * (without - ms) / without for without, ms in paired if without]
    return median(savings) if savings else None
