"""Draw the rank correlations of page properties with the saving, for a corpus of pages."""

from typing import Any

import altair as alt

from fastopen.analysis.attribution import RunAnalysis
from fastopen.analysis.statistics import PROPERTIES
from fastopen.experiments import ARMS
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import first_panels, small_multiples
from fastopen.report.figures.style import arm_colour, arm_shape, arm_tooltip


def properties_and_savings(analysis: RunAnalysis) -> Figure | None:
    """Draw the rank correlations of page properties with TFO's saving; None if no correlation is known."""
    rows, left = first_panels(
        [
            {
                "panel": one.place,
                "arm": ARMS[one.arm.name].label,
                "property": PROPERTIES[each.name],
                "rho": each.rho,
                "low": each.interval[0],
                "high": each.interval[1],
                "n": each.pages,
            }
            for one in analysis.results.distributions
            for each in one.correlations
        ]
    )
    if not rows:
        return None
    return Figure(
        name="corpus-properties",
        title="Properties of pages that correlate with the saving",
        caption="Spearman's rank correlation over pages with its 95 % interval (bootstrap)."
        f" Right: pages with more of it save more. Left: they save less.{left}",
        alt_text="Rank correlations of properties of pages with the saving, a row for each property.",
        drawing=Drawing(_chart(rows)),
        rows=rows,
    )


def _chart(rows: list[dict[str, Any]]) -> Any:
    base = alt.Chart().encode(
        y=alt.Y("property:N", title=None, sort=[*PROPERTIES.values()]),
        yOffset=alt.YOffset("arm:N"),
        color=arm_colour(rows),
        tooltip=arm_tooltip(
            alt.Tooltip("property:N", title="property"),
            alt.Tooltip("rho:Q", title="rank correlation", format="+.2f"),
            alt.Tooltip("low:Q", title="95 % from", format="+.2f"),
            alt.Tooltip("high:Q", title="to", format="+.2f"),
            alt.Tooltip("n:Q", title="pages"),
        ),
    )
    title, scale = "rank correlation with the saving", alt.Scale(domain=[-1, 1])
    axis = alt.X("low:Q", title=title, scale=scale, axis=alt.Axis(tickCount=4))
    zero = alt.Chart().mark_rule(strokeWidth=1, opacity=0.5).encode(x=alt.datum(0))
    spans = base.mark_rule(strokeWidth=1.6).encode(x=axis, x2="high:Q")
    points = base.mark_point(filled=True, size=45).encode(x="rho:Q", shape=arm_shape(rows))
    return small_multiples(alt.layer(zero, spans, points), rows, 260, alt.Step(11), labels=130)
