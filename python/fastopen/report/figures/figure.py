"""A figure: a chart, and the words that stand below it, are read out in its place, and name its file."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import altair as alt

from fastopen.report.figures.style import PAPER, Style, config

# Rows are put into the specification last: Altair would check each of them, for seconds.
ROWS: Final = alt.NamedData("rows")
# What Altair writes, and what vl-convert and the scripts of a report are asked to read.
VEGA_LITE: Final = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


@dataclass(frozen=True, eq=False)
class Drawing:
    """A chart of the data called ROWS. Figures that differ in their rows alone share one."""

    chart: alt.TopLevelMixin

    @cached_property
    def spec(self) -> dict[str, Any]:
        """Its specification, which takes Altair a tenth of a second. Not to be changed."""
        spec: dict[str, Any] = self.chart.to_dict(validate=False)
        return spec


@dataclass(frozen=True)
class Figure:
    """`name` is good for a file; `alt_text` says what a person who cannot see it should know."""

    name: str
    title: str
    caption: str
    alt_text: str
    drawing: Drawing
    rows: list[dict[str, Any]]

    def spec(self, style: Style = PAPER) -> dict[str, Any]:
        """The Vega-Lite specification, data included."""
        return {**self.bare_spec(style), "data": {"values": self.rows}}

    def bare_spec(self, style: Style = PAPER) -> dict[str, Any]:
        """The specification with the name of its data in their place."""
        return {**self.drawing.spec, "config": config(style), "description": self.alt_text, "padding": 8}
