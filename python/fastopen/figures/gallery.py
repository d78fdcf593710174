"""All figures that a run has."""

import re
import unicodedata
from collections.abc import Iterator

from fastopen.attribution import Place, Shown, Source
from fastopen.experiments import ArmName
from fastopen.figures.critical import critical_path_bars
from fastopen.figures.distribution import cumulative_distribution
from fastopen.figures.figure import Figure
from fastopen.figures.improvement import improvement_bars
from fastopen.figures.lines import plt_along
from fastopen.figures.published import published_comparison
from fastopen.figures.requests import timing_breakdown, waterfall


def overview_figures(source: Source) -> list[Figure]:
    """The figures of the run as a whole, made from aggregates; those that it has the data for."""
    made = (
        improvement_bars(source),
        plt_along(source, "rtt"),
        plt_along(source, "down"),
        critical_path_bars(source),
        cumulative_distribution(source),
        published_comparison(source),
    )
    return [figure for figure in made if figure is not None]


def load_figures(source: Source) -> Iterator[Figure]:
    """Two figures of the median loads of each comparison, without TFO and with."""
    for page_name, page in source.results.pages.items():
        for place in source.places(page_name):
            arms = shown_arms(source, place)
            if arms:
                slug = slug_of(f"{page_name}-{place.name}")
                yield timing_breakdown(page, place.name, arms, slug)
                yield waterfall(page, place.name, arms, slug)


def shown_arms(source: Source, place: Place) -> dict[ArmName, Shown]:
    """The loads that are drawn side by side: without TFO, and of the arm that TFO is judged by."""
    pair = [place.baseline, place.headline]
    return {
        result.cell.arm.name: source.attribution.shown[result.cell.index]
        for result in pair
        if result is not None and result.cell.index in source.attribution.shown
    }


def slug_of(text: str) -> str:
    """Letters, digits and hyphens: what any file system takes."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:80] or "x"
