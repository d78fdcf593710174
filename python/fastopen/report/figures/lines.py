"""Draw page load times over one setting, such as the round-trip time, a rate or the HTTP version."""

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Place, RunAnalysis, curves_of
from fastopen.analysis.statistics.intervals import interval_ends
from fastopen.analysis.statistics.protocols import mixed_http_warning
from fastopen.experiments import ARMS, Factor
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import first_panels, side_by_side, title_of
from fastopen.report.figures.style import arm_colour, arm_order, arm_shape, arm_tooltip, zoom

TITLE: Final = "page load time in s"


def plt_along(analysis: RunAnalysis, along: Factor) -> Figure | None:
    """Draw median page load times and their confidence intervals against the setting `along`, such as the
    RTT. Within a panel, no other setting varies. Values that are not numbers, such as HTTP versions, are
    drawn without lines. None if `along` does not vary."""
    every: list[dict[str, Any]] = []
    numeric = along.quantity.kind in ("int", "float")
    for page in analysis.results.pages:
        for name, places in curves_of(analysis.results, analysis.places(page), along.name).items():
            values = ((place.numbers if numeric else place.texts, place) for place in places)
            located = [(at, place) for known, place in values if (at := known.get(along.name)) is not None]
            if len({at for at, _ in located}) > 1:
                panel = title_of(analysis, page, name)
                every += [{"panel": panel, **row} for at, place in located for row in _rows(at, place)]
    rows, left = first_panels(every)
    if not rows:
        return None
    titles = dict.fromkeys(row["panel"] for row in rows)
    warning = mixed_http_warning(analysis.results, analysis.results.cells) if along.name == "tls" else ""
    return Figure(
        name=f"plt-by-{along.name.replace('_', '-')}",
        title=f"Page load time against {along.title}",
        caption="Points: median of the valid loads. Bars: its 95 % interval by order statistics, where there"
        f" are 6 loads or more.{left}{warning and f' {warning}'}",
        alt_text=f"Charts of page load time against {along.title}, by transport: " + ", ".join(titles),
        drawing=Drawing(side_by_side(rows, "panel", partial(_view, rows, along.heading, [*titles]))),
        rows=rows,
    )


def _rows(at: float | str, place: Place) -> Iterator[dict[str, Any]]:
    for arm, result in place.arms.items():
        if plts_ms := sorted(result.plts_ms.values()):
            usual = {"x": at, "arm": ARMS[arm].label, "n": len(plts_ms), "plt": median(plts_ms) / 1000}
            low, high = (ms and ms / 1000 for ms in median_span(plts_ms) or (None, None))
            yield {**usual, "low": low, "high": high}


def _view(rows: list[dict[str, Any]], x_title: str, titles: list[str], empty: alt.Chart, title: str) -> Any:
    """Draw the panel `title` into its chart `empty`. `rows`, `titles`: the data and titles of all panels."""
    # Each panel has its own time scale, because load times differ most between pages.
    top = max(row["high"] or row["plt"] for row in rows if row["panel"] == title)
    values = list(dict.fromkeys(row["x"] for row in rows))
    numbers = not any(isinstance(value, str) for value in values)
    base = empty.encode(color=arm_colour(rows))
    if numbers:
        scale = alt.Scale(domain=[0, 1.04 * max(values)])
        base = base.encode(x=alt.X("x:Q", title=x_title, scale=scale, axis=alt.Axis(tickCount=5)))
    else:
        base = base.encode(
            x=alt.X("x:N", title=x_title, sort=values, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("arm:N", sort=arm_order(rows)),
        )
    # Keep the topmost label within the axis. Otherwise, panels side by side would not align.
    axis = alt.Axis(labelFlush=True)
    y = alt.Y("plt:Q", title=TITLE, scale=alt.Scale(domain=[0, 1.06 * top], nice=True), axis=axis)
    lines = base.mark_line(strokeWidth=1.8).encode(y=y).add_params(zoom(name=f"zoom{titles.index(title)}"))
    bars = base.mark_rule(strokeWidth=1.6).encode(y=alt.Y("low:Q", title=TITLE), y2="high:Q")
    points = base.mark_point(filled=True, size=45, opacity=1).encode(
        y=y,
        shape=arm_shape(rows),
        tooltip=arm_tooltip(
            alt.Tooltip("x:Q" if numbers else "x:N", title=x_title),
            alt.Tooltip("plt:Q", title="median PLT in s", format=".3f"),
            alt.Tooltip("low:Q", title="interval from", format=".3f"),
            alt.Tooltip("high:Q", title="to", format=".3f"),
            alt.Tooltip("n:Q", title="loads"),
        ),
    )
    layers = (lines, bars, points) if numbers else (bars, points)
    return alt.layer(*layers).properties(width=280, height=170, title=title)


def median_span(ordered: Sequence[float]) -> tuple[float, float] | None:
    """Return a confidence interval for the median of sorted values. Its confidence level is at least 95 % for
    any distribution, or about 95 % for 1,000 values or more. None for fewer than 6 values."""
    # The interval goes from the k-th smallest to the k-th largest value. k is the largest number for which a
    # fair coin thrown n times gives fewer than k heads in at most 2.5 % of cases (David and Nagaraja, Order
    # Statistics, section 7.1).
    count = len(ordered)
    if not count:
        return None
    k = interval_ends(count)[0] if count < 1000 else int((count - 1.96 * count**0.5) / 2)
    return (ordered[k - 1], ordered[count - k]) if k else None
