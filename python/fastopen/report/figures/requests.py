"""Draw single loads by request: when each request started and ended, and what it waited for."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Kind, Shown, request_label
from fastopen.common.phrases import time
from fastopen.contract import Connection, Request
from fastopen.pages import Page
from fastopen.report.figures.figure import ROWS, Drawing, Figure
from fastopen.report.figures.style import arm_colour, arm_order, arm_tooltip, kind_colour, zoom
from fastopen.runs.chain import Connections, Span

# Rows of requests share this height in pixels, but each row is from ROW_MIN to ROW_MAX high.
HEIGHT_MAX: Final = 760
ROW_MAX: Final = 14
ROW_MIN: Final = 4
# With more requests, a chart has no room for their names.
NAMED_MAX: Final = 60
# Width of the plot in pixels: of a single figure, and of each panel side by side.
WIDTH: Final = 600
PANEL_WIDTH: Final = 290
PATH_CAPTION: Final = "The thin line runs along the critical path, to the load event at the upright line."
TIME: Final = "ms since navigation start"
TIMES: Final = (
    alt.Tooltip("name:N", title="request"),
    alt.Tooltip("start:Q", title="from ms", format=".1f"),
    alt.Tooltip("end:Q", title="to ms", format=".1f"),
)
LOAD_EVENT: Final = alt.Tooltip("end:Q", title="load event at ms", format=".1f")
# A Vega expression that describes a bar for screen readers, and for tooltips in drawings without scripts.
SAID: Final = (
    "datum.name + ': ' + datum.kind + ', ' + format(datum.start, '.1f') + ' to '"
    " + format(datum.end, '.1f') + ' ms'"
)
# The size of the cache of charts. Making a chart takes 0.1 s. Figures that differ only in data share a chart.
CHARTS_KEPT: Final = 16


def _row_height(requests: int) -> int:
    return max(ROW_MIN, min(ROW_MAX, HEIGHT_MAX // max(requests, 1)))


def _waterfall_rows(label: str, shown: Shown) -> Iterator[dict[str, Any]]:
    """Yield chart data for the waits of each request of a load, then for the critical path, which is drawn
    over the waits. `label` names the load."""
    connections = Connections(shown.record)
    for request in shown.record.requests:
        connection = None if request.connection is None else connections.by_id.get(request.connection)
        for kind, *span_ns in _pieces(request, connection, connections.lookup(request)):
            yield _row("piece", label, *span_ns, request=request.resource, kind=kind.value)
    for piece in shown.path.segments:
        yield _row("path", label, piece.start_ns, piece.end_ns, request=piece.resource)


def _named(page: Page, rows: list[dict[str, Any]], loads: Mapping[str, Shown]) -> list[dict[str, Any]]:
    """Return the rows, each with its request's name added, then a row for the load event of each load."""
    names = [request_label(page, index) for index in range(len(page.resources))]
    ends = ((label, shown.path.plt_ns) for label, shown in loads.items())
    return [
        *({**row, "name": names[row["request"]]} for row in rows),
        *(_row("load event", label, end_ns, end_ns) for label, end_ns in ends),
    ]


def _row(what: str, label: str, start_ns: int, end_ns: int, **others: Any) -> dict[str, Any]:
    """Return a row of chart data: the kind of mark (`what`), the label of the load, and times in ms."""
    return {"what": what, "arm": label, **others, "start": start_ns / 1e6, "end": end_ns / 1e6}


def _pieces(
    request: Request, connection: Connection | None, looked_up: Span | None
) -> Iterator[tuple[Kind, int, int]]:
    """Split a request into waits, and yield (kind, start, end) in ns for each. `connection` carried the
    request, if known. `looked_up` is the start and end of its name lookup, if it had one."""
    queued, sent, first, end = request.queued_ns, request.sent_ns, request.first_byte_ns, request.end_ns
    if request.cache == "fresh" and queued is not None and end is not None and end > queued:
        # The client took the response from its cache without a request.
        yield Kind.PROCESSING, queued, end
    if queued is None or sent is None or first is None or end is None:
        return
    opened = max(queued, request.connect_start_ns) if request.connect_start_ns is not None else sent
    waited = connection is not None and connection.handshake_us is not None
    making = Kind.HANDSHAKE if waited else Kind.QUEUEING
    opened = min(opened, sent)
    connected = secured = sent
    if connection is not None and connection.tls is not None and request.connect_start_ns is not None:
        # A request can be queued, and assigned to the connection, during the handshake.
        connected = min(max(opened, connection.connected_ns or 0), sent)
        secured = min(max(connected, connection.tls.secured_ns), sent)
    asked, answered = (opened, opened) if looked_up is None else (max(looked_up[0], queued), looked_up[1])
    pieces = (
        (Kind.QUEUEING, queued, asked),
        (Kind.LOOK_UP, asked, answered),
        (Kind.QUEUEING, answered, opened),
        (making, opened, connected),
        (Kind.TLS, connected, secured),
        (Kind.QUEUEING, secured, sent),
        (Kind.WAIT, sent, first),
        (Kind.TRANSFER, first, end),
    )
    for kind, start_ns, end_ns in pieces:
        if end_ns > start_ns:
            yield kind, start_ns, end_ns


