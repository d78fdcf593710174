"""Draw the cumulative distribution of the page load times of each cell's valid loads."""

from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Source
from fastopen.experiments import ARMS
from fastopen.report.figures.encodings import arm_colour, arm_dash, arm_tooltip, zoom
from fastopen.report.figures.figure import Drawing, Figure
from fastopen.report.figures.panels import PANELS_MAX, left_out, small_multiples, title_of
from fastopen.report.figures.spread import distribution

# With fewer loads, no distribution is drawn.
LOADS_MIN: Final = 3
# The smallest spread that is drawn, as a fraction of the fastest load's time. A smaller spread would look
# like a vertical line.
SPREAD_MIN: Final = 0.001
# Pixels for each letter of a panel's title.
TITLE_WIDTH: Final = 6
WIDTH: Final = 200


def cumulative_distribution(source: Source) -> Figure | None:
    """Draw the share of finished loads over time, a panel for each comparison whose times vary, if any."""
    rows: list[dict[str, Any]] = []
    count = 0
    for page, place in source.all_places():
        cells = {arm: sorted(one.plts_ms.values()) for arm, one in place.arms.items()}
        cells = {arm: plts for arm, plts in cells.items() if len(plts) >= LOADS_MIN}
        if all(plts[-1] - plts[0] <= SPREAD_MIN * plts[0] for plts in cells.values()):
            continue
        count += 1
        if count <= PANELS_MAX:
            panel = title_of(source, page, place.name)
            rows += [
                {"panel": panel, "arm": ARMS[arm].label, "plt": ms / 1000, "share": share}
                for arm, plts in cells.items()
                for ms, share in [(plts[0], 0.0), *distribution(plts)]
            ]
    if not rows:
        return None
    return Figure(
        name="distribution",
        title="Cumulative distribution of page load times",
        caption="Share of loads finished by each time. Pages without variation are not drawn."
        f"{left_out(count)}",
        alt_text="Cumulative distributions of page load time, one line for each transport.",
        drawing=Drawing(_chart(rows)),
        rows=rows,
    )


def _chart(rows: list[dict[str, Any]]) -> Any:
    lines = (
        alt.Chart()
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            x=alt.X(
                "plt:Q",
                title="page load time in s",
                scale=alt.Scale(zero=False, nice=True),
                axis=alt.Axis(tickCount=4),
            ),
            y=alt.Y("share:Q", title="share of loads", axis=alt.Axis(format="%", tickCount=5)),
            color=arm_colour(rows),
            strokeDash=arm_dash(rows),
            tooltip=arm_tooltip(
                alt.Tooltip("plt:Q", title="PLT in s", format=".3f"),
                alt.Tooltip("share:Q", title="share", format=".0%"),
            ),
        )
        .add_params(zoom("x"))
    )
    longest = max(len(row["panel"]) for row in rows)
    beyond = max(0, TITLE_WIDTH * longest - WIDTH)
    return small_multiples(lines, rows, WIDTH, 110, labels=beyond).resolve_scale(x="independent")
