"""Draw the round trips to the first byte over the size of the certificate chain."""

from typing import Any

import altair as alt

from fastopen.analysis.attribution import Source
from fastopen.analysis.statistics import CellResult, Results, round_trips_of_sizes
from fastopen.common.grouping import grouped
from fastopen.report.figures.encodings import arm_colour, arm_dash, arm_tooltip
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import first_panels, small_multiples, title_of


def round_trips_by_size(source: Source) -> Figure | None:
    """Draw a panel for each page and setting; None if the run has few sizes, or if a link has a rate."""
    results = source.results
    pages = [page for page in results.pages if round_trips_of_sizes(results, page)]
    found = [
        row for cell in results.cells if cell.cell.page in pages and (row := _row(source, results, cell))
    ]
    # Settings with equal figures share one panel.
    points = grouped((row["panel"], (row["arm"], row["bytes"], row["rtts"])) for row in found)
    first = {tuple(sorted(of_panel)): panel for panel, of_panel in reversed(points.items())}
    rows, left = first_panels([row for row in found if row["panel"] in first.values()])
    if not rows:
        return None
    return Figure(
        name="certificate-sizes",
        title="Round trips to the first byte by size of the certificates",
        caption="Lines: round trips from opening the connection of the document to the first byte of its"
        " answer. Each panel is a setting, and stands for those with the same figures. Over TCP a step is a"
        " full congestion window; over QUIC it is the limit of three times the received bytes, a full"
        f" window, or pacing.{left}",
        alt_text="Step charts of round trips to the first byte against bytes of the certificate chain: "
        + ", ".join(dict.fromkeys(row["panel"] for row in rows)),
        drawing=Drawing(_chart(rows)),
        rows=rows,
    )


def _row(source: Source, results: Results, result: CellResult) -> dict[str, Any] | None:
    point = results.factors.point(result.cell)
    flight = results.first_flights.get(result.cell.index)
    if point.setup.tls is None or flight is None or flight.first_byte_rtts is None:
        return None
    factors = results.factors
    others = factors.besides("chain_bytes", *(() if factors.varying_rtt else ("rtt",)))
    return {
        "page": result.cell.page,
        "panel": title_of(source, result.cell.page, ", ".join(factors.phrases(result.cell, others))),
        "arm": result.cell.arm.label,
        "bytes": point.setup.tls.chain_bytes,
        "rtts": flight.first_byte_rtts,
    }


def _chart(rows: list[dict[str, Any]]) -> Any:
    tooltip = arm_tooltip(
        alt.Tooltip("bytes:Q", title="bytes", format=","), alt.Tooltip("rtts:Q", title="RTTs", format=".3f")
    )
    lines = (
        alt.Chart()
        .mark_line(strokeWidth=1.8)
        .encode(
            x=alt.X("bytes:Q", title="certificate chain, bytes", axis=alt.Axis(tickCount=4, format="~s")),
            y=alt.Y("rtts:Q", title="RTTs to the first byte", axis=alt.Axis(tickMinStep=1)),
            color=arm_colour(rows),
            strokeDash=arm_dash(rows),
            tooltip=tooltip,
        )
    )
    return small_multiples(alt.layer(lines), rows, 300, 120).resolve_axis(x="independent")
