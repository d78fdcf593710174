"""Turn a figure into a self-contained Altair chart for notebooks."""

from typing import Any

import altair as alt

from fastopen.report.figures import Figure


def chart_of(figure: Figure) -> alt.TopLevelMixin:
    """Return the figure as a chart that contains its data, style and text alternative."""
    spec = figure.spec()
    chart: Any = figure.drawing.chart.copy(deep=False)  # type: ignore[attr-defined]
    chart.data = alt.InlineData(values=spec["data"]["values"])
    for name in ("config", "description", "padding"):
        chart[name] = spec[name]
    shown: alt.TopLevelMixin = chart
    return shown
