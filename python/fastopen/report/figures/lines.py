"""Draw page load time over one factor: round-trip time, rate, or another factor that decides."""

from statistics import median
from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Curve, Place, Source, curves_of
from fastopen.analysis.statistics.loaded import http_of_rows
from fastopen.experiments import ARMS, Factor
from fastopen.report.figures.encodings import arm_colour, arm_order, arm_shape, arm_tooltip, zoom
from fastopen.report.figures.figure import ROWS, Drawing, Figure
from fastopen.report.figures.panels import first_panels, title_of
from fastopen.report.figures.spread import median_span

TITLE: Final = "page load time in s"


def plt_along(source: Source, along: Factor) -> Figure | None:
    """Draw median page load times with intervals, a panel for each page and series; None if nothing varies.
    Values that are not numbers, such as HTTP versions, are categories on the axis, without lines."""
    rows: list[dict[str, Any]] = []
    for page in source.results.pages:
        for curve in curves_of(source.results, source.places(page), along.name):
            if len({_at(place, along) for place in curve.places} - {None}) > 1:
                rows += _rows(curve, along, title_of(source, page, curve.name))
    rows, left = first_panels(rows)
    if not rows:
        return None
    titles = dict.fromkeys(row["panel"] for row in rows)
    warning = http_of_rows(source.results, source.results.cells) if along.name == "tls" else ""
    return Figure(
        name=f"plt-by-{along.name.replace('_', '-')}",
        title=f"Page load time against {along.title}",
        caption="Points: median of the valid loads. Bars: its 95 % interval by order statistics, where there"
        f" are 6 loads or more.{left}{warning and f' {warning}'}",
        alt_text=f"Charts of page load time against {along.title}, by transport: " + ", ".join(titles),
        drawing=Drawing(_chart(rows, along)),
        rows=rows,
    )


def _at(place: Place, along: Factor) -> float | str | None:
    values = place.numbers if along.kind in ("int", "float") else place.texts
    return values.get(along.name)


def _rows(curve: Curve, along: Factor, panel: str) -> list[dict[str, Any]]:
    rows = []
    for place in curve.places:
        at = _at(place, along)
        for arm, result in place.arms.items():
            plts = sorted(result.plts_ms.values())
            if not plts or at is None:
                continue
            low, high = median_span(plts) or (None, None)
            seconds = {"plt": median(plts), "low": low, "high": high}
            rows.append(
                {
                    "panel": panel,
                    "x": at,
                    "arm": ARMS[arm].label,
                    "n": len(plts),
                    **{name: None if ms is None else ms / 1000 for name, ms in seconds.items()},
                }
            )
    return rows


def _chart(rows: list[dict[str, Any]], along: Factor) -> alt.ConcatChart:
    titles = list(dict.fromkeys(row["panel"] for row in rows))
    views = [_view(rows, title, along, number) for number, title in enumerate(titles)]
    return alt.concat(*views, columns=min(2, len(views)), data=ROWS)


def _view(rows: list[dict[str, Any]], title: str, along: Factor, number: int) -> Any:
    """Draw one panel with its own time scale, because pages differ more than networks do."""
    top = max(row["high"] or row["plt"] for row in rows if row["panel"] == title)
    base = (
        alt.Chart()
        .transform_filter(alt.FieldEqualPredicate(field="panel", equal=title))
        .encode(x=_axis(rows, along), color=arm_colour(rows))
    )
    numbers = _are_numbers(rows)
    if not numbers:
        base = base.encode(xOffset=alt.XOffset("arm:N", sort=arm_order(rows)))
    # Keep the topmost label within the axis, or the panels of a row would not align.
    axis = alt.Axis(labelFlush=True)
    scale = alt.Scale(domain=[0, 1.06 * top], nice=True)
    y = alt.Y("plt:Q", title=TITLE, scale=scale, axis=axis)
    lines = base.mark_line(strokeWidth=1.8).encode(y=y).add_params(zoom(name=f"zoom{number}"))
    bars = base.mark_rule(strokeWidth=1.6).encode(y=alt.Y("low:Q", title=TITLE), y2="high:Q")
    points = base.mark_point(filled=True, size=45, opacity=1).encode(
        y=y,
        shape=arm_shape(rows),
        tooltip=arm_tooltip(
            alt.Tooltip("x:Q" if numbers else "x:N", title=along.heading),
            alt.Tooltip("plt:Q", title="median PLT in s", format=".3f"),
            alt.Tooltip("low:Q", title="interval from", format=".3f"),
            alt.Tooltip("high:Q", title="to", format=".3f"),
            alt.Tooltip("n:Q", title="loads"),
        ),
    )
    layers = (lines, bars, points) if numbers else (bars, points)
    return alt.layer(*layers).properties(width=280, height=170, title=title)


def _are_numbers(rows: list[dict[str, Any]]) -> bool:
    return not any(isinstance(row["x"], str) for row in rows)


def _axis(rows: list[dict[str, Any]], along: Factor) -> alt.X:
    """Return the horizontal axis: from 0 for numbers, otherwise with categories in the order of the rows."""
    values = list(dict.fromkeys(row["x"] for row in rows))
    if _are_numbers(rows):
        scale = alt.Scale(domain=[0, 1.04 * max(values)])
        return alt.X("x:Q", title=along.heading, scale=scale, axis=alt.Axis(tickCount=5))
    return alt.X("x:N", title=along.heading, sort=values, axis=alt.Axis(labelAngle=0))
