"""Define figures: a chart with its caption, alternative text and file name."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import altair as alt

from fastopen.report.figures.style import PAPER, Style, config

# Rows are added to the specification last, because Altair would take seconds to check them.
ROWS: Final = alt.NamedData("rows")
# The version of Vega-Lite that Altair writes, and that vl-convert and the scripts of a report must read.
VEGA_LITE: Final = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


@dataclass(frozen=True, eq=False)
class Drawing:
    """A chart of the data named ROWS. Figures that differ only in their rows share a drawing."""

    chart: alt.TopLevelMixin

    @cached_property
    def spec(self) -> dict[str, Any]:
        """Return the chart's specification. Altair takes 0.1 s to make it. Callers must not change it."""
        spec: dict[str, Any] = self.chart.to_dict(validate=False)
        return spec


@dataclass(frozen=True)
class Figure:
    """A figure. `name` is valid as a file name; `alt_text` is for readers who cannot see the figure."""

    name: str
    title: str
    caption: str
    alt_text: str
    drawing: Drawing
    rows: list[dict[str, Any]]

    def spec(self, style: Style = PAPER) -> dict[str, Any]:
        """Return the Vega-Lite specification with its data."""
        return {**self.bare_spec(style), "data": {"values": self.rows}}

    def bare_spec(self, style: Style = PAPER) -> dict[str, Any]:
        """Return the specification with the name of its data instead of the data."""
        return {**self.drawing.spec, "config": config(style), "description": self.alt_text, "padding": 8}
