"""Medians, improvements of pairs of loads, and their confidence intervals."""

import random
from dataclasses import dataclass
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fastopen.analysis.statistics import CellResult, median_interval, summarise
from fastopen.analysis.statistics.bootstrap import resampled_medians
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
    return summarise(CELLS, loads, 1, (), {}, vary=False)


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


@given(st.lists(st.floats(-100, 100), min_size=3, max_size=30), st.integers(0, 2**63 - 1))
def test_the_interval_is_ordered_and_within_the_values(values: list[float], seed: int) -> None:
    interval = median_interval(values, seed)
    assert interval is not None
    rounding = 1e-9
    assert min(values) - rounding <= interval[0] <= interval[1] <= max(values) + rounding


def test_an_interval_does_not_depend_on_the_scale_of_its_values() -> None:
    values = [0.0, 0.0, 0.0, 1.0, 1.0, 0.5]
    low, high = median_interval(values, 7) or (0.0, 0.0)
    # With the second scale, squares and cubes of differences are too small for floating-point numbers.
    for scale in (2.0**-40, 2.0**-600):
        assert median_interval([value * scale for value in values], 7) == (low * scale, high * scale)
    assert median_interval([0.0, 0.0, 0.0, 1.0, 1.0, 9.6e-113], 0) is not None


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [random.Random(3).gauss(10, 2) for _ in range(10)]
    assert median_interval(values, 5) == median_interval(values, 5)


@dataclass
class Drawn:
    """The result of an earlier bootstrap, with the attribute that scipy needs to continue it."""

    bootstrap_distribution: object


# Samples without spread in the jackknife or with almost none, with repeated values, of odd and even sizes.
@pytest.mark.filterwarnings("ignore:.*(degenerate|divide|invalid value)")
def test_the_interval_is_the_bca_interval_of_scipy() -> None:
    draw = random.Random(4)
    samples = [[draw.gauss(10, 2) for _ in range(draw.choice([6, 7, 8, 51, 200]))] for _ in range(40)]
    samples += [[0.1, *[0.3] * 6, 0.9], [0.0] * 7 + [5.0], [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0]]
    for seed, values in enumerate(samples):
        data = np.sort(np.array(values))
        drawn = Drawn(resampled_medians(data, np.random.default_rng(seed)))
        for method in ("BCa", "percentile"):
            expected = stats.bootstrap(
                (data,), np.median, n_resamples=0, bootstrap_result=drawn, method=method
            ).confidence_interval
            if np.isfinite(expected).all():
                break
        assert median_interval(values, seed) == pytest.approx((expected.low, expected.high))


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=12))
def test_the_effect_is_that_of_wilcoxons_rank_sums(differences: list[int]) -> None:
    moved = [one for one in differences if one]
    ranks = stats.rankdata(np.abs(moved)) if moved else []
    favouring = sum(rank if one > 0 else -rank for rank, one in zip(ranks, moved, strict=True))
    assert rank_biserial(differences) == pytest.approx(favouring / sum(ranks) if moved else 0)


def test_equal_values_have_an_interval_without_width() -> None:
    assert median_interval([4.0] * 10, 1) == (4.0, 4.0)


def test_the_interval_covers_the_true_median_about_as_often_as_it_claims() -> None:
    draw = random.Random(11)
    covered = 0
    for trial in range(200):
        interval = median_interval([draw.gauss(0, 1) for _ in range(15)], trial)
        assert interval is not None
        covered += interval[0] <= 0 <= interval[1]
    assert 180 <= covered <= 198  # of 200; 95 % are 190


def test_the_median_lies_within_its_interval() -> None:
    values = [random.Random(9).expovariate(1) for _ in range(20)]
    interval = median_interval(values, 1)
    assert interval is not None
    assert interval[0] <= median(values) <= interval[1]


def test_of_few_pairs_the_interval_is_all_that_they_span_and_says_how_sure_that_is() -> None:
    for pairs, confidence in ((3, 0.75), (4, 0.875), (5, 0.9375), (6, 0.95)):
        loads = [load(cell, repeat, 100 - cell * repeat) for cell in range(3) for repeat in range(pairs)]
        warm = results(loads)[WARM]
        assert warm.confidence == confidence
        assert warm.interval is not None
        savings = warm.improvements_percent.values()
        assert warm.interval == (min(savings), max(savings)) if pairs < 6 else True
