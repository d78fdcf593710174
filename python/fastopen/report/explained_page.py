"""Write an HTML page without scripts on the assumed test conditions that explain published figures best."""

from typing import Any, Final

import altair as alt

from fastopen.experiments import BASELINE, HEADLINE
from fastopen.report.explained import explained_grids, sentences
from fastopen.report.figures.figure import ROWS, Drawing, Figure
from fastopen.report.figures.style import by_value
from fastopen.report.sections import drawn
from fastopen.report.templates import whole_page
from fastopen.workflows.explained import Explained

ALONE: Final = "by itself"
WITHOUT: Final = "best rig without it"
# The maximum width of labels, and the width of a letter, in pixels. Labels come from the user's file and may
# be long. The font on a page may be wider than the font in which labels are measured.
LABEL_MAX: Final = 280
LETTER: Final = 7.5


def explained_html(found: Explained) -> str:
    """Return an HTML page on the test conditions that explain published figures best. All text is escaped."""
    experiment, figure = found.space.base, cells_by_property(found)
    tiles = {
        "agree as the experiment stands": found.base.agreeing,
        "agree on the sourced rig": found.sourced.agreeing,
        "agree on the best rig": found.best.agreeing,
        "predicted when left out of the search": found.predicted,
    }
    return whole_page(
        "explained.html.jinja",
        experiment=experiment,
        cells=len(found.cells),
        best=found.best.agreeing,
        tiles=tiles,
        sentences=list(sentences(found)),
        grids=explained_grids(found),
        figure=None if figure is None else drawn(figure),
    )


def cells_by_property(found: Explained) -> Figure | None:
    """Draw the number of published savings that agree with measured savings for each assumed test condition:
    under only this condition, and under the best set without it. None if no condition was tried."""
    base, best = found.base.agreeing, found.best.agreeing
    rows: list[dict[str, Any]] = []
    for one in found.space.properties:
        for rig, change in ((ALONE, found.gained(one)), (WITHOUT, found.lost_without(one))):
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
        caption=f"Of {len(found.cells)}, within 3 points. By itself: the experiment with only this"
        f" property. Dashed: the experiment as it stands, {base}. Solid: the best rig, {best}.",
        alt_text=f"Of {len(found.cells)} savings agree: base {base}, best rig {best}. {'; '.join(said)}.",
        drawing=Drawing(_chart(rows, base, best, len(found.cells))),
        rows=rows,
    )


def _chart(rows: list[dict[str, Any]], base: int, best: int, cells: int) -> alt.TopLevelMixin:
    axis = alt.Axis(tickMinStep=1, format="d")
    room = min(LETTER * max(len(row["property"]) for row in rows), 1.2 * LABEL_MAX)
    labels = alt.Axis(labelLimit=LABEL_MAX, minExtent=room, grid=True, ticks=False)
    empty = alt.Chart().mark_point(filled=True, size=90, opacity=1)
    points = empty.encode(
        x=alt.X("cells:Q", title="savings that agree", scale=alt.Scale(domain=[0, cells]), axis=axis),
        y=alt.Y("property:N", sort=None, title=None, axis=labels),
        yOffset=alt.YOffset("rig:N", sort=[ALONE, WITHOUT]),
        color=by_value(alt.Color, "rig", {ALONE: HEADLINE.colour, WITHOUT: BASELINE.colour}),
        shape=by_value(alt.Shape, "rig", {ALONE: HEADLINE.shape, WITHOUT: "diamond"}),
        tooltip=[
            alt.Tooltip("property:N", title="property"),
            alt.Tooltip("rig:N", title="rig"),
            alt.Tooltip("cells:Q", title="savings that agree"),
            alt.Tooltip("source:N", title="source"),
        ],
    )
    lines = (
        alt.Chart().mark_rule(strokeDash=dash, strokeWidth=1.5, opacity=0.7).encode(x=alt.datum(number))
        for number, dash in ((base, [4, 3]), (best, [1, 0]))
    )
    return alt.layer(*lines, points, data=ROWS).properties(width=320, height=alt.Step(14))
