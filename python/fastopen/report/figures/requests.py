"""Draw single loads by request: when each request started and ended, and what it waited for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Kind, Shown
from fastopen.common.phrases import time
from fastopen.contract import Request
from fastopen.experiments import ARMS, ArmName
from fastopen.pages import Page
from fastopen.report.figures.encodings import arm_colour, arm_order, arm_tooltip, kind_colour, zoom
from fastopen.report.figures.figure import ROWS, Drawing, Figure
from fastopen.runs.chain import Carriers, Span

# Rows of requests share this height in pixels, but each row is from ROW_MIN to ROW_MAX high.
HEIGHT_MAX: Final = 760
ROW_MAX: Final = 14
ROW_MIN: Final = 4
# More requests do not have room for their names.
NAMED_MAX: Final = 60
NAME_LENGTH: Final = 26
# Width of the plot in pixels: of a single figure, and of panels side by side.
WIDTH: Final = 600
PANEL_WIDTH: Final = 290
PATH_CAPTION: Final = "The thin line runs along the critical path, to the load event at the upright line."
TIME: Final = "ms since navigation start"
# Description of a waterfall's bar for screen readers, and its tooltip in drawings without scripts.
SAID: Final = (
    "datum.name + ': ' + datum.kind + ', ' + format(datum.start, '.1f') + ' to '"
    " + format(datum.end, '.1f') + ' ms'"
)
# The number of drawings kept in memory. Making one takes 0.1 s; charts that differ only in rows share it.
CHARTS_KEPT: Final = 16


def row_height(requests: int) -> int:
    return max(ROW_MIN, min(ROW_MAX, HEIGHT_MAX // max(requests, 1)))


def request_name(page: Page, resource: int) -> str:
    """Return `12 logo.png`: the number and the last part of the path, cut to NAME_LENGTH."""
    url = page.resources[resource].url
    path = url.partition("?")[0].rstrip("/").rpartition("/")[2] or page.resources[resource].host
    return f"{resource} {path if len(path) <= NAME_LENGTH else path[: NAME_LENGTH - 1] + '…'}"


def name_rows(page: Page, rows: list[dict[str, Any]]) -> None:
    names = [request_name(page, index) for index in range(len(page.resources))]
    for row in rows:
        row["name"] = names[row["request"]]


def waterfall_rows(label: str, shown: Shown) -> Iterator[dict[str, Any]]:
    """Yield rows for the waits of each request, then for the critical path, which is drawn over them."""
    waited = {c.id for c in shown.record.connections if c.handshake_us is not None}
    secured = {
        c.id: (c.connected_ns, c.tls.secured_ns) for c in shown.record.connections if c.tls is not None
    }
    carriers = Carriers(shown.record)
    for request in shown.record.requests:
        tls = None if request.connection is None else secured.get(request.connection)
        handshake, looked_up = request.connection in waited, carriers.lookup(request)
        for kind, *span_ns in _pieces(request, handshake=handshake, tls=tls, looked_up=looked_up):
            yield _row("piece", label, *span_ns, request=request.resource, kind=kind.value)
    for piece in shown.path.segments:
        yield _row("path", label, piece.start_ns, piece.end_ns, request=piece.resource)


def event_rows(loads: Mapping[str, Shown]) -> list[dict[str, Any]]:
    ends = ((label, shown.path.plt_ns) for label, shown in loads.items())
    return [_row("load event", label, end_ns, end_ns) for label, end_ns in ends]


def _row(what: str, label: str, start_ns: int, end_ns: int, **others: Any) -> dict[str, Any]:
    """Return a row with times in milliseconds since the navigation start."""
    return {"what": what, "arm": label, **others, "start": start_ns / 1e6, "end": end_ns / 1e6}


def _labelled(arms: Mapping[ArmName, Shown]) -> dict[str, Shown]:
    return {ARMS[arm].label: shown for arm, shown in arms.items()}


def _pieces(
    request: Request, *, handshake: bool, tls: tuple[int | None, int] | None, looked_up: Span | None
) -> Iterator[tuple[Kind, int, int]]:
    """Split a request into intervals and yield (kind, start, end) for each. `tls` and `looked_up`: times of
    the TLS handshake and the name lookup, if any."""
    queued, sent, first, end = request.queued_ns, request.sent_ns, request.first_byte_ns, request.end_ns
    if request.cache == "fresh" and queued is not None and end is not None and end > queued:
        # The client took the response from its cache without a request.
        yield Kind.PROCESSING, queued, end
    if queued is None or sent is None or first is None or end is None:
        return
    opened = max(queued, request.connect_start_ns) if request.connect_start_ns is not None else sent
    making = Kind.HANDSHAKE if handshake else Kind.QUEUEING
    opened = min(opened, sent)
    connected = secured = sent
    if tls is not None and request.connect_start_ns is not None:
        # A request can be queued, and assigned to the connection, during the handshake.
        connected = min(max(opened, tls[0] or 0), sent)
        secured = min(max(connected, tls[1]), sent)
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


def timing_breakdown(page: Page, place: str, arms: dict[ArmName, Shown], slug: str) -> Figure:
    """Draw start and end of each request over the request's index, with all arms in one chart."""
    loads = _labelled(arms)
    rows = [
        _row("request", label, one.queued_ns, one.end_ns, request=one.resource)
        for label, shown in loads.items()
        for one in shown.record.requests
        if one.queued_ns is not None and one.end_ns is not None
    ]
    name_rows(page, rows)
    rows += event_rows(loads)
    return Figure(
        name=f"timing-{slug}",
        title=f"{page.name}, {place}: when each request started and ended",
        caption="Each bar is a request of the median load, from the time it was queued to its last byte."
        " The upright lines are the load events.",
        alt_text=f"Request index against start and end time of {page.name} at {place}, {_times_of(loads)}.",
        drawing=_timing_drawing(_values("arm", rows), _names(rows, page), len(page.resources)),
        rows=rows,
    )


