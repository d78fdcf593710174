"""Draw the mean critical path of each page, network, setting and arm as a stacked bar."""

from functools import partial
from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Kind, RunAnalysis, axis_of
from fastopen.experiments import ARMS
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import first_panels, places_along, side_by_side
from fastopen.report.figures.style import arm_order, kind_colour

# The smallest share of the page load time that is drawn. A shorter wait would be as narrow as a line.
SHARE_MIN: Final = 0.001


def critical_path_bars(analysis: RunAnalysis) -> Figure | None:
    """Draw the mean critical path of each page, network, setting and arm; None if none is known."""
    axis = axis_of(analysis.results)
    rows, left_out = first_panels(
        [
            {
                **where,
                "arm": ARMS[arm].label,
                "bar": f"{place.name}, {ARMS[arm].short_label}",
                "who": ARMS[arm].short_label,
                "kind": kind.value,
                "order": order,
                "seconds": ms / 1000,
                "plt": path.plt_ms / 1000,
                "share": ms / path.plt_ms,
                "loads": path.loads,
            }
            for place, where in places_along(analysis, axis)
            for arm, path in place.breakdowns.items()
            for order, (kind, ms) in enumerate(path.kinds_ms.items())
            if ms > SHARE_MIN * path.plt_ms
        ]
    )
    if not rows:
        return None
    return Figure(
        name="critical-path",
        title="What the critical path waits for",
        caption="Mean over the valid loads; the pieces add up to the page load time. TFO removes"
        f" handshakes; other changes follow from this.{left_out}",
        alt_text="Stacked bars of the critical path by what it waits for: " + ", ".join(Kind),
        drawing=Drawing(side_by_side(rows, "panel", partial(_view, rows, axis.heading))),
        rows=rows,
    )


def _view(rows: list[dict[str, Any]], y_title: str, empty: alt.Chart, title: str) -> Any:
    """Draw the bars of panel `title` into its chart `empty`. `rows`: the chart data of all panels."""
    own = [row for row in rows if row["panel"] == title]
    values = list(dict.fromkeys(row["x"] for row in own))
    arms = arm_order(own)
    longest = max(row["plt"] for row in own)
    base = empty.encode(
        y=alt.Y(
            "x:N",
            sort=values,
            title=y_title,
            axis=alt.Axis(labelLimit=0, ticks=False, grid=False),
            scale=alt.Scale(paddingInner=0.25),
        ),
        yOffset=alt.YOffset("arm:N", sort=arms, scale=alt.Scale(paddingInner=0.15)),
    )
    # Leave room for the arm's name after the longest bar.
    scale = alt.Scale(domain=[0, 1.28 * longest])
    bars = base.mark_bar().encode(
        x=alt.X("seconds:Q", title="s of the page load time", stack="zero", scale=scale),
        color=kind_colour(rows),
        order=alt.Order("order:Q"),
        tooltip=[
            alt.Tooltip("bar:N", title="load"),
            alt.Tooltip("kind:N", title="waits for"),
            alt.Tooltip("seconds:Q", title="s", format=".3f"),
            alt.Tooltip("share:Q", title="of PLT", format=".1%"),
            alt.Tooltip("loads:Q", title="loads"),
        ],
    )
    words = base.mark_text(align="left", dx=4, baseline="middle").encode(
        x=alt.X("max(plt):Q", scale=scale), text="who:N", detail="who:N"
    )
    width, height = 520 if len(own) == len(rows) else 250, len(values) * (len(arms) * 15 + 8)
    return alt.layer(bars, words).properties(width=width, height=height, title=title)
