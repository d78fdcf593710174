"""Declared properties of a rig: how many published savings agree with each alone, and without it."""

from typing import Any, Final

import altair as alt

from fastopen.experiments import BASELINE, HEADLINE
from fastopen.report.figures.figure import ROWS, Drawing, Figure
from fastopen.workflows.explain import Explained

ALONE: Final = "the experiment with this property alone"
WITHOUT: Final = "the best rig without this property"
# In pixels: a foreign file may give a property a longer name and value.
LABEL_MAX: Final = 330


def cells_by_property(found: Explained) -> Figure | None:
    """Points against the lines of base and best rig; None if no property is declared."""
    base, best = found.base.agreeing, found.best.agreeing
    rows: list[dict[str, Any]] = []
    for one in found.space.properties:
        tried = {ALONE: found.gained(one)}
        tried |= {WITHOUT: found.lost_without(one)} if one in found.best.rig else {}
        for rig, change in tried.items():
            if change is not None:
                agreeing = base + change if rig == ALONE else best - change
                label = f"{one.name}: {one.value}"
                rows.append({"property": label, "rig": rig, "cells": agreeing, "source": one.source})
    if not rows:
        return None
    said = (f"{row['property']}, {row['rig']}: {row['cells']}" for row in rows)
    return Figure(
        name="rigs",
        title="Published savings that agree, by property",
        caption=f"Of {len(found.cells)}, within 3 points. Dashed line: as the experiment stands, {base}."
        f" Solid line: the best rig, {best}. A property that moves its point away from its line matters.",
        alt_text=f"Of {len(found.cells)} savings agree: base {base}, best rig {best}. {'; '.join(said)}.",
        drawing=Drawing(_chart(base, best, len(found.cells))),
        rows=rows,
    )


def _chart(base: int, best: int, cells: int) -> alt.TopLevelMixin:
    rigs = [ALONE, WITHOUT]
    axis = alt.Axis(tickMinStep=1, format="d")
    points = (
        alt.Chart()
        .mark_point(filled=True, size=90, opacity=1)
        .encode(
            x=alt.X("cells:Q", title="savings that agree", scale=alt.Scale(domain=[0, cells]), axis=axis),
            y=alt.Y(
                "property:N",
                sort=None,
                title=None,
                axis=alt.Axis(labelLimit=LABEL_MAX, grid=True, ticks=False),
            ),
            yOffset=alt.YOffset("rig:N", sort=rigs),
            color=alt.Color(
                "rig:N", title=None, scale=alt.Scale(domain=rigs, range=[HEADLINE.colour, BASELINE.colour])
            ),
            shape=alt.Shape(
                "rig:N", title=None, scale=alt.Scale(domain=rigs, range=[HEADLINE.shape, "diamond"])
            ),
            tooltip=[
                alt.Tooltip("property:N", title="property"),
                alt.Tooltip("rig:N", title="rig"),
                alt.Tooltip("cells:Q", title="savings that agree"),
                alt.Tooltip("source:N", title="source"),
            ],
        )
    )
    lines = (
        alt.Chart().mark_rule(strokeDash=dash, strokeWidth=1.5, opacity=0.7).encode(x=alt.datum(number))
        for number, dash in ((base, [4, 3]), (best, [1, 0]))
    )
    return alt.layer(*lines, points, data=ROWS).properties(width=320, height=alt.Step(14))
