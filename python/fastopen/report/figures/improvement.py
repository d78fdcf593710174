"""Draw savings as bars with intervals and upper bounds, and measured savings next to published ones."""

from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import RunAnalysis, axis_of
from fastopen.analysis.statistics import BEYOND_BOUND, BEYOND_BOUND_NOTE, CellResult
from fastopen.experiments import ARMS, HEADLINE
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import first_panels, places_along, side_by_side, small_multiples
from fastopen.report.figures.style import PUBLISHED_COLOUR, arm_colour, arm_order, arm_tooltip, by_value

TITLE: Final = "saved, % of PLT"
OURS, PUBLISHED = "measured", "published"


def improvement_bars(analysis: RunAnalysis) -> Figure | None:
    """Draw the saving by TFO as a bar for each page, network and setup. The x axis is the setting that
    explains the savings best (`axis_of`), such as the RTT. None if no saving is known."""
    axis = axis_of(analysis.results)
    places = list(places_along(analysis, axis))
    rows, left = first_panels(
        [
            {
                **where,
                "arm": ARMS[arm].label,
                **(saving := _saving(result)),
                "bound": None if result.bound is None else result.bound.percent,
                "mark": BEYOND_BOUND if result.beats_bound else "",
                "top": max(result.improvement_percent, saving["high"] or 0),
                "n": result.pairs,
            }
            for place, where in places
            for arm, result in place.arms.items()
            if result.improvement_percent is not None
        ]
    )
    if not rows:
        return None
    panels = {row["panel"] for row in rows}
    shown = (one for place, where in places if where["panel"] in panels for one in place.arms.values())
    note = analysis.results.bound_note(result for result in shown if result.beats_bound)
    return Figure(
        name="improvement",
        title="Page load time saved by TFO",
        caption="Bars: median over paired repeats of (off - on) / off, in percent; below zero it is slower."
        " Thin lines: 95 % interval of the median, or range of 90 % of samples (all, if under six)."
        " Long marks: the time of handshakes in a row without TFO, the most that it could save."
        f"{note and f' {note}'}{left}",
        alt_text="Bar charts of the improvement by TFO with its interval, for each page and network.",
        drawing=Drawing(_chart(rows, axis.heading)),
        rows=rows,
    )


def _saving(result: CellResult) -> dict[str, float | None]:
    low, high = result.interval if result.interval and not result.deterministic else (None, None)
    return {"gain": result.improvement_percent, "low": low, "high": high}


def _chart(rows: list[dict[str, Any]], x_title: str) -> Any:
    values = list(dict.fromkeys(row["x"] for row in rows))
    arms = len({row["arm"] for row in rows})
    axis = alt.Axis(labelAngle=0, labelLimit=0)
    place = alt.X("x:N", sort=values, title=x_title, axis=axis, scale=alt.Scale(paddingInner=0.25))
    base = alt.Chart().encode(x=place, xOffset=alt.XOffset("arm:N", sort=arm_order(rows)))
    # Leave room for a mark above the highest bar. Otherwise, the mark would push up the panel's heading.
    top = 1.12 * max(max(row["top"], row["bound"] or 0.0) for row in rows)
    room = alt.Scale(domainMax=top) if any(row["mark"] for row in rows) else alt.Scale()
    y = alt.Y("gain:Q", title=TITLE, scale=room)
    # The line of the interval is drawn over the bar, so it needs the same tooltip.
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


def published_comparison(analysis: RunAnalysis) -> Figure | None:
    """Draw measured and published savings by page and network; None if no network has both."""
    rows: list[dict[str, Any]] = []
    for page, place in analysis.all_places():
        theirs = analysis.results.published.get((page, place.comparison.network))
        ours = place.headline
        if theirs is None or ours is None or ours.improvement_percent is None:
            continue
        usual = {"page": page, "place": place.name}
        mark = BEYOND_BOUND if ours.beats_bound else ""
        rows.append({**usual, "who": OURS, **_saving(ours), "mark": mark})
        printed = theirs.improvement_percent_as_printed
        rows.append({**usual, "who": PUBLISHED, "gain": theirs.improvement_percent, "printed": printed})
    if not rows:
        return None
    sources = dict.fromkeys(cell.source for cell in analysis.results.published.values())
    note = f" {BEYOND_BOUND_NOTE}" if any(row.get("mark") for row in rows) else ""
    return Figure(
        name="published",
        title="Measured and published improvement",
        caption=f"Published: {'; '.join(sources)}, computed from its two times, so that a slowdown is below"
        f" zero. Lines: 95 % interval of ours, or range of 90 % of samples (all, if under six).{note}",
        alt_text="Improvement by TFO as measured and as published, for each page and network.",
        drawing=Drawing(side_by_side(rows, "page", _published_view).resolve_scale(x="shared")),
        rows=rows,
    )


def _published_view(empty: alt.Chart, page: str) -> Any:
    base = empty.encode(
        y=alt.Y("place:N", sort=None, title=None, axis=alt.Axis(labelLimit=0, grid=True)),
        color=by_value(alt.Color, "who", {OURS: HEADLINE.colour, PUBLISHED: PUBLISHED_COLOUR}),
    )
    intervals = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=TITLE), x2="high:Q")
    points = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=alt.X("gain:Q", title=TITLE, scale=alt.Scale(zero=True)),
        shape=by_value(alt.Shape, "who", {OURS: HEADLINE.shape, PUBLISHED: "diamond"}),
        tooltip=[
            alt.Tooltip("who:N", title="whose"),
            alt.Tooltip("gain:Q", title="saved %", format="+.1f"),
            alt.Tooltip("low:Q", title="interval from", format="+.1f"),
            alt.Tooltip("high:Q", title="to", format="+.1f"),
            alt.Tooltip("printed:Q", title="as printed %"),
        ],
    )
    marks = base.mark_text(dy=-9).encode(x="gain:Q", text="mark:N").transform_filter("datum.mark")
    return alt.layer(intervals, points, marks).properties(width=250, height=alt.Step(26), title=page)
