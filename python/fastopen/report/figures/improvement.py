"""Draw savings as bars with intervals and upper bounds. Savings above the bound are marked."""

from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Place, Source
from fastopen.analysis.statistics import BEYOND_BOUND
from fastopen.experiments import ARMS
from fastopen.report.figures.encodings import arm_colour, arm_order, arm_tooltip
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import panels_of, small_multiples
from fastopen.report.figures.spread import interval

TITLE: Final = "saved, % of PLT"


def improvement_bars(source: Source) -> Figure | None:
    """Draw each comparison's improvement in percent over the factor of the x axis; None if none is known."""
    panels = panels_of(source)
    rows = [row for place, where in panels.each() for row in _rows(place, where)]
    if not rows:
        return None
    shown = (result for place, _ in panels.each() for result in place.arms.values())
    said = source.results.bound_note(result for result in shown if result.beats_bound)
    note = f" {said}" if said else ""
    return Figure(
        name="improvement",
        title="Page load time saved by TFO",
        caption="Bars: median over paired repeats of (off - on) / off, in percent; below zero it is slower."
        " Thin lines: 95 % interval (bootstrap, BCa), or the range of 90 % of the samples."
        " Long marks: the time of handshakes in a row without TFO, the most that it could save."
        f"{note}{panels.left_out}",
        alt_text="Bar charts of the improvement by TFO with its interval, for each page and network.",
        drawing=Drawing(_chart(rows, panels.heading)),
        rows=rows,
    )


def _rows(place: Place, where: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for arm, result in place.arms.items():
        if result.improvement_percent is None:
            continue
        low, high = interval(result)
        rows.append(
            {
                **where,
                "arm": ARMS[arm].label,
                "gain": result.improvement_percent,
                "low": low,
                "high": high,
                "bound": None if result.bound is None else result.bound.percent,
                "mark": BEYOND_BOUND if result.beats_bound else "",
                "top": max(result.improvement_percent, high or 0),
                "n": result.pairs,
            }
        )
    return rows


def _chart(rows: list[dict[str, Any]], heading: str) -> Any:
    values = list(dict.fromkeys(row["x"] for row in rows))
    arms = len({row["arm"] for row in rows})
    axis = alt.Axis(labelAngle=0, labelLimit=0)
    place = alt.X("x:N", sort=values, title=heading, axis=axis, scale=alt.Scale(paddingInner=0.25))
    base = alt.Chart().encode(x=place, xOffset=alt.XOffset("arm:N", sort=arm_order(rows)))
    # Leave room for a mark above the highest bar, which would otherwise push up the panel's heading.
    top = 1.12 * max(max(row["top"], row["bound"] or 0.0) for row in rows)
    room = alt.Scale(domainMax=top) if any(row["mark"] for row in rows) else alt.Scale()
    y = alt.Y("gain:Q", title=TITLE, scale=room)
    # The interval covers the middle of the bar, so it needs the same tooltip.
    tooltip = arm_tooltip(
        alt.Tooltip("place:N", title="network"),
        alt.Tooltip("gain:Q", title="saved %", format="+.1f"),
        alt.Tooltip("low:Q", title="interval from", format="+.1f"),
        alt.Tooltip("high:Q", title="to", format="+.1f"),
        alt.Tooltip("bound:Q", title="at most %", format=".1f"),
        alt.Tooltip("n:Q", title="pairs"),
    )
    bars = base.mark_bar().encode(y=y, color=arm_colour(rows), tooltip=tooltip)
    intervals = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("low:Q", title=TITLE), y2="high:Q", tooltip=tooltip
    )
    bounds = alt.Chart().mark_tick(thickness=2, opacity=1, width={"band": 1}).encode(x=place, y="bound:Q")
    marks = base.mark_text(dy=-7).encode(y="top:Q", text="mark:N", tooltip=tooltip)
    marks = marks.transform_filter("datum.mark")
    zero = alt.Chart().mark_rule(opacity=0.6).encode(y=alt.datum(0))
    longest = max(len(value) for value in values)
    width = min(600, max(170, len(values) * max(arms * 18 + 14, 8 * longest)))
    drawn = small_multiples(alt.layer(bars, zero, intervals, bounds, marks), rows, width, 170)
    return drawn.resolve_axis(x="independent", y="independent")
