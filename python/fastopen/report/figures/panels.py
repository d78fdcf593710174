"""Arrange charts in panels. A panel shows results of one page in which only one setting (factor) varies."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import altair as alt

from fastopen.analysis.attribution import Place, RunAnalysis, curves_of
from fastopen.experiments import Factor
from fastopen.report.figures.figure import ROWS

# The maximum number of panels of a figure. More do not fit on a printed page.
PANELS_MAX: Final = 24


def places_along(analysis: RunAnalysis, axis: Factor) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield (place, fields) for each combination of page, network and setup. `axis` is the factor on the x
    axis, such as the RTT. `fields` has the values of a row of chart data: `page`, `place` (the name of the
    network and setup), `panel` (the title of the panel), and `x` (the value of `axis`)."""
    for page in analysis.results.pages:
        for name, places in curves_of(analysis.results, analysis.places(page), axis.name).items():
            panel = title_of(analysis, page, name)
            for place in places:
                x = place.texts.get(axis.name, place.name)
                yield place, {"page": page, "place": place.name, "panel": panel, "x": x}


def left_out(panels: int) -> str:
    """Return a sentence about hidden panels if there are more than PANELS_MAX; otherwise an empty string."""
    return f" The first {PANELS_MAX} of {panels} panels are shown." if panels > PANELS_MAX else ""


def first_panels(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of the first PANELS_MAX panels, and a sentence about hidden ones or an empty string."""
    titles = list(dict.fromkeys(row["panel"] for row in rows))
    shown = {*titles[:PANELS_MAX]}
    return [row for row in rows if row["panel"] in shown], left_out(len(titles))


def small_multiples(chart: Any, rows: list[dict[str, Any]], width: int, height: Any, labels: int = 0) -> Any:
    """Draw the chart once for each panel, with the data of this panel. `rows`: the data, whose field `panel`
    names the panel. `width`, `height`: a panel's size in pixels. `labels`: additional width for labels."""
    panel = alt.Facet("panel:N", sort=list(dict.fromkeys(row["panel"] for row in rows)))
    sized = chart.properties(width=width, height=height)
    return sized.facet(panel, columns=columns_of(rows, width + labels), data=ROWS)


def side_by_side(
    rows: list[dict[str, Any]], field: str, view: Callable[[alt.Chart, str], Any]
) -> alt.ConcatChart:
    """Arrange charts in two columns: one chart for each value of `field` in the rows. `view(chart, value)`
    draws one chart: the `chart` that it receives selects the rows with this value, but has no marks yet."""
    views = [
        view(alt.Chart().transform_filter(alt.FieldEqualPredicate(field=field, equal=value)), value)
        for value in dict.fromkeys(row[field] for row in rows)
    ]
    return alt.concat(*views, columns=min(2, len(views)), data=ROWS)


def title_of(analysis: RunAnalysis, page: str, name: str) -> str:
    """Return the title of a panel, such as `wikipedia, 20 ms`. `name` describes its settings (`20 ms`). The
    title includes the page only if the run has several pages, or if `name` is empty."""
    several = len(analysis.results.pages) > 1
    return ", ".join(part for part in (page if several or not name else "", name) if part)


def columns_of(rows: Sequence[Mapping[str, Any]], width: int, most: int = 680) -> int:
    """Return the number of panels to place side by side. A panel is `width` pixels wide, and a
    row of panels at most `most` pixels. If possible, panels of the same page fill whole rows."""
    panels = Counter(page for page, _ in {(row.get("page", ""), row["panel"]) for row in rows})
    room = max(1, min(panels.total(), most // (width + 40)))
    each = max(panels.values())
    even = [count for count in range(2, room + 1) if each > 1 and each % count == 0]
    return max(even, default=room)