def timing_breakdown(page: Page, place: str, loads: Mapping[str, Shown], slug: str) -> Figure:
    """Draw a bar for each request of a page, from queueing to its last byte. `loads` maps the label of an arm
    to the load to draw. `place`: network and setup. `slug`: the end of the figure's file name."""
    rows = [
        _row("request", label, one.queued_ns, one.end_ns, request=one.resource)
        for label, shown in loads.items()
        for one in shown.record.requests
        if one.queued_ns is not None and one.end_ns is not None
    ]
    rows = _named(page, rows, loads)
    return Figure(
        name=f"timing-{slug}",
        title=f"{page.name}, {place}: when each request started and ended",
        caption="Each bar is a request of the median load, from the time it was queued to its last byte."
        " The upright lines are the load events.",
        alt_text=f"Request index against start and end time of {page.name} at {place}, {_times_of(loads)}.",
        drawing=_timing_drawing(tuple(sorted(loads)), _names(rows, page), len(page.resources)),
        rows=rows,
    )


@lru_cache(CHARTS_KEPT)
def _timing_drawing(arms: tuple[str, ...], names: tuple[str, ...], requests: int) -> Drawing:
    """Return a chart of the start and end of each request, to which data are added later. `arms` and `names`
    are the labels of loads and requests. `requests` is the number of requests."""
    rows = [{"arm": arm} for arm in arms]
    step = max(_row_height(requests), 3 * len(arms))
    base = alt.Chart().encode(color=arm_colour(rows))
    bars = base.mark_bar().encode(
        x=alt.X("start:Q", title=TIME, axis=alt.Axis(tickCount=10)),
        x2="end:Q",
        y=_by_request(names, requests),
        yOffset=alt.YOffset("arm:N", sort=arm_order(rows)),
        tooltip=arm_tooltip(*TIMES),
    )
    events = base.mark_rule(strokeWidth=1.5, strokeDash=[5, 3]).encode(
        x="end:Q", tooltip=arm_tooltip(LOAD_EVENT)
    )
    layered = alt.layer(
        bars.transform_filter("datum.what == 'request'").add_params(zoom("x")),
        events.transform_filter("datum.what == 'load event'"),
        data=ROWS,
    )
    return Drawing(layered.properties(width=WIDTH, height=step * requests))


def loads_waterfall(page: Page, place: str, loads: Mapping[str, Shown], slug: str) -> Figure:
    """Draw loads of a page side by side, with a bar for each request that shows its waits. `loads` maps
    labels to loads. `place`: network and settings, or empty. `slug`: the end of the figure's file name."""
    rows = [row for label, shown in loads.items() for row in _waterfall_rows(label, shown)]
    panels = {
        label: {"panel": f"{label}: {time(shown.path.plt_ns / 1e6)}", "place": number}
        for number, (label, shown) in enumerate(loads.items())
    }
    rows = [{**row, **panels[row["arm"]]} for row in _named(page, rows, loads)]
    width = PANEL_WIDTH if len(loads) > 1 else WIDTH
    kinds = tuple(sorted({row["kind"] for row in rows if "kind" in row}))
    return Figure(
        name=f"waterfall-{slug}",
        title=f"{page.name}{place and f', {place}'}: what each request waited for",
        caption=f"{place and 'Median load of each transport. '}{PATH_CAPTION}",
        alt_text=f"Waterfalls of {page.name}{place and f' at {place} side by side'}, {_times_of(loads)}.",
        drawing=_waterfall_drawing(kinds, _names(rows, page), len(page.resources), width),
        rows=rows,
    )


@lru_cache(CHARTS_KEPT)
def _waterfall_drawing(kinds: tuple[str, ...], names: tuple[str, ...], requests: int, width: int) -> Drawing:
    """Return a chart, without data, of each request's waits. Calls with equal arguments share one chart."""
    y = _by_request(names, requests)
    x = alt.X("start:Q", title=TIME, axis=alt.Axis(tickCount=5))
    base = alt.Chart()
    bars = base.mark_bar(description=alt.ExprRef(SAID)).encode(
        x=x,
        x2="end:Q",
        y=y,
        color=kind_colour([{"kind": kind} for kind in kinds]),
        tooltip=[alt.Tooltip("kind:N", title="waits for"), *TIMES],
    )
    path = base.mark_rule(strokeWidth=1.5).encode(x=x, x2="end:Q", y=y)
    events = base.mark_rule(strokeWidth=1, strokeDash=[5, 3]).encode(x="end:Q", tooltip=[LOAD_EVENT])
    layers = (
        bars.transform_filter("datum.what == 'piece'").add_params(zoom("x")),
        path.transform_filter("datum.what == 'path'"),
        events.transform_filter("datum.what == 'load event'"),
    )
    return Drawing(
        alt.layer(*layers)
        .properties(width=width, height=_row_height(requests) * requests)
        .facet(alt.Facet("panel:N", sort=alt.EncodingSortField("place", op="min")), columns=2, data=ROWS)
    )


def _names(rows: Iterable[dict[str, Any]], page: Page) -> tuple[str, ...]:
    """Return the requests' names, sorted by index; empty for a page with more than NAMED_MAX requests."""
    if len(page.resources) > NAMED_MAX:
        return ()
    names = {row["request"]: row["name"] for row in rows if "request" in row}
    return tuple(names[index] for index in sorted(names))


def _by_request(names: tuple[str, ...], requests: int) -> alt.Y:
    if requests <= NAMED_MAX:
        axis = alt.Axis(grid=False, ticks=False, domain=False, labelLimit=0)
        return alt.Y("name:N", title=None, sort=list(names), axis=axis)
    every = 5 if _row_height(requests) >= 5 else 10
    shown = [index for index in range(requests) if index % every == 0]
    axis = alt.Axis(values=shown, grid=False, ticks=False, domain=False)
    return alt.Y("request:O", title="request", scale=alt.Scale(domain=list(range(requests))), axis=axis)


def _times_of(loads: Mapping[str, Shown]) -> str:
    times = (f"{label} {shown.path.plt_ns / 1e9:.2f} s" for label, shown in loads.items())
    return "page load time: " + ", ".join(times)
