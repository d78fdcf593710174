"""A figure: a chart, and the words that stand below it, are read out in its place, and name its file."""

from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from fastopen.figures.style import PAPER, Style, config

# What Altair writes, and what vl-convert and the scripts of a report are asked to read.
VEGA_LITE: Final = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


@dataclass(frozen=True)
class Figure:
    """`name` is good for a file; `alt_text` says what a person who cannot see it should know."""

    name: str
    title: str
    caption: str
    alt_text: str
    chart: alt.TopLevelMixin

    def spec(self, style: Style = PAPER) -> dict[str, Any]:
        """The Vega-Lite specification, data included."""
        spec: dict[str, Any] = self.chart.to_dict(validate=False)
        # Altair names data by their digest; a figure has one table, which can stand in its own place.
        (rows,) = spec.pop("datasets").values()
        spec["data"] = {"values": rows}
        return {**spec, "config": config(style), "description": self.alt_text, "padding": 8}


def data(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Rows as they are, in the specification."""
    return alt.InlineData(values=rows)
