"""Define figures: charts with captions, alternative texts and file names. Write them as SVG, PDF and PNG."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import altair as alt
import vl_convert as vlc

from fastopen.common.errors import unwritable
from fastopen.common.files import write_atomic
from fastopen.report.figures.style import PAPER

# A placeholder for a chart's data, because Altair takes seconds to check data. `Figure.spec` adds the data.
ROWS: Final = alt.NamedData("rows")
# The version of Vega-Lite that Altair writes, and that vl-convert and the scripts of a report must read.
VEGA_LITE: Final = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
Format = Literal["svg", "png", "pdf"]
FORMATS: Final[tuple[Format, ...]] = ("svg", "png", "pdf")
# Pixels of a PNG file for each pixel of the figure: 288 dots per inch.
PNG_SCALE: Final = 3.0


@dataclass(frozen=True, eq=False)
class Drawing:
    """A chart without its data. Figures that differ only in their data share a drawing."""

    chart: alt.TopLevelMixin

    @cached_property
    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification. It is cached because building takes 0.1 s; do not change it."""
        spec: dict[str, Any] = self.chart.to_dict(validate=False)
        return spec


@dataclass(frozen=True)
class Figure:
    """A chart with its data (`rows`), title and other text. `name` is a file name without an extension."""

    name: str
    title: str
    caption: str
    alt_text: str
    drawing: Drawing
    rows: list[dict[str, Any]]

    def spec(self, config: dict[str, Any] = PAPER) -> dict[str, Any]:
        """Return the Vega-Lite specification with the figure's data."""
        return {**self.bare_spec(config), "data": {"values": self.rows}}

    def bare_spec(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return the Vega-Lite specification without data. It refers to a data set named `rows`."""
        return {**self.drawing.spec, "config": deepcopy(config), "description": self.alt_text, "padding": 8}


def rendered(figure: Figure, form: Format, config: dict[str, Any] = PAPER) -> bytes:
    """Return the figure as the bytes of a file, without the title, which the surrounding document shows."""
    spec = figure.spec(config)
    if form == "svg":
        return vlc.vegalite_to_svg(spec, vl_version=VEGA_LITE).encode()
    if form == "png":
        return vlc.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=PNG_SCALE)
    return vlc.vegalite_to_pdf(spec, vl_version=VEGA_LITE)


def write_figures(figures: Iterable[Figure], folder: Path, formats: Sequence[Format]) -> list[Path]:
    """Write each figure in each format, and return the paths. Raises InputError if the folder cannot be
    written, or MachineError if the disk is full."""
    written = []
    taken: set[str] = set()
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            name, number = figure.name, 1
            # The names of two pages can give the same file name.
            while name in taken:
                number += 1
                name = f"{figure.name}-{number}"
            taken.add(name)
            for form in formats:
                path = folder / f"{name}.{form}"
                write_atomic(path, rendered(figure, form))
                written.append(path)
    except OSError as error:
        if made:
            with suppress(OSError):  # `rmdir` fails if the folder contains figures.
                folder.rmdir()
        raise unwritable(folder, error) from None
    return written