@lru_cache(CHARTS_KEPT)
def _timing_drawing(arms: tuple[str, ...], names: tuple[str, ...], requests: int) -> Drawing:
    """Return the drawing of `timing_breakdown` without its rows, so that charts that differ only in rows
    share it. `names`: the labels of the requests."""
    rows = [{"arm": arm} for arm in arms]
    step = max(row_height(requests), 3 * len(arms))
    bars = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X("start:Q", title=TIME),
            x2="end:Q",
            y=_by_request(names, requests),
            yOffset=alt.YOffset("arm:N", sort=arm_order(rows)),
            color=arm_colour(rows),
            tooltip=arm_tooltip(*_times()),
        )
        .transform_filter("datum.what == 'request'")
    )
    events = (
        alt.Chart()
        .mark_rule(strokeWidth=1.5, strokeDash=[5, 3])
        .encode(x="end:Q", color=arm_colour(rows), tooltip=arm_tooltip(_load_event()))
        .transform_filter("datum.what == 'load event'")
    )
    layered = alt.layer(bars.add_params(zoom("x")), events, data=ROWS)
    return Drawing(layered.properties(width=WIDTH, height=step * requests))


def waterfall(page: Page, place: str, arms: dict[ArmName, Shown], slug: str) -> Figure:
    """Draw the waits of each request in the median loads of a comparison, side by side."""
    loads = _labelled(arms)
    return replace(
        loads_waterfall(page, loads, slug),
        title=f"{page.name}, {place}: what each request waited for",
        caption=f"Median load of each transport. {PATH_CAPTION}",
        alt_text=f"Waterfalls of {page.name} at {place} side by side, {_times_of(loads)}.",
    )


