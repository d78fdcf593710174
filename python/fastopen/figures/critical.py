"""Where the time goes: the mean critical path of each cell as a stacked bar."""

from typing import Any, Final

import altair as alt

from fastopen.attribution import Kind, Source
from fastopen.experiments import ARMS
from fastopen.figures.encodings import kind_colour, panels
from fastopen.figures.figure import ROWS, Drawing, Figure

BARS_MAX: Final = 120
# What is shorter than this is no more than a line.
SHARE_MIN: Final = 0.001


def critical_path_bars(source: Source) -> Figure | None:
    """Stacked bars, a panel for each page; None where no load was valid."""
    rows: list[dict[str, Any]] = []
    bars = 0
    for page, place in source.all_places():
        for arm, path in place.breakdowns.items():
            bars += 1
            if bars <= BARS_MAX:
                rows += [
                    {
                        "page": page,
                        "place": place.name,
                        "arm": ARMS[arm].label,
                        "bar": f"{place.name}, {ARMS[arm].short_label}",
                        "kind": kind.value,
                        "order": order,
                        "seconds": ms / 1000,
                        "share": ms / path.plt_ms,
                        "loads": path.loads,
                    }
                    for order, (kind, ms) in enumerate(path.kinds_ms.items())
                    if ms > SHARE_MIN * path.plt_ms
                ]
    if not rows:
        return None
    left = f" The first {BARS_MAX} of {bars} bars are shown." if bars > BARS_MAX else ""
    return Figure(
        name="critical-path",
        title="What the critical path waits for",
        caption="Mean over the valid loads; the pieces add up to the page load time. TFO takes away"
        f" handshakes; what else changes follows from that.{left}",
        alt_text="Stacked bars of the critical path by what it waits for: " + ", ".join(Kind),
        drawing=Drawing(_chart(rows)),
        rows=rows,
    )


def _chart(rows: list[dict[str, Any]]) -> alt.FacetChart:
    pages = len({row["page"] for row in rows})
    chart: alt.FacetChart = (
        alt.Chart()
        .mark_bar()
        .encode(
            y=alt.Y("bar:N", sort=None, title=None, axis=alt.Axis(labelLimit=0, ticks=False)),
            x=alt.X("seconds:Q", title="s of the page load time", stack="zero"),
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
        .properties(width=260 if pages > 1 else 520, height=alt.Step(17))
        .facet(panels("page", rows), columns=2 if pages > 1 else 1, data=ROWS)
        .resolve_scale(x="independent", y="independent")
    )
    return chart
