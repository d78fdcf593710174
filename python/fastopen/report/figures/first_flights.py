"""Draw page load times by kind of TLS session and HTTP version, and round trips by certificate size."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import RunAnalysis
from fastopen.analysis.statistics import CellResult, Results, round_trips_of_sizes
from fastopen.experiments import ARMS, ArmName, http_words
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import first_panels, small_multiples, title_of
from fastopen.report.figures.style import arm_colour, arm_dash, arm_shape, arm_tooltip

BEGINS: Final = {"none": "full", "resumed": "resumed", "early": "early"}


def first_flight_ladder(analysis: RunAnalysis) -> Figure | None:
    """Draw page load times by TLS session (full handshake, resumed or early data) and HTTP version. Each page
    has a panel for each combination of other settings. None if no load over TLS is valid, or if neither the
    session nor the transport (TCP or QUIC) varies."""
    results = analysis.results
    setups = results.experiment.setups
    kinds = {(one.tls.session, one.origins.all_quic) for one in setups if one.tls is not None}
    rows, left = first_panels([row for cell in results.cells if (row := _row(analysis, results, cell))])
    if len(kinds) < 2 or not rows:
        return None
    return Figure(
        name="first-flights",
        title="Page load time by first flight",
        caption="Marks: median of the valid loads: full handshakes, resumed sessions, early data. QUIC has no"
        " SYN for TFO to use. Vertical strokes of the same colour: its bound, which is the time of"
        " the plainest one (over the same version of HTTP; for HTTP/3 over HTTP/2) without the parts of"
        f" handshakes in a row that this one saves.{left}",
        alt_text="Dot plots of page load time, a line for each session and version of HTTP and a mark for"
        " each arm of TFO: " + ", ".join(dict.fromkeys(row["panel"] for row in rows)),
        drawing=Drawing(_chart(rows)),
        rows=rows,
    )


def _row(analysis: RunAnalysis, results: Results, result: CellResult) -> dict[str, Any] | None:
    setup = results.experiment.setups[result.cell.setup]
    if setup.tls is None or result.plt_ms_median is None:
        return None
    others = (one for one in results.factors.besides("http") if not one.first_flight)
    saving = results.flight_savings.get(result.cell.index)
    page = result.cell.page
    return {
        "page": page,
        "panel": title_of(analysis, page, ", ".join(results.factors.phrases(result.cell, others))),
        "flight": f"{http_words(setup.origins.http)} {BEGINS[setup.tls.session]}",
        "order": (setup.origins.http, list(BEGINS).index(setup.tls.session)),
        "arm": result.cell.arm.label,
        "plt": result.plt_ms_median / 1000,
        "saves": None if saving is None else saving.percent,
        "least": None if saving is None else (saving.bound.plt_ms - saving.bound.ms) / 1000,
        "most": None if saving is None else saving.bound.percent,
        "n": len(result.plts_ms),
    }


def _chart(rows: list[dict[str, Any]]) -> Any:
    rungs = [row["flight"] for row in sorted(rows, key=lambda row: row["order"])]
    for row in rows:
        del row["order"]
    y = alt.Y("flight:N", sort=list(dict.fromkeys(rungs)), title=None, axis=alt.Axis(labelLimit=0, grid=True))
    x = alt.X("plt:Q", title="page load time in s", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=4))
    base = alt.Chart().encode(y=y, color=arm_colour(rows))
    tooltip = arm_tooltip(
        alt.Tooltip("flight:N", title="first flight"),
        alt.Tooltip("plt:Q", title="median PLT in s", format=".3f"),
        alt.Tooltip("saves:Q", title="saves %", format="+.1f"),
        alt.Tooltip("most:Q", title="at most %", format=".1f"),
        alt.Tooltip("n:Q", title="loads"),
    )
    spans = alt.Chart().mark_rule(opacity=0.5).encode(y=y, x=alt.X("min(plt):Q"), x2="max(plt):Q")
    least = base.mark_tick(thickness=2, height=12, opacity=0.8).encode(x=alt.X("least:Q"), tooltip=tooltip)
    marks = base.mark_point(filled=True, size=55, opacity=1).encode(
        x=x, shape=arm_shape(rows), tooltip=tooltip
    )
    drawn = small_multiples(alt.layer(spans, least, marks), rows, 210, alt.Step(17), labels=85)
    return drawn.resolve_scale(x="independent").resolve_axis(x="independent")


def round_trips_by_size(analysis: RunAnalysis) -> Figure | None:
    """Draw the round trips to the first byte against the size of the certificate chain. None if the run has
    fewer than SIZES_MIN (8) sizes, or if a link has a bandwidth limit."""
    results, factors = analysis.results, analysis.results.factors
    others = factors.besides("chain_bytes", *(() if factors.varying_rtt else ("rtt",)))
    shown: list[Mapping[ArmName, Mapping[int, float]]] = []
    every: list[dict[str, Any]] = []
    for page in results.pages:
        for comparison, of_arm in round_trips_of_sizes(results, page).items():
            # Combinations of settings with the same round trips for all sizes share one panel.
            if of_arm not in shown:
                shown.append(of_arm)
                panel = title_of(analysis, page, ", ".join(factors.phrases(comparison, others)))
                for arm, rtts_of in of_arm.items():
                    usual = {"page": page, "panel": panel, "arm": ARMS[arm].label}
                    every += [{**usual, "bytes": size, "rtts": rtts} for size, rtts in rtts_of.items()]
    rows, left = first_panels(sorted(every, key=itemgetter("bytes")))
    if not rows:
        return None
    return Figure(
        name="certificate-sizes",
        title="Round trips to the first byte by size of the certificates",
        caption="Lines: round trips from opening the connection of the document to the first byte of its"
        " answer. Each panel is a setting, and stands for all with the same figures. Over TCP a step is a"
        " full congestion window; over QUIC it is the limit of three times the received bytes, a full"
        f" window, or pacing.{left}",
        alt_text="Step charts of round trips to the first byte against bytes of the certificate chain: "
        + ", ".join(dict.fromkeys(row["panel"] for row in rows)),
        drawing=Drawing(_size_chart(rows)),
        rows=rows,
    )


def _size_chart(rows: list[dict[str, Any]]) -> Any:
    empty = alt.Chart().mark_line(strokeWidth=1.8)
    lines = empty.encode(
        x=alt.X("bytes:Q", title="certificate chain, bytes", axis=alt.Axis(tickCount=4, format="~s")),
        y=alt.Y("rtts:Q", title="RTTs to the first byte", axis=alt.Axis(tickMinStep=1)),
        color=arm_colour(rows),
        strokeDash=arm_dash(rows),
        tooltip=arm_tooltip(
            alt.Tooltip("bytes:Q", title="bytes", format=","),
            alt.Tooltip("rtts:Q", title="RTTs", format=".3f"),
        ),
    )
    return small_multiples(alt.layer(lines), rows, 300, 120).resolve_axis(x="independent")
