"""What TFO saves: bars with intervals, and beside them the most that it could."""

from typing import Any, Final

import altair as alt

from fastopen.attribution import Kind, Place
from fastopen.figures.encodings import arm_colour, arm_order, arm_tooltip, panels
from fastopen.figures.figure import ROWS, Drawing, Figure
from fastopen.figures.sources import Source, interval
from fastopen.figures.style import ARM_NAMES

TITLE: Final = "saved, % of PLT"


def improvement_bars(source: Source) -> Figure | None:
    """Improvement in percent of each comparison, a panel for each page; None where nothing was compared."""
    rows = [
        row for page in source.results.pages for place in source.places(page) for row in _rows(page, place)
    ]
    if not rows:
        return None
    return Figure(
        name="improvement",
        title="What TFO saves of the page load time",
        caption="Bars: median over paired repeats of (off - on) / off, in percent; below zero it is slower."
        " Thin lines: 95 % interval (bootstrap, BCa). Long marks: the share of the page load time that the"
        " handshakes on the critical path take without TFO, the most that it could save there.",
        alt_text="Bar charts of the improvement by TFO with its interval, for each page and network.",
        drawing=Drawing(_chart(rows)),
        rows=rows,
    )


def _rows(page: str, place: Place) -> list[dict[str, Any]]:
    off = place.breakdowns.get("off")
    bound = None if off is None else 100 * off.share(Kind.HANDSHAKE)
    rows = []
    for arm, result in place.arms.items():
        if result.improvement_percent is None:
            continue
        low, high = interval(result)
        rows.append(
            {
                "page": page,
                "place": place.name,
                "arm": ARM_NAMES[arm],
                "gain": result.improvement_percent,
                "low": low,
                "high": high,
                "bound": bound,
                "n": result.pairs,
            }
        )
    return rows


def _chart(rows: list[dict[str, Any]]) -> alt.FacetChart:
    places = len({row["place"] for row in rows})
    arms = len({row["arm"] for row in rows})
    long_names = max(len(row["place"]) for row in rows) > 10
    axis = alt.Axis(labelAngle=-35 if long_names else 0, labelLimit=0)
    place = alt.X("place:N", sort=None, title=None, axis=axis, scale=alt.Scale(paddingInner=0.25))
    base = alt.Chart().encode(x=place, xOffset=alt.XOffset("arm:N", sort=arm_order(rows)))
    y = alt.Y("gain:Q", title=TITLE)
    # Of the interval as well: it stands where one points at a bar.
    tooltip = arm_tooltip(
        alt.Tooltip("place:N", title="network"),
        alt.Tooltip("gain:Q", title="saved %", format="+.1f"),
        alt.Tooltip("low:Q", title="interval from", format="+.1f"),
        alt.Tooltip("high:Q", title="to", format="+.1f"),
        alt.Tooltip("bound:Q", title="handshakes on the path %", format=".1f"),
        alt.Tooltip("n:Q", title="pairs"),
    )
    bars = base.mark_bar().encode(y=y, color=arm_colour(rows), tooltip=tooltip)
    intervals = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("low:Q", title=TITLE), y2="high:Q", tooltip=tooltip
    )
    bounds = alt.Chart().mark_tick(thickness=2, opacity=1, width={"band": 1}).encode(x=place, y="bound:Q")
    zero = alt.Chart().mark_rule(opacity=0.6).encode(y=alt.datum(0))
    width = min(640, max(260, places * (arms * 22 + 18)))
    pages = len({row["page"] for row in rows})
    chart: alt.FacetChart = (
        alt.layer(bars, zero, intervals, bounds)
        .properties(width=width, height=170)
        .facet(panels("page", rows), columns=2 if pages > 1 and width <= 340 else 1, data=ROWS)
        .resolve_axis(x="independent")
    )
    return chart
