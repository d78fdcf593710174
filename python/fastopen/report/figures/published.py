"""Draw measured improvements next to published ones."""

from typing import Any

import altair as alt

from fastopen.analysis.attribution import Source
from fastopen.analysis.statistics import BEYOND_BOUND, BEYOND_BOUND_NOTE
from fastopen.experiments import HEADLINE
from fastopen.report.figures.figure import ROWS, Drawing, Figure
from fastopen.report.figures.spread import interval
from fastopen.report.figures.style import PUBLISHED_COLOUR

OURS, PUBLISHED = "measured", "published"


def published_comparison(source: Source) -> Figure | None:
    """Draw a panel for each page with a row for each network; None if no published figure can be compared."""
    rows: list[dict[str, Any]] = []
    for page, place in source.all_places():
        theirs = source.results.published.get((page, place.comparison.network))
        ours = place.headline
        if theirs is None or ours is None or ours.improvement_percent is None:
            continue
        low, high = interval(ours)
        usual = {"page": page, "place": place.name}
        gain = ours.improvement_percent
        mark = BEYOND_BOUND if ours.beats_bound else ""
        rows.append({**usual, "who": OURS, "gain": gain, "low": low, "high": high, "mark": mark})
        printed = theirs.improvement_percent_as_printed
        rows.append({**usual, "who": PUBLISHED, "gain": theirs.improvement_percent, "printed": printed})
    if not rows:
        return None
    sources = dict.fromkeys(cell.source for cell in source.results.published.values())
    note = f" {BEYOND_BOUND_NOTE}" if any(row.get("mark") for row in rows) else ""
    return Figure(
        name="published",
        title="Measured and published improvement",
        caption=f"Published: {'; '.join(sources)}, computed from"
        f" its two times, so that a slowdown is below zero. Lines: 95 % interval of ours, or the range of"
        f" 90 % of the samples.{note}",
        alt_text="Improvement by TFO as measured and as published, for each page and network.",
        drawing=Drawing(_chart(rows)),
        rows=rows,
    )


def _chart(rows: list[dict[str, Any]]) -> alt.ConcatChart:
    views = [_view(page) for page in dict.fromkeys(row["page"] for row in rows)]
    side_by_side = alt.concat(*views, columns=min(2, len(views)), data=ROWS)
    chart: alt.ConcatChart = side_by_side.resolve_scale(x="shared")
    return chart


def _view(page: str) -> Any:
    colours = alt.Scale(domain=[OURS, PUBLISHED], range=[HEADLINE.colour, PUBLISHED_COLOUR])
    shapes = alt.Scale(domain=[OURS, PUBLISHED], range=[HEADLINE.shape, "diamond"])
    base = (
        alt.Chart()
        .transform_filter(alt.FieldEqualPredicate(field="page", equal=page))
        .encode(
            y=alt.Y("place:N", sort=None, title=None, axis=alt.Axis(labelLimit=0, grid=True)),
            color=alt.Color("who:N", scale=colours, title=None),
        )
    )
    title = "saved, % of PLT"
    intervals = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    points = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=alt.X("gain:Q", title=title, scale=alt.Scale(zero=True)),
        shape=alt.Shape("who:N", scale=shapes, title=None),
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
