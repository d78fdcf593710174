"""What a report says of paths that break TFO."""

from dataclasses import replace
from pathlib import Path

import pytest

from command_line import fastopen
from fastopen.attribution.phrases import NBSP
from fastopen.experiments import networks_asked
from fastopen.report.paths import payoff_lines
from fastopen.runs import RunStore
from fastopen.statistics import Results, collect
from made_up_run import made_up_page, made_up_plan, made_up_run


def results(folder: Path, path: str, saved_ms: dict[str, float]) -> Results:
    """Of two RTTs; what TFO saves by the path."""
    networks = networks_asked(rtt="20ms,100ms", path=path)
    plan = made_up_plan([made_up_page("p")], networks=[one.model_dump() for one in networks])
    with RunStore.open(made_up_run(folder, plan)) as store:
        found = collect(store)
    cells = [replace(one, saved_ms=saved_ms[networks[one.cell.network].path]) for one in found.cells]
    return replace(found, cells=cells)


def lines(folder: Path, saved_ms: dict[str, float]) -> list[str]:
    found = results(folder, ",".join(saved_ms), saved_ms)
    return [line.replace(NBSP, " ") for line in payoff_lines(found, "p")]


def test_a_path_that_drops_has_its_price_the_share_and_what_the_literature_says(tmp_path: Path) -> None:
    (line,) = lines(tmp_path / "run", {"none": 100.0, "drop-syn-data": -1000.0})
    assert "costs 1000.0 ms, and over an open path it saves 100.0 ms" in line
    assert "while fewer than 9.1 % of them are so" in line
    assert "If 6 % of paths drop SYNs (RFC 7413, section 7.1), it pays on every network" in line


def test_where_the_price_is_too_high_for_the_share_in_the_literature_it_does_not_pay(tmp_path: Path) -> None:
    (line,) = lines(tmp_path / "run", {"none": 10.0, "drop-syn-data": -1000.0})
    assert "it pays on 0 of 2 networks" in line


@pytest.mark.parametrize("cost_ms", [0.0, 5.0])
def test_a_path_that_costs_nothing_pays_whatever_its_share(tmp_path: Path, cost_ms: float) -> None:
    (line,) = lines(tmp_path / "run", {"none": 100.0, "strip-synack-option": cost_ms})
    assert line.endswith("it pays whatever the share of such paths.")


def test_each_path_has_a_line_and_a_run_without_one_has_none(tmp_path: Path) -> None:
    found = lines(tmp_path / "two", {"none": 10.0, "drop-syn-data": -900.0, "strip-both": -1.0})
    assert [line.split(" ")[1] for line in found] == ["drop-syn-data", "strip-both"]
    assert lines(tmp_path / "none", {"none": 10.0}) == []


def test_the_markdown_of_a_run_has_them(tmp_path: Path) -> None:
    plan = made_up_plan(
        [made_up_page("p")],
        networks=[one.model_dump() for one in networks_asked(rtt="100ms", path="none,drop-syn-data")],
    )
    folder = made_up_run(tmp_path / "run", plan)
    printed = fastopen("report", folder, "--format", "markdown").stdout
    assert "Behind drop-syn-data TFO" in printed
