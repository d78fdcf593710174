"""Figures of a run, for papers (SVG, PNG, PDF) and for the report."""

from fastopen.figures.figure import VEGA_LITE, Figure
from fastopen.figures.files import FORMATS, Format, rendered, write_figures
from fastopen.figures.gallery import load_figures, median_loads, overview_figures, slug_of
from fastopen.figures.style import PAGE

__all__ = [
    "FORMATS",
    "PAGE",
    "VEGA_LITE",
    "Figure",
    "Format",
    "load_figures",
    "median_loads",
    "overview_figures",
    "rendered",
    "slug_of",
    "write_figures",
]
