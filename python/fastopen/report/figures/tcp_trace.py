"""Draw each connection's congestion window, bytes in flight and round-trip time over time."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Shown
from fastopen.common.phrases import time
from fastopen.experiments import ARMS
from fastopen.pages import Page
from fastopen.report.figures.figure import ROWS, Drawing, Figure
from fastopen.report.figures.requests import TIME
from fastopen.report.figures.style import zoom

QUANTITIES: Final = ("congestion window, kB", "bytes in flight, kB", "smoothed RTT, ms")
# More points make a report slow without making lines clearer.
POINTS_MAX: Final = 6000


def has_trace(loads: dict[str, Shown]) -> bool:
    """Return True if TCP_INFO was sampled over time in at least one load."""
    return any(one.origin_samples for shown in loads.values() for one in shown.record.connections)


def tcp_trace(page: Page, place: str, loads: dict[str, Shown], slug: str) -> Figure:
    """Draw congestion window, bytes in flight and RTT of each TCP connection over time, with a column for
    each load in `loads`. `place`: network and setup. `slug`: the end of the figure's file name."""
    samples = sum(len(one.origin_samples) for shown in loads.values() for one in shown.record.connections)
    every = max(1, -(-samples * len(QUANTITIES) // POINTS_MAX))
    rows = [row for number, label in enumerate(loads) for row in _rows(number, label, loads[label], every)]
    return Figure(
        name=f"tcp-{slug}",
        title=f"{page.name}, {place}: TCP state of each connection",
        caption="A line for each connection of the median loads, of its origin's end: TCP_INFO"
        " (tcpi_snd_cwnd, tcpi_unacked less what is held for lost, each times tcpi_snd_mss; tcpi_rtt).",
        alt_text=f"Congestion window, bytes in flight and RTT of the connections of {page.name} at {place}.",
        drawing=_drawing(len(loads)),
        rows=rows,
    )


def _rows(place: int, label: str, shown: Shown, every: int) -> Iterator[dict[str, Any]]:
    """Yield chart data: every `every`-th TCP_INFO sample and each connection's last. `place`: panel index."""
    panel = f"{label}: {time(shown.path.plt_ns / 1e6)}"
    for connection in shown.record.connections:
        samples = connection.origin_samples
        for one in (*samples[: len(samples) - 1 : every], *samples[-1:]):
            kilobytes = one.segment_bytes / 1000
            values = (
                one.congestion_window_segments * kilobytes,
                one.in_flight_segments * kilobytes,
                one.rtt_us / 1000 or None,
            )
            for quantity, value in zip(QUANTITIES, values, strict=True):
                if value is None:
                    continue  # The RTT has not been measured yet.
                yield {
                    "panel": panel,
                    "place": place,
                    "connection": f"{connection.id} {connection.host}",
                    "quantity": quantity,
                    "at": one.at_ns / 1e6,
                    "value": round(value, 3),
                }


@lru_cache(len(ARMS))
def _drawing(panels: int) -> Drawing:
    views = (_view(number, name, panels) for number, name in enumerate(QUANTITIES))
    return Drawing(alt.vconcat(*views, data=ROWS))


def _view(number: int, quantity: str, columns: int) -> alt.Chart:
    panels = alt.Facet("panel:N", columns=columns, title=None, sort=alt.EncodingSortField("place", op="min"))
    chosen = alt.Chart().transform_filter(alt.FieldEqualPredicate(field="quantity", equal=quantity))
    lines = chosen.mark_line(interpolate="step-after", strokeWidth=1.2, opacity=0.75).encode(
        x=alt.X("at:Q", title=TIME if quantity == QUANTITIES[-1] else None, axis=alt.Axis(tickCount=5)),
        y=alt.Y("value:Q", title=quantity, axis=alt.Axis(tickCount=4)),
        color=alt.Color("connection:N", legend=None),
        facet=panels,
        tooltip=[
            alt.Tooltip("connection:N", title="connection"),
            alt.Tooltip("at:Q", title="at ms", format=".1f"),
            alt.Tooltip("value:Q", title=quantity, format=".1f"),
        ],
    )
    zoomed: alt.Chart = lines.add_params(zoom("x", name=f"zoom{number}"))
    return zoomed.properties(width=290, height=110)
