"""Draw the figures of a run, for papers (SVG, PNG, PDF) and for the report."""

from fastopen.report.figures.figure import FORMATS, VEGA_LITE, Figure, Format, rendered, write_figures
from fastopen.report.figures.gallery import load_figures, median_loads, overview_figures, slug_of
from fastopen.report.figures.style import PAGE
