"""Plot the mean saving by TFO against the share of paths on which a middlebox breaks TFO."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import RunAnalysis
from fastopen.analysis.statistics import DROPPING_SHARE, DROPPING_SOURCE, Payoff, by_cost, payoffs
from fastopen.common.grouping import grouped
from fastopen.experiments import HEADLINE
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import PANELS_MAX, left_out, small_multiples, title_of
from fastopen.report.figures.style import DASH_LEGEND

# The end of the axis, in percent of paths. In no study did a larger share of paths drop SYNs.
MOST: Final = 25
# The percentage of access networks on which TFO fails in some way (Paasch, NANOG 67).
FAILING: Final = 20
VISITS: Final = 10
LINES: Final = ("Linux: each visit pays", f"negative cache, {VISITS} visits")


def mean_saving_over_paths(analysis: RunAnalysis) -> Figure | None:
    """Draw the mean saving by TFO against the share of paths that break TFO, for each middlebox that slows
    down loads with TFO but lets them finish. None if the run has no such middlebox."""
    costly = (one for one in payoffs(analysis.results) if one.arm == HEADLINE.name and 0 < one.cost_ms < inf)
    of_page = grouped((one.page, one) for one in costly)
    drawn = [each for found in of_page.values() for each in by_cost(found)]
    rows = [
        row for paths, costs in drawn[:PANELS_MAX] for one in costs for row in _rows(analysis, one, paths)
    ]
    if not rows:
        return None
    return Figure(
        name="payoff",
        title="Mean saving by TFO if some paths are broken",
        caption=f"Lines: (1 - share) x what it saves over an open path - share x what it costs behind the"
        f" middlebox, with {HEADLINE.cookies} cookies. Dots: the share at which it stops paying. Dashed: a"
        f" client that does without TFO on a path after a failure, for {VISITS} visits (RFC 7413, section"
        f" 4.1.3.1). Upright: {100 * DROPPING_SHARE:g} % of paths drop SYNs ({DROPPING_SOURCE}), and"
        f" {FAILING} % of access networks fail in some way (Paasch, NANOG 67).{left_out(len(drawn))}",
        alt_text="Line charts of the mean saving by TFO against the share of broken paths, for each page and"
        " behaviour.",
        drawing=Drawing(_chart(rows)),
        rows=rows,
    )


def _rows(analysis: RunAnalysis, one: Payoff, paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    for line, visits in zip(LINES, (1, VISITS), strict=True):
        even = one.break_even_share(visits)
        shares = {0.0, MOST / 100} | ({even} if even is not None and 0 < even < MOST / 100 else set())
        for share in sorted(shares):
            yield {
                "page": one.page,
                "panel": title_of(analysis, one.page, " or ".join(paths)),
                "network": ", ".join(part for part in (f"{one.rtt_ms:g} ms", one.otherwise) if part),
                "line": line,
                "share": 100 * share,
                "saving": one.mean_saving_ms(share, visits),
                "even": share == even,
            }


def _chart(rows: list[dict[str, Any]]) -> Any:
    networks = list(dict.fromkeys(row["network"] for row in rows))
    x = alt.X(
        "share:Q", title="broken paths, %", scale=alt.Scale(domain=[0, MOST]), axis=alt.Axis(tickCount=5)
    )
    base = alt.Chart().encode(
        x=x,
        y=alt.Y("saving:Q", title="mean saving, ms"),
        color=alt.Color("network:N", sort=networks, title=None),
    )
    dash = alt.StrokeDash("line:N", sort=list(LINES), title=None, legend=DASH_LEGEND)
    lines = base.mark_line(strokeWidth=1.8).encode(strokeDash=dash)
    tooltip = [
        alt.Tooltip("network:N", title="network"),
        alt.Tooltip("line:N", title="client"),
        alt.Tooltip("share:Q", title="pays below %", format=".1f"),
    ]
    even = base.mark_point(filled=True, size=55, opacity=1).encode(tooltip=tooltip)
    even = even.transform_filter("datum.even")
    marks = [
        alt.Chart().mark_rule(opacity=0.5, strokeDash=[2, 3]).encode(x=alt.datum(share))
        for share in (100 * DROPPING_SHARE, FAILING)
    ]
    zero = alt.Chart().mark_rule(opacity=0.6).encode(y=alt.datum(0))
    drawn = small_multiples(alt.layer(zero, *marks, lines, even), rows, 250, 170)
    return drawn.resolve_scale(y="independent").resolve_axis(x="independent", y="independent")
