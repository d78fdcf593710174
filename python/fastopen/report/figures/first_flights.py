"""Draw page load times for each combination of TLS session, HTTP version and arm."""

from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Source
from fastopen.analysis.statistics import CellResult, Results
from fastopen.experiments import http_words
from fastopen.report.figures.encodings import arm_colour, arm_shape, arm_tooltip
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import first_panels, small_multiples, title_of

BEGINS: Final = {"none": "full", "resumed": "resumed", "early": "early"}


def first_flight_ladder(source: Source) -> Figure | None:
    """Draw a panel for each page and network, a row for each session and HTTP version; None if only one."""
    results = source.results
    secured = [setup for setup in results.experiment.setups if setup.tls is not None]
    kinds = {(one.tls.session, one.origins.all_quic) for one in secured if one.tls is not None}
    if len(kinds) < 2:
        return None
    rows, left = first_panels([row for cell in results.cells if (row := _row(source, results, cell))])
    if not rows:
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


def _row(source: Source, results: Results, result: CellResult) -> dict[str, Any] | None:
    setup = results.experiment.setups[result.cell.setup]
    if setup.tls is None or result.plt_ms_median is None:
        return None
    others = (one for one in results.factors.besides("http") if not one.first_flight)
    saving = results.flight_savings.get(result.cell.index)
    least = None if saving is None else (saving.bound.plt_ms - saving.bound.ms) / 1000
    page = result.cell.page
    return {
        "page": page,
        "panel": title_of(source, page, ", ".join(results.factors.phrases(result.cell, others))),
        "flight": f"{http_words(setup.origins.http)} {BEGINS[setup.tls.session]}",
        "order": (setup.origins.http, list(BEGINS).index(setup.tls.session)),
        "arm": result.cell.arm.label,
        "plt": result.plt_ms_median / 1000,
        "saves": None if saving is None else saving.percent,
        "least": least,
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
