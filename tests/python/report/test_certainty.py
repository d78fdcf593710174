"""Sentences about the certainty of a run: noise floor, precision, required repeats, outliers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastopen.analysis.statistics import Results, collect
from fastopen.report import results_document
from fastopen.report.printed import certainty_lines
from fastopen.runs import RunStore
from made_up_run import ENVIRONMENT, fill, made_up_page, made_up_plan

# Warm loads take 90 ms and others 100 ms, and each repeat takes 1 us more than the previous one.
STEADY = """
UPDATE loads SET plt_ns = CASE id WHEN 'tfo-warm' THEN 90000000 ELSE 100000000 END + 1000 * repeat
"""


def results_of(folder: Path, repeats: int, changes: str = "", **others: Any) -> Results:
    """Return results of a made-up run without noise. `changes` is the SQL after `SET plt_ns = CAST(`."""
    plan = made_up_plan([made_up_page("one")], rtts_ms=(20,), repeats=repeats, **others)
    with RunStore.create(folder, plan, ENVIRONMENT) as store:
        fill(store, plan)
        store._database.execute(STEADY)
        if changes:
            store._database.execute(f"UPDATE loads SET plt_ns = CAST({changes}")
        return collect(store)


def test_the_noise_floor_is_what_a_second_arm_without_tfo_seems_to_save(tmp_path: Path) -> None:
    results = results_of(
        tmp_path,
        8,
        "plt_ns * (1 + (repeat % 3 - 1) / 100.0) AS INT) WHERE id LIKE '%again'",
        arms=["off", "off2", "warm"],
    )
    (floor,) = [line for line in certainty_lines(results) if line.startswith("Noise floor")]
    assert "\N{MINUS SIGN}1.0 to +1.0 % (95 % intervals)" in floor
    cells = results_document(results)["cells"]
    assert [cell["arm"] for cell in cells] == ["off", "off2", "warm"]


def test_a_wide_interval_says_how_many_repeats_would_narrow_it(tmp_path: Path) -> None:
    results = results_of(tmp_path, 8, "plt_ns * (1 + repeat / 20.0) AS INT) WHERE id = 'tcp'")
    (line,) = [line for line in certainty_lines(results) if "widest interval" in line]
    warm = next(cell for cell in results_document(results)["cells"] if cell["cookies"] == "warm")
    assert warm["half_width_percent"] > 1
    assert warm["pairs_for_one_percent"] > 8
    assert "would need about" in line


def test_narrow_intervals_are_said_to_be_narrow(tmp_path: Path) -> None:
    (line,) = certainty_lines(results_of(tmp_path, 8))
    assert line.startswith("No interval is wider than ±0.")


def test_outliers_are_named_and_stay_in_every_figure(tmp_path: Path) -> None:
    slow = "plt_ns * 3 AS INT) WHERE id = 'tcp' AND repeat = 2"
    results = results_of(tmp_path, 8, slow)
    (line,) = [line for line in certainty_lines(results) if "outlier" in line]
    assert line.startswith("1 outlier, kept in every figure (one at 20 ms, off, repeat 2: ")
    off = results_document(results)["cells"][0]
    assert [outlier["repeat"] for outlier in off["outliers"]] == [2]
    assert results.cells[0].plts_ms[2] == pytest.approx(off["outliers"][0]["plt_ms"])


def test_too_few_repeats_say_nothing_of_precision(tmp_path: Path) -> None:
    assert list(certainty_lines(results_of(tmp_path, 3))) == []


def test_loads_with_a_random_loss_are_no_outliers_of_the_machine(tmp_path: Path) -> None:
    slow = "plt_ns * 3 AS INT) WHERE id = 'tcp' AND repeat = 2"
    results = results_of(tmp_path, 8, slow)
    networks = [
        network.model_copy(update={"down": network.down.model_copy(update={"loss": 0.01})})
        for network in results.experiment.networks
    ]
    lossy = results.experiment.model_copy(update={"networks": networks})
    lines = list(certainty_lines(replace(results, experiment=lossy)))
    assert any(line.startswith("Where segments are lost at random, 1 of 24 loads") for line in lines)
    assert not any("outlier" in line for line in lines)
