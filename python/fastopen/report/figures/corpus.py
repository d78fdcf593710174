"""Draw a corpus: the distribution of savings over its pages, and their correlation with page properties."""

from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Source
from fastopen.analysis.statistics import PROPERTIES, Distribution
from fastopen.experiments import ARMS
from fastopen.report.figures.encodings import arm_colour, arm_dash, arm_shape, arm_tooltip, zoom
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import PANELS_MAX, left_out, small_multiples
from fastopen.report.figures.spread import distribution

WIDTH: Final = 260


def savings_over_pages(source: Source) -> Figure | None:
    """Draw the cumulative distribution of savings over pages, a panel for each place; None for few pages."""
    found, left = _shown(source)
    rows: list[dict[str, Any]] = [
        {"panel": one.place, "arm": ARMS[one.arm.name].label, "saving": saving, "share": share}
        for one in found
        for saving, share in distribution(sorted(one.savings.values()))
    ]
    if not rows:
        return None
    lines = (
        alt.Chart()
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            x=alt.X("saving:Q", title="saved of the page load time, %", axis=alt.Axis(tickCount=6)),
            y=alt.Y("share:Q", title="share of pages", axis=alt.Axis(format="%", tickCount=5)),
            color=arm_colour(rows),
            strokeDash=arm_dash(rows),
            tooltip=arm_tooltip(
                alt.Tooltip("saving:Q", title="saves at most, %", format="+.1f"),
                alt.Tooltip("share:Q", title="share of pages", format=".0%"),
            ),
        )
        .add_params(zoom("x"))
    )
    return Figure(
        name="corpus-savings",
        title="Saving over the pages",
        caption=f"Share of pages that save at most this much; below zero a page gets slower.{left}",
        alt_text="Cumulative distributions over pages of the saving, one line for each transport.",
        drawing=Drawing(small_multiples(lines, rows, WIDTH, 140)),
        rows=rows,
    )


def properties_and_savings(source: Source) -> Figure | None:
    """Draw the rank correlation of each property with the saving, with its interval; None for few pages."""
    found, left = _shown(source)
    rows: list[dict[str, Any]] = [
        {
            "panel": one.place,
            "arm": ARMS[one.arm.name].label,
            "property": PROPERTIES[each.name],
            "rho": each.rho,
            "low": each.interval[0],
            "high": each.interval[1],
            "n": each.pages,
        }
        for one in found
        for each in one.correlations
    ]
    if not rows:
        return None
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
    axis = alt.X(
        "low:Q",
        title="rank correlation with the saving",
        scale=alt.Scale(domain=[-1, 1]),
        axis=alt.Axis(tickCount=4),
    )
    zero = alt.Chart().mark_rule(strokeWidth=1, opacity=0.5).encode(x=alt.datum(0))
    spans = base.mark_rule(strokeWidth=1.6).encode(x=axis, x2="high:Q")
    points = base.mark_point(filled=True, size=45).encode(x="rho:Q", shape=arm_shape(rows))
    layers = alt.layer(zero, spans, points)
    return Figure(
        name="corpus-properties",
        title="Properties of pages that correlate with the saving",
        caption="Spearman's rank correlation over pages with its 95 % interval (bootstrap)."
        f" Right: pages with more of it save more. Left: they save less.{left}",
        alt_text="Rank correlations of properties of pages with the saving, a row for each property.",
        drawing=Drawing(small_multiples(layers, rows, WIDTH, alt.Step(11), labels=130)),
        rows=rows,
    )


def _shown(source: Source) -> tuple[list[Distribution], str]:
    """Return the distributions for the first PANELS_MAX combinations of network, setup and engine, and a
    sentence that reports how many combinations are left out, if any."""
    found = source.results.distributions
    places = list(dict.fromkeys(one.place for one in found))
    shown = places[:PANELS_MAX]
    return [one for one in found if one.place in shown], left_out(len(places))
