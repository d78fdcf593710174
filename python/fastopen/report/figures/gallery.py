"""Collect the figures of a run: those of the whole run, and those of single loads."""

import re
import unicodedata
from collections.abc import Iterator

from fastopen.analysis.attribution import Shown, Source, axis_of
from fastopen.experiments import ArmName
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
from fastopen.report.figures.requests import timing_breakdown, waterfall
from fastopen.report.figures.tcp_trace import has_trace, tcp_trace


def overview_figures(source: Source) -> list[Figure]:
    """Return the figures on the whole run, except figures for which the run has no data."""
    along = dict.fromkeys((RTT, BY_NAME["down"], axis_of(source.results)))
    made = (
        savings_over_pages(source),
        properties_and_savings(source),
        improvement_bars(source),
        first_flight_ladder(source),
        round_trips_by_size(source),
        mean_saving_over_paths(source),
        *(plt_along(source, factor) for factor in along),
        critical_path_bars(source),
        cold_distribution(source),
        cumulative_distribution(source),
        published_comparison(source),
    )
    return [figure for figure in made if figure is not None]


def load_figures(source: Source) -> Iterator[Figure]:
    """Yield figures of the median loads of each comparison, without and with TFO, and TCP traces if any."""
    for page, place, arms in median_loads(source):
        slug = slug_of(f"{page.name}-{place}")
        yield timing_breakdown(page, place, arms, slug)
        yield waterfall(page, place, arms, slug)
        if has_trace(arms):
            yield tcp_trace(page, place, arms, slug)


def median_loads(source: Source) -> Iterator[tuple[Page, str, dict[ArmName, Shown]]]:
    """Yield the loads to draw side by side: the median loads without TFO and with the preferred treatment."""
    for name, place in source.all_places():
        pair = {one.cell.arm.name: one.cell.index for one in (place.baseline, place.headline) if one}
        known = source.attribution.shown
        arms = {arm: known[index] for arm, index in pair.items() if index in known}
        if arms:
            yield source.results.pages[name], place.name, arms


def slug_of(text: str) -> str:
    """Reduce the text to letters, digits and hyphens, which any file system accepts."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:80] or "x"
