"""Define the look of all figures: fonts, colours that colour-blind readers can distinguish, and encodings.

The colours are from Okabe and Ito (2008). Each arm has a colour, a shape and a dash pattern, so that figures
are also readable in grey. The fonts come with vl-convert, so that files look the same on every machine."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeVar

import altair as alt

from fastopen.analysis.attribution import Kind
from fastopen.experiments import ARMS, Arm

FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
SIZE: Final = 12

KIND_COLOURS: Final = {
    Kind.LOOK_UP: "#cc79a7",
    Kind.QUEUEING: "#b5b5b5",
    Kind.HANDSHAKE: "#d55e00",
    Kind.TLS: "#8c3d00",
    Kind.WAIT: "#56b4e9",
    Kind.TRANSFER: "#0072b2",
    Kind.PROCESSING: "#f0e442",
}
PUBLISHED_COLOUR: Final = "#cc79a7"
# Legend symbols must be long enough to show the dashes.
DASH_LEGEND: Final = alt.Legend(symbolSize=500)
Channel = TypeVar("Channel")


def _config(ink: str, background: str) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a figure with these colours."""
    quiet = {"labelColor": ink, "titleColor": ink, "labelFontSize": SIZE}
    return {
        "background": background,
        "font": FONT,
        "axis": {
            **quiet,
            "titleFontSize": SIZE,
            "titleFontWeight": "normal",
            "domainColor": ink,
            "tickColor": ink,
            "gridColor": ink,
            "gridOpacity": 0.13,
            "labelFlush": False,
            "domainOpacity": 0.5,
            "tickOpacity": 0.5,
        },
        "legend": {
            **quiet,
            "labelLimit": 0,
            "title": None,
            "orient": "top",
            "direction": "horizontal",
            "symbolStrokeWidth": 2,
            "columns": 6,
        },
        "header": {
            **quiet,
            "labelFontSize": SIZE + 1,
            "labelFontWeight": "bold",
            "title": None,
            "labelAnchor": "start",
            "labelLimit": 0,
        },
        "title": {"color": ink, "fontSize": SIZE + 1, "anchor": "start", "frame": "group"},
        "text": {"color": ink, "fontSize": SIZE},
        "rule": {"color": ink},
        "tick": {"color": ink},
        "view": {"stroke": None},
        "facet": {"spacing": 24},
        "concat": {"spacing": 24},
    }


# The configurations of figures in files and on web pages, which may be dark. On a page, the ink has the
# colour of the text around it, so that a drawing suits dark mode and print.
PAPER: Final = _config(ink="#1a1a1a", background="white")
PAGE: Final = _config(ink="currentColor", background="transparent")


def _arms(rows: Iterable[dict[str, Any]]) -> list[Arm]:
    there = {row["arm"] for row in rows}
    return [arm for arm in ARMS.values() if arm.label in there]


def by_value(channel: Callable[..., Channel], field: str, looks: Mapping[str, Any], **others: Any) -> Channel:
    """Return an encoding of the kind `channel`, such as alt.Color, that gives values of `field` a look."""
    scale = alt.Scale(domain=[*looks], range=[*looks.values()])
    return channel(f"{field}:N", scale=scale, title=None, **others)


def arm_colour(rows: list[dict[str, Any]]) -> alt.Color:
    """Return the encoding that gives each arm in the chart data `rows` its colour."""
    return by_value(alt.Color, "arm", {arm.label: arm.colour for arm in _arms(rows)})


def arm_shape(rows: list[dict[str, Any]]) -> alt.Shape:
    """Return the encoding that gives each arm in the chart data `rows` its shape."""
    return by_value(alt.Shape, "arm", {arm.label: arm.shape for arm in _arms(rows)})


def arm_dash(rows: list[dict[str, Any]]) -> alt.StrokeDash:
    """Return the encoding that gives each arm in the chart data `rows` its dash pattern."""
    return by_value(alt.StrokeDash, "arm", {arm.label: arm.dash for arm in _arms(rows)}, legend=DASH_LEGEND)


def arm_order(rows: list[dict[str, Any]]) -> list[str]:
    """Return the labels of the arms in the chart data `rows`, in the order of ARMS."""
    return [arm.label for arm in _arms(rows)]


def arm_tooltip(*others: alt.Tooltip) -> list[alt.Tooltip]:
    """Return the tooltips of a mark in a chart: its arm, then `others`."""
    return [alt.Tooltip("arm:N", title="transport"), *others]


def kind_colour(rows: list[dict[str, Any]]) -> alt.Color:
    """Return the encoding that gives each kind of wait in the chart data `rows` its colour."""
    there = {row["kind"] for row in rows}
    return by_value(alt.Color, "kind", {kind.value: KIND_COLOURS[kind] for kind in Kind if kind in there})


def zoom(*encodings: Literal["x", "y"], name: str = "zoom") -> alt.Parameter:
    """Return a parameter that lets readers zoom and move a chart along `encodings`, by default along both
    axes. While Shift is held, the wheel zooms and dragging moves. `name` must be unique in a figure."""
    held = "[event.shiftKey]"
    return alt.selection_interval(
        bind="scales",
        encodings=list(encodings or ("x", "y")),
        zoom=f"wheel!{held}",
        translate=f"[pointerdown{held}, window:pointerup] > window:pointermove!",
        name=name,
    )
