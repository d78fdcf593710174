"""Draw cumulative distributions: of page load times, of savings over pages, and of request times."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import RunAnalysis
from fastopen.analysis.attribution.cold import cold_requests
from fastopen.experiments import ARMS
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import PANELS_MAX, first_panels, left_out, small_multiples, title_of
from fastopen.report.figures.style import DASH_LEGEND, arm_colour, arm_dash, arm_tooltip, by_value, zoom

# The maximum number of points of a distribution. Readers could not distinguish more points in a panel.
POINTS_MAX: Final = 200
# With fewer loads, no distribution of page load times is drawn.
LOADS_MIN: Final = 3
# The smallest drawn spread, as a fraction of the fastest PLT. A smaller one looks like a vertical line.
SPREAD_MIN: Final = 0.001
# Pixels for each letter of a panel's title.
TITLE_WIDTH: Final = 6
# The width of a panel with page load times, in pixels.
WIDTH: Final = 200
GROUPS: Final = ("all requests", "cold requests", "cold requests without the handshake")
COLOURS: Final = dict(zip(GROUPS, ("#737373", "#d55e00", "#0072b2"), strict=True))
DASHES: Final = dict(zip(GROUPS, ([2, 2], [1, 0], [6, 3]), strict=True))


def cumulative_distribution(analysis: RunAnalysis) -> Figure | None:
    """Draw the distribution of page load times by page, network and setup; None if no load time varies."""
    every: list[dict[str, Any]] = []
    for page, place in analysis.all_places():
        cells = {arm: sorted(one.plts_ms.values()) for arm, one in place.arms.items()}
        cells = {arm: plts for arm, plts in cells.items() if len(plts) >= LOADS_MIN}
        if any(plts[-1] - plts[0] > SPREAD_MIN * plts[0] for plts in cells.values()):
            panel = title_of(analysis, page, place.name)
            every += [
                {"panel": panel, "arm": ARMS[arm].label, "plt": ms / 1000, "share": share}
                for arm, plts in cells.items()
                for ms, share in [(plts[0], 0.0), *distribution(plts)]
            ]
    rows, left = first_panels(every)
    if not rows:
        return None
    scale = alt.Scale(zero=False, nice=True)
    x = alt.X("plt:Q", title="page load time in s", scale=scale, axis=alt.Axis(tickCount=4))
    tooltip = (
        alt.Tooltip("plt:Q", title="PLT in s", format=".3f"),
        alt.Tooltip("share:Q", title="share", format=".0%"),
    )
    lines = _arms_over(x, "loads", rows, tooltip)
    beyond = max(0, TITLE_WIDTH * max(len(row["panel"]) for row in rows) - WIDTH)
    return Figure(
        name="distribution",
        title="Cumulative distribution of page load times",
        caption=f"Share of loads finished by each time. Pages without variation are not drawn.{left}",
        alt_text="Cumulative distributions of page load time, one line for each transport.",
        drawing=Drawing(
            small_multiples(lines, rows, WIDTH, 110, labels=beyond).resolve_scale(x="independent")
        ),
        rows=rows,
    )


def savings_over_pages(analysis: RunAnalysis) -> Figure | None:
    """Draw the cumulative distribution of savings over pages; None for fewer than PAGES_MIN (20) pages."""
    rows, left = first_panels(
        [
            {"panel": one.place, "arm": ARMS[one.arm.name].label, "saving": saving, "share": share}
            for one in analysis.results.distributions
            for saving, share in distribution(sorted(one.savings.values()))
        ]
    )
    if not rows:
        return None
    x = alt.X("saving:Q", title="saved of the page load time, %", axis=alt.Axis(tickCount=6))
    tooltip = (
        alt.Tooltip("saving:Q", title="saves at most, %", format="+.1f"),
        alt.Tooltip("share:Q", title="share of pages", format=".0%"),
    )
    return Figure(
        name="corpus-savings",
        title="Saving over the pages",
        caption=f"Share of pages that save at most this much; below zero a page gets slower.{left}",
        alt_text="Cumulative distributions over pages of the saving, one line for each transport.",
        drawing=Drawing(small_multiples(_arms_over(x, "pages", rows, tooltip), rows, 260, 140)),
        rows=rows,
    )


def cold_distribution(analysis: RunAnalysis) -> Figure | None:
    """Draw the distribution of request times by network and setup; None if no handshake delayed a request."""
    every = cold_requests(analysis)
    found = every[:PANELS_MAX]
    if not found:
        return None
    rows: list[dict[str, Any]] = [
        {"panel": one.place, "group": group, "ms": ms, "share": share}
        for one in found
        for group, times in zip(GROUPS, (one.all_ms, one.cold_ms, one.without_ms), strict=True)
        for ms, share in distribution(times)
    ]
    scale = alt.Scale(type="log", nice=False)
    lines = _steps(
        alt.X("ms:Q", title="ms until the last byte", scale=scale, axis=alt.Axis(tickCount=5)), "requests"
    ).encode(
        color=by_value(alt.Color, "group", COLOURS),
        strokeDash=by_value(alt.StrokeDash, "group", DASHES, legend=DASH_LEGEND),
        tooltip=[
            alt.Tooltip("group:N", title="requests"),
            alt.Tooltip("ms:Q", title="answered within ms", format=".1f"),
            alt.Tooltip("share:Q", title="share", format=".0%"),
        ],
    )
    shares = ", ".join(f"{one.share:.0f} % in {len(one.shares)} requests ({one.place})" for one in found)
    return Figure(
        name="cold-requests",
        title="Handshake share of requests",
        caption="Share of requests that were answered by this time, in the median loads without TFO. Cold:"
        " requests that waited for the handshake of their connection. The median share of the handshake in"
        f" their time: {shares}. Google's logs of 2011 had 8 to 28 % (TFO paper, Figure 1)."
        f"{left_out(len(every))}",
        alt_text=f"Distributions of request times. Share of the handshake in cold requests: {shares}.",
        drawing=Drawing(small_multiples(lines, rows, 260, 140).resolve_axis(x="independent")),
        rows=rows,
    )


def _arms_over(x: alt.X, of: str, rows: list[dict[str, Any]], tooltip: Iterable[alt.Tooltip]) -> Any:
    lines = _steps(x, of).add_params(zoom("x"))
    return lines.encode(color=arm_colour(rows), strokeDash=arm_dash(rows), tooltip=arm_tooltip(*tooltip))


def _steps(x: alt.X, of: str) -> Any:
    y = alt.Y("share:Q", title=f"share of {of}", axis=alt.Axis(format="%", tickCount=5))
    return alt.Chart().mark_line(interpolate="step-after", strokeWidth=1.8).encode(x=x, y=y)


def distribution(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """Return (value, share of values up to it) for at most POINTS_MAX + 1 of the sorted values."""
    count = len(ordered)
    step = max(1, -(-count // POINTS_MAX))
    taken = sorted({*range(0, count, step), count - 1})
    return [(ordered[at], (at + 1) / count) for at in taken]
