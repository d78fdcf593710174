"""Write figures as files: SVG for the web, PDF for papers, PNG for slides."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import vl_convert as vlc

from fastopen.common.atomic import write_atomic
from fastopen.common.errors import unwritable
from fastopen.report.figures.figure import VEGA_LITE, Figure
from fastopen.report.figures.style import PAPER, Style

Format = Literal["svg", "png", "pdf"]
FORMATS: Final[tuple[Format, ...]] = ("svg", "png", "pdf")
# Pixels of the file for each pixel of the figure: 288 dots per inch.
PNG_SCALE: Final = 3.0


def write_figures(figures: Iterable[Figure], folder: Path, formats: Sequence[Format]) -> list[Path]:
    """Write each figure in each format, and return the paths. Raises InputError if they cannot be written."""
    written = []
    taken: set[str] = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            name = _free_name(figure.name, taken)
            for form in formats:
                path = folder / f"{name}.{form}"
                write_atomic(path, rendered(figure, form))
                written.append(path)
    except OSError as error:
        raise unwritable(folder, error) from None
    return written


def rendered(figure: Figure, form: Format, style: Style = PAPER) -> bytes:
    """Return one figure in one format, without its title, which the surrounding document shows."""
    spec = figure.spec(style)
    if form == "svg":
        return vlc.vegalite_to_svg(spec, vl_version=VEGA_LITE).encode()
    if form == "png":
        return vlc.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=PNG_SCALE)
    return vlc.vegalite_to_pdf(spec, vl_version=VEGA_LITE)


def _free_name(name: str, taken: set[str]) -> str:
    """Return the name, with a number if it is taken: the names of two pages can give the same file name."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free
