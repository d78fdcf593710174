"""Medians, improvements of pairs of loads, and their confidence intervals."""

import random
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fastopen.analysis.statistics import CellResult, change_interval, median_interval, summarise
from fastopen.analysis.statistics.cells import rank_biserial
from fastopen.experiments import ARMS, ArmName, Cell
from fastopen.runs import LoadRow

NAMES: list[ArmName] = ["off", "cold", "warm"]
CELLS = [Cell("p", 0, 0, "host", index, ARMS[name]) for index, name in enumerate(NAMES)]
OFF, COLD, WARM = range(3)


def load(cell: int, repeat: int, plt_ms: float | None, *, invalid: str = "", syn: int = 0) -> LoadRow:
    reasons = ((invalid, f"{invalid} in {repeat}"),) if invalid else ()
    plt_ns = None if plt_ms is None else int(plt_ms * 1e6)
    return LoadRow(f"p#{repeat}", cell, repeat, not invalid, plt_ns, 4, syn, 1_000_000, 0, reasons)


def results(loads: list[LoadRow]) -> list[CellResult]:
    return summarise(CELLS, loads, (), {}, vary=False)


def test_a_faster_load_with_tfo_is_a_positive_improvement_and_a_slower_one_negative() -> None:
    loads = [load(OFF, 0, 100), load(COLD, 0, 110), load(WARM, 0, 90)]
    off, cold, warm = results(loads)
    assert off.improvement_percent is None
    assert cold.improvement_percent == pytest.approx(-10)
    assert warm.improvement_percent == pytest.approx(10)


def test_the_improvement_is_the_median_of_paired_ratios_and_not_the_ratio_of_medians() -> None:
    off, warm = [100, 200, 1000], [50, 190, 900]
    loads = [load(OFF, n, plt) for n, plt in enumerate(off)] + [
        load(WARM, n, plt) for n, plt in enumerate(warm)
    ]
    assert results(loads)[WARM].improvement_percent == pytest.approx(10)  # the median of 50, 5 and 10


def test_an_invalid_load_is_counted_with_its_reason_and_takes_its_pair_with_it() -> None:
    loads = [load(OFF, n, 100) for n in range(3)]
    loads += [load(WARM, 0, 90), load(WARM, 1, 1, invalid="no_syn_data"), load(WARM, 2, 80, syn=4)]
    warm = results(loads)[WARM]
    assert (warm.loads, warm.invalid, warm.pairs) == (3, 1, 2)
    assert warm.plt_ms_median == pytest.approx(85)
    assert warm.improvement_percent == pytest.approx(15)
    assert (warm.connections, warm.syn_data_connections) == (8, 4)
    (reason,) = warm.reasons
    assert (reason.kind, reason.loads, reason.example) == ("no_syn_data", 1, "no_syn_data in 1")


def test_an_invalid_load_without_tfo_takes_its_pair_too() -> None:
    loads = [load(OFF, 0, 100, invalid="link_late"), load(OFF, 1, 100), load(WARM, 0, 10), load(WARM, 1, 90)]
    warm = results(loads)[WARM]
    assert (warm.invalid, warm.pairs) == (0, 1)
    assert warm.improvement_percent == pytest.approx(10)


def test_a_cell_without_valid_loads_has_no_figures() -> None:
    for result in results([load(OFF, 0, None, invalid="fault")]):
        assert result.plt_ms_median is None
        assert result.improvement_percent is None
        assert result.improvement_ci95 is None


def test_too_few_pairs_have_no_interval() -> None:
    loads = [load(cell, repeat, 100 - cell + repeat) for cell in range(3) for repeat in range(2)]
    assert [result.improvement_ci95 for result in results(loads)] == [None, None, None]


@given(st.lists(st.floats(-100, 100), min_size=3, max_size=30))
def test_the_interval_is_ordered_and_within_the_values(values: list[float]) -> None:
    interval = median_interval(values)
    assert interval is not None
    rounding = 1e-9
    assert min(values) - rounding <= interval[0] <= interval[1] <= max(values) + rounding


@pytest.mark.parametrize("size", [6, 7, 8, 13, 50, 999, 3000])
def test_an_interval_lies_between_the_binomial_ranges_next_to_95_percent(size: int) -> None:
    low, high = median_interval(range(1, size + 1)) or (0.0, 0.0)
    # At most 2.5 % of samples have fewer than `rank` values below the median.
    rank = int(stats.binom.ppf(0.025, size, 0.5))
    assert rank <= low <= rank + 1
    assert low + high == pytest.approx(size + 1)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=12))
def test_the_effect_is_that_of_wilcoxons_rank_sums(differences: list[int]) -> None:
    moved = [one for one in differences if one]
    ranks = stats.rankdata(np.abs(moved)) if moved else []
    favouring = sum(rank if one > 0 else -rank for rank, one in zip(ranks, moved, strict=True))
    assert rank_biserial(differences) == pytest.approx(favouring / sum(ranks) if moved else 0)


def test_equal_values_have_an_interval_without_width() -> None:
    assert median_interval([4.0] * 10) == (4.0, 4.0)


@pytest.mark.parametrize("size", [6, 7, 9, 13, 15])
def test_intervals_cover_the_truth_about_as_often_as_they_claim(size: int) -> None:
    draw = random.Random(size)
    of_median = of_change = 0
    for _ in range(1_000):
        before, after = ([draw.expovariate(log(2)) for _ in range(size)] for _ in range(2))
        low, high = median_interval(before) or (0.0, 0.0)
        of_median += low <= 1 <= high
        low, high = change_interval(before, after, relative=True) or (0.0, 0.0)
        of_change += low <= 0 <= high
    assert 925 <= of_median <= 975
    assert 940 <= of_change <= 995


def test_of_few_pairs_the_interval_is_all_that_they_span_and_says_how_sure_that_is() -> None:
    for pairs, confidence in ((3, 0.75), (4, 0.875), (5, 0.9375), (6, 0.95)):
        loads = [load(cell, repeat, 100 - cell * repeat) for cell in range(3) for repeat in range(pairs)]
        warm = results(loads)[WARM]
        assert warm.confidence == confidence
        assert warm.interval is not None
        savings = warm.improvements_percent.values()
        assert warm.interval == (min(savings), max(savings)) if pairs < 6 else True
