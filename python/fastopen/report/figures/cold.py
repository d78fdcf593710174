"""Draw distributions of request times: of all requests, and of cold requests with and without their
handshake."""

from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Source
from fastopen.analysis.attribution.cold import cold_requests
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import PANELS_MAX, left_out, small_multiples
from fastopen.report.figures.spread import distribution

GROUPS: Final = ("all requests", "cold requests", "cold requests without the handshake")
COLOURS: Final = ("#737373", "#d55e00", "#0072b2")
DASHES: Final = ([2, 2], [1, 0], [6, 3])


def cold_distribution(source: Source) -> Figure | None:
    """Draw the cumulative distribution of request times, one panel for each combination of network and setup;
    None if no request waited for a handshake."""
    found = cold_requests(source)
    rows: list[dict[str, Any]] = [
        {"panel": one.place, "group": group, "ms": ms, "share": share}
        for one in found[:PANELS_MAX]
        for group, times in zip(GROUPS, (one.all_ms, one.cold_ms, one.without_ms), strict=True)
        for ms, share in distribution(times)
    ]
    if not rows:
        return None
    left = left_out(len(found))
    shares = ", ".join(
        f"{one.share:.0f} % in {len(one.shares)} requests ({one.place})" for one in found[:PANELS_MAX]
    )
    return Figure(
        name="cold-requests",
        title="Handshake share of requests",
        caption="Share of requests that were answered by this time, in the median loads without TFO. Cold:"
        " those that waited for the handshake of their connection. The handshake takes, as a median share,"
        f" {shares} of their time. Google's logs of 2011 had 8 to 28 % (TFO paper, Figure 1).{left}",
        alt_text=f"Distributions of request times. Share of the handshake in cold requests: {shares}.",
        drawing=Drawing(_chart(rows)),
        rows=rows,
    )


def _chart(rows: list[dict[str, Any]]) -> Any:
    domain = [*GROUPS]
    colour = alt.Scale(domain=domain, range=[*COLOURS])
    legend = alt.Legend(symbolSize=500)
    dash = alt.StrokeDash(
        "group:N", title=None, scale=alt.Scale(domain=domain, range=[*DASHES]), legend=legend
    )
    lines = (
        alt.Chart()
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            x=alt.X(
                "ms:Q",
                title="ms until the last byte",
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(tickCount=5),
            ),
            y=alt.Y("share:Q", title="share of requests", axis=alt.Axis(format="%", tickCount=5)),
            color=alt.Color("group:N", title=None, scale=colour),
            strokeDash=dash,
            tooltip=[
                alt.Tooltip("group:N", title="requests"),
                alt.Tooltip("ms:Q", title="answered within ms", format=".1f"),
                alt.Tooltip("share:Q", title="share", format=".0%"),
            ],
        )
    )
    return small_multiples(lines, rows, 260, 140).resolve_axis(x="independent")