def loads_waterfall(page: Page, loads: Mapping[str, Shown], slug: str) -> Figure:
    """Draw the waits of each request in loads of one page, side by side. `loads` maps labels to loads."""
    rows = [row for label, shown in loads.items() for row in waterfall_rows(label, shown)]
    name_rows(page, rows)
    rows += event_rows(loads)
    times = {label: time(shown.path.plt_ns / 1e6) for label, shown in loads.items()}
    places = {label: place for place, label in enumerate(loads)}
    for row in rows:
        row["panel"] = f"{row['arm']}: {times[row['arm']]}"
        row["place"] = places[row["arm"]]
    width = PANEL_WIDTH if len(loads) > 1 else WIDTH
    drawing = _waterfall_drawing(_values("kind", rows), _names(rows, page), len(page.resources), width)
    return Figure(
        name=f"waterfall-{slug}",
        title=f"{page.name}: what each request waited for",
        caption=PATH_CAPTION,
        alt_text=f"Waterfalls of {page.name}, {_times_of(loads)}.",
        drawing=drawing,
        rows=rows,
    )


@lru_cache(CHARTS_KEPT)
def _waterfall_drawing(kinds: tuple[str, ...], names: tuple[str, ...], requests: int, width: int) -> Drawing:
    """Return the drawing of `loads_waterfall` without its rows, for all charts that differ only in rows."""
    y = _by_request(names, requests)
    x = alt.X("start:Q", title=TIME, axis=alt.Axis(tickCount=5))
    base = alt.Chart()
    bars = (
        base.mark_bar(description=alt.ExprRef(SAID))
        .encode(
            x=x,
            x2="end:Q",
            y=y,
            color=kind_colour([{"kind": kind} for kind in kinds]),
            tooltip=[alt.Tooltip("kind:N", title="waits for"), *_times()],
        )
        .transform_filter("datum.what == 'piece'")
    )
    path = base.mark_rule(strokeWidth=1.5).encode(x=x, x2="end:Q", y=y)
    events = base.mark_rule(strokeWidth=1, strokeDash=[5, 3]).encode(x="end:Q", tooltip=[_load_event()])
    layers = (
        bars.add_params(zoom("x")),
        path.transform_filter("datum.what == 'path'"),
        events.transform_filter("datum.what == 'load event'"),
    )
    return Drawing(
        alt.layer(*layers)
        .properties(width=width, height=row_height(requests) * requests)
        .facet(alt.Facet("panel:N", sort=alt.EncodingSortField("place", op="min")), columns=2, data=ROWS)
    )


def _values(field: str, rows: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(sorted({row[field] for row in rows if field in row}))


def _names(rows: Iterable[dict[str, Any]], page: Page) -> tuple[str, ...]:
    """Return the names of the requests in the rows, in order; empty if there are too many."""
    if len(page.resources) > NAMED_MAX:
        return ()
    names = {row["request"]: row["name"] for row in rows if "request" in row}
    return tuple(names[index] for index in sorted(names))


def _by_request(names: tuple[str, ...], requests: int) -> alt.Y:
    """Return an axis of requests, the first at the top: with names, or with every fifth or tenth number."""
    if requests <= NAMED_MAX:
        axis = alt.Axis(grid=False, ticks=False, domain=False, labelLimit=0)
        return alt.Y("name:N", title=None, sort=list(names), axis=axis)
    every = 5 if row_height(requests) >= 5 else 10
    shown = [index for index in range(requests) if index % every == 0]
    axis = alt.Axis(values=shown, grid=False, ticks=False, domain=False)
    return alt.Y("request:O", title="request", scale=alt.Scale(domain=list(range(requests))), axis=axis)


def _times() -> Sequence[alt.Tooltip]:
    return (
        alt.Tooltip("name:N", title="request"),
        alt.Tooltip("start:Q", title="from ms", format=".1f"),
        alt.Tooltip("end:Q", title="to ms", format=".1f"),
    )


def _load_event() -> alt.Tooltip:
    return alt.Tooltip("end:Q", title="load event at ms", format=".1f")


def _times_of(loads: Mapping[str, Shown]) -> str:
    times = (f"{label} {shown.path.plt_ns / 1e9:.2f} s" for label, shown in loads.items())
    return "page load time: " + ", ".join(times)
