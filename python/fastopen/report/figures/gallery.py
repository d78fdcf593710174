"""Collect the figures of a run: figures of the whole run, and figures of single loads."""

import re
import unicodedata
from collections.abc import Iterator

from fastopen.analysis.attribution import RunAnalysis, Shown, axis_of
from fastopen.experiments.factors import BY_NAME, RTT
from fastopen.pages import Page
from fastopen.report.figures.corpus import properties_and_savings
from fastopen.report.figures.critical import critical_path_bars
from fastopen.report.figures.distribution import (
    cold_distribution,
    cumulative_distribution,
    savings_over_pages,
)
from fastopen.report.figures.figure import Figure
from fastopen.report.figures.first_flights import first_flight_ladder, round_trips_by_size
from fastopen.report.figures.improvement import improvement_bars, published_comparison
from fastopen.report.figures.lines import plt_along
from fastopen.report.figures.payoff import mean_saving_over_paths
from fastopen.report.figures.requests import loads_waterfall, timing_breakdown
from fastopen.report.figures.tcp_trace import has_trace, tcp_trace


def overview_figures(analysis: RunAnalysis) -> list[Figure]:
    """Return the figures of the whole run that can be drawn from its data."""
    along = dict.fromkeys((RTT, BY_NAME["down"], axis_of(analysis.results)))
    made = (
        savings_over_pages(analysis),
        properties_and_savings(analysis),
        improvement_bars(analysis),
        first_flight_ladder(analysis),
        round_trips_by_size(analysis),
        mean_saving_over_paths(analysis),
        *(plt_along(analysis, factor) for factor in along),
        critical_path_bars(analysis),
        cold_distribution(analysis),
        cumulative_distribution(analysis),
        published_comparison(analysis),
    )
    return [figure for figure in made if figure is not None]


def load_figures(analysis: RunAnalysis) -> Iterator[Figure]:
    """Yield figures of example loads (see `median_loads`) for each page, network and setup: the times of
    requests, the waits of requests, and TCP traces if they were recorded."""
    for page, place, loads in median_loads(analysis):
        slug = slug_of(f"{page.name}-{place}")
        yield timing_breakdown(page, place, loads, slug)
        yield loads_waterfall(page, place, loads, slug)
        if has_trace(loads):
            yield tcp_trace(page, place, loads, slug)


def median_loads(analysis: RunAnalysis) -> Iterator[tuple[Page, str, dict[str, Shown]]]:
    """Yield (page, name of network and setup, loads) for each page, network and setup with example loads.
    `loads` maps each arm's label to a load, if possible of the repeat with the saving nearest the median."""
    shown = analysis.attribution.shown
    for name, place in analysis.all_places():
        pair = [one.cell for one in (place.baseline, place.headline) if one]
        if loads := {cell.arm.label: shown[cell.index] for cell in pair if cell.index in shown}:
            yield analysis.results.pages[name], place.name, loads


def slug_of(text: str) -> str:
    """Reduce the text to letters, digits and hyphens, which any file system accepts."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:80] or "x"
