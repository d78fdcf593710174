"""Savings over the pages of a corpus: their correlations with properties of pages, and intervals."""

import random

import numpy as np
import pytest
from scipy import stats

from fastopen.analysis.statistics import PROPERTIES
from fastopen.analysis.statistics.corpus import _mid_ranks, correlations, properties_of
from made_up_run import made_up_page


def pages(draw: random.Random, count: int) -> list[dict[str, float]]:
    """Return random properties of pages: `redirects` is constant, `bytes_down` hardly ever has ties, and all
    others often have ties."""
    return [
        {
            **{name: float(draw.randrange(4)) for name in PROPERTIES},
            "bytes_down": draw.lognormvariate(10, 1),
            "redirects": 2.0,
        }
        for _ in range(count)
    ]


def test_correlations_are_spearmans_also_with_ties() -> None:
    draw = random.Random(1)
    properties = pages(draw, 60)
    savings = [3 * page["hosts"] - page["bytes_down"] / 1e4 + draw.gauss(0, 2) for page in properties]
    found = {one.name: one for one in correlations(properties, savings, seed=1)}
    assert list(found) == [name for name in PROPERTIES if name != "redirects"], (
        "what never differs is left out"
    )
    for name, one in found.items():
        expected = stats.spearmanr([page[name] for page in properties], savings).statistic
        assert one.rho == pytest.approx(expected)
        assert one.interval[0] <= one.rho <= one.interval[1]
        assert one.pages == 60
    assert found["hosts"].sign == 1
    assert found["bytes_down"].sign == -1


def test_weighted_ranks_are_those_of_the_resample_itself() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 5, 40).astype(float)
    weights = rng.multinomial(40, np.full(40, 1 / 40), 6)
    for row, ranks in zip(weights, _mid_ranks(values, weights), strict=True):
        expected = stats.rankdata(np.repeat(values, row))
        assert np.repeat(ranks, row) == pytest.approx(expected)


def test_intervals_are_those_of_a_bootstrap_over_pages_and_come_from_the_seed() -> None:
    draw = random.Random(2)
    properties = pages(draw, 80)
    savings = [page["bytes_down"] * draw.lognormvariate(0, 1) for page in properties]
    first, again, other = (correlations(properties, savings, seed) for seed in (5, 5, 6))
    assert first == again != other
    found = next(one for one in first if one.name == "bytes_down")
    columns = ([page["bytes_down"] for page in properties], savings)
    reference = stats.bootstrap(
        columns,
        lambda a, b: stats.spearmanr(a, b).statistic,
        paired=True,
        vectorized=False,
        n_resamples=300,
        method="percentile",
        random_state=np.random.default_rng(1),
    ).confidence_interval
    assert found.interval == pytest.approx(tuple(reference), abs=0.06)


def test_of_what_has_nothing_to_do_with_the_saving_the_interval_mostly_holds_none() -> None:
    signs = []
    for seed in range(20):
        draw = random.Random(seed)
        properties = pages(draw, 40)
        signs += [one.sign for one in correlations(properties, [draw.random() for _ in properties], seed)]
    assert sum(map(bool, signs)) / len(signs) < 0.12


def test_where_all_pages_save_the_same_nothing_goes_with_it() -> None:
    assert correlations(pages(random.Random(1), 30), [4.0] * 30, seed=1) == ()


def test_properties_are_those_of_the_index_and_ratios_of_them() -> None:
    found = properties_of(made_up_page("a", requests=12))
    assert list(found) == list(PROPERTIES)
    assert (found["requests"], found["hosts"], found["third_parties"], found["depth"]) == (12, 3, 2, 2)
    assert found["requests_per_connection"] == 12 / found["connections"]
