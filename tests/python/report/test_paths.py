"""Findings of a report about paths that break TFO."""

from dataclasses import replace
from pathlib import Path

import pytest

from command_line import fastopen
from fastopen.analysis.attribution import analyse_run
from fastopen.analysis.statistics import Results, collect
from fastopen.common.phrases import NBSP
from fastopen.experiments import networks_asked
from fastopen.report.figures.payoff import LINES, mean_saving_over_paths
from fastopen.report.findings.broken_paths import findings
from fastopen.runs import RunStore
from made_up_run import made_up_page, made_up_plan, made_up_run


def results(folder: Path, path: str, saved_ms: dict[str, float]) -> Results:
    """Return results for two RTTs. `saved_ms` maps each path to the saving of TFO."""
    networks = networks_asked(rtt="20ms,100ms", path=path)
    plan = made_up_plan([made_up_page("p")], networks=[one.model_dump() for one in networks])
    with RunStore.open(made_up_run(folder, plan)) as store:
        found = collect(store)
    cells = [replace(one, saved_ms=saved_ms[networks[one.cell.network].path]) for one in found.cells]
    return replace(found, cells=cells)


def lines(folder: Path, saved_ms: dict[str, float]) -> list[str]:
    found = results(folder, ",".join(saved_ms), saved_ms)
    return [one.sentence.replace(NBSP, " ") for one in findings(found, "p")]


def test_a_path_that_drops_has_its_price_the_share_and_what_the_literature_says(tmp_path: Path) -> None:
    (line,) = lines(tmp_path / "run", {"none": 100.0, "drop-syn-data": -1000.0})
    assert "costs 1.00 s, and over an open path it saves 100 ms" in line
    assert "while fewer than 9.1 % of paths are broken in this way" in line
    assert "If 6 % of paths drop SYNs (RFC 7413, section 7.1), it pays on every network" in line


def test_where_the_price_is_too_high_for_the_share_in_the_literature_it_does_not_pay(tmp_path: Path) -> None:
    (line,) = lines(tmp_path / "run", {"none": 10.0, "drop-syn-data": -1000.0})
    assert "(RFC 7413, section 7.1), it does not pay." in line


def test_the_networks_on_which_it_pays_are_named_where_they_are_few(tmp_path: Path) -> None:
    found = results(tmp_path / "run", "none,drop-syn-data", {"none": 100.0, "drop-syn-data": -1000.0})
    far = {
        number
        for number, one in enumerate(found.experiment.networks)
        if (one.rtt_us, one.path) == (100_000, "none")
    }
    cells = [
        replace(one, saved_ms=10.0) if one.saved_ms == 100.0 and one.cell.network not in far else one
        for one in found.cells
    ]
    (line,) = (one.sentence for one in findings(replace(found, cells=cells), "p"))
    assert "it pays at 100 ms, and not at 20 ms." in line.replace(NBSP, " ")


def test_paths_that_cost_the_same_share_a_line(tmp_path: Path) -> None:
    (line,) = lines(tmp_path / "run", {"none": 100.0, "drop-syn-data": -1000.0, "drop-option": -1000.0})
    assert line.startswith("Behind drop-syn-data or drop-option TFO")


def test_a_figure_has_a_line_for_each_network_and_kind_of_client(tmp_path: Path) -> None:
    networks = networks_asked(rtt="20ms,100ms", path="none,drop-syn-data")
    plan = made_up_plan([made_up_page("p")], networks=[one.model_dump() for one in networks])
    with RunStore.open(made_up_run(tmp_path / "run", plan)) as store:
        analysis = analyse_run(store)
    saved_ms = {"none": 100.0, "drop-syn-data": -1000.0}
    cells = [
        replace(one, saved_ms=saved_ms[networks[one.cell.network].path]) for one in analysis.results.cells
    ]
    figure = mean_saving_over_paths(replace(analysis, results=replace(analysis.results, cells=cells)))
    assert figure is not None
    assert {(row["network"], row["line"]) for row in figure.rows} == {
        (network, line) for network in ("20 ms", "100 ms") for line in LINES
    }
    (share,) = {row["share"] for row in figure.rows if row["even"]}
    assert share == pytest.approx(100 / 11)
    assert figure.spec()["data"]["values"] == figure.rows
    unbroken = [replace(one, saved_ms=100.0) for one in analysis.results.cells]
    assert (
        mean_saving_over_paths(replace(analysis, results=replace(analysis.results, cells=unbroken))) is None
    )


@pytest.mark.parametrize("cost_ms", [0.0, 5.0])
def test_a_path_that_costs_nothing_pays_whatever_its_share(tmp_path: Path, cost_ms: float) -> None:
    (line,) = lines(tmp_path / "run", {"none": 100.0, "strip-synack-option": cost_ms})
    assert line.endswith("it pays at any share of such paths.")


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
