"""Define encodings that figures share: colours, shapes and dashes of arms and kinds, tooltips, zoom."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import altair as alt

from fastopen.analysis.attribution import Kind
from fastopen.experiments import ARMS, Arm
from fastopen.report.figures.style import KIND_COLOURS


def _arms(rows: Iterable[dict[str, Any]]) -> list[Arm]:
    there = {row["arm"] for row in rows}
    return [arm for arm in ARMS.values() if arm.label in there]


def _scale(rows: Iterable[dict[str, Any]], look: Callable[[Arm], Any]) -> alt.Scale:
    arms = _arms(rows)
    return alt.Scale(domain=[arm.label for arm in arms], range=[look(arm) for arm in arms])


def arm_colour(rows: list[dict[str, Any]]) -> alt.Color:
    return alt.Color("arm:N", scale=_scale(rows, lambda arm: arm.colour), title=None)


def arm_shape(rows: list[dict[str, Any]]) -> alt.Shape:
    return alt.Shape("arm:N", scale=_scale(rows, lambda arm: arm.shape), title=None)


def arm_dash(rows: list[dict[str, Any]]) -> alt.StrokeDash:
    # Legend symbols must be long enough to show the dashes.
    return alt.StrokeDash(
        "arm:N", scale=_scale(rows, lambda arm: arm.dash), title=None, legend=alt.Legend(symbolSize=500)
    )


def arm_order(rows: list[dict[str, Any]]) -> list[str]:
    """Return the labels of the arms, as the order for axes and offsets."""
    return [arm.label for arm in _arms(rows)]


def arm_tooltip(*others: alt.Tooltip) -> list[alt.Tooltip]:
    """Return a tooltip that shows the arm first."""
    return [alt.Tooltip("arm:N", title="transport"), *others]


def kind_colour(rows: list[dict[str, Any]]) -> alt.Color:
    there = {row["kind"] for row in rows}
    kinds = [kind for kind in Kind if kind.value in there]
    scale = alt.Scale(domain=[kind.value for kind in kinds], range=[KIND_COLOURS[kind] for kind in kinds])
    return alt.Color("kind:N", scale=scale, title=None)


def zoom(*encodings: Literal["x", "y"], name: str = "zoom") -> alt.Parameter:
    """Return a parameter to zoom with shift held: the wheel zooms, dragging moves, a double click resets."""
    held = "[event.shiftKey]"
    return alt.selection_interval(
        bind="scales",
        encodings=list(encodings or ("x", "y")),
        zoom=f"wheel!{held}",
        translate=f"[pointerdown{held}, window:pointerup] > window:pointermove!",
        name=name,
    )
