"""The report of a run of many pages: distribution, extremes, and correlations of the saving."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from command_line import fastopen
from fastopen.analysis.attribution import RunAnalysis, analyse_run
from fastopen.cli.commands.show import print_results
from fastopen.report import results_document
from fastopen.report.figures.corpus import properties_and_savings
from fastopen.report.figures.distribution import savings_over_pages
from fastopen.report.markdown import markdown
from fastopen.report.result_tables import all_grids
from fastopen.report.sections import part_html
from fastopen.runs import RunStore
from made_up_run import fill, made_up_page, made_up_plan, made_up_run

PAGES = 24


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of pages, each with 2 to 25 requests to at most six hosts."""
    hosts = [f"h{number}.test" for number in range(6)]
    pages = [
        made_up_page(f"page-{number}", requests=number + 2, hosts=hosts[: 1 + number % 6])
        for number in range(PAGES)
    ]
    return made_up_run(tmp_path_factory.mktemp("corpus") / "run", made_up_plan(pages, repeats=1))


@pytest.fixture(scope="module")
def analysis(run: Path) -> RunAnalysis:
    with RunStore.open(run) as store:
        return analyse_run(store)


def test_a_corpus_is_printed_as_a_summary_that_fits_80_columns(analysis: RunAnalysis) -> None:
    target = io.StringIO()
    print_results(analysis.results, Console(width=80, file=target))
    printed = target.getvalue()
    assert "Saved over the pages" in printed
    assert "Properties of pages that correlate with the saving" in printed
    assert "TFO saves most of" in printed
    told = " ".join(printed.split())
    assert "of nine in ten; none of" in told
    assert len(printed.splitlines()) < 80
    assert max(len(line.rstrip()) for line in printed.splitlines()) <= 80


def test_programs_are_told_the_same_figures(analysis: RunAnalysis) -> None:
    document = json.loads(json.dumps(results_document(analysis.results)))
    found = document["corpus"]
    assert [(one["place"], one["arm"]) for one in found] == [
        (place, arm) for place in ("20 ms", "100 ms") for arm in ("warm", "cold")
    ]
    of_cells = sorted(
        cell["improvement_percent"]
        for cell in document["cells"]
        if cell["rtt_ms"] == 20 and cell["cookies"] == "warm"
    )
    first = found[0]
    assert first["pages"] == len(of_cells) == PAGES
    assert first["quantiles_percent"]["50"] == pytest.approx((of_cells[11] + of_cells[12]) / 2)
    assert sum(first["effects"].values()) == PAGES
    for one in first["correlations"]:
        assert -1 <= one["ci95"][0] <= one["rho"] <= one["ci95"][1] <= 1
        assert one["pages"] == PAGES


def test_the_report_has_one_table_of_all_pages_and_tells_the_extremes(analysis: RunAnalysis) -> None:
    titles = [grid.title for grid in all_grids(analysis)][:3]
    assert titles[:2] == ["Saved over the pages, %", "Properties of pages that correlate with the saving"]
    results = part_html("results", analysis)
    assert results.count("<table>") == 3
    assert part_html("answers", analysis).count("<details") <= 12
    assert markdown(analysis).count("\n### page") <= 12


def test_the_figures_draw_each_page_and_each_property(analysis: RunAnalysis) -> None:
    savings, properties = savings_over_pages(analysis), properties_and_savings(analysis)
    assert savings is not None
    assert properties is not None
    assert len([row for row in savings.rows if row["panel"] == "20 ms"]) == 2 * PAGES
    assert {row["property"] for row in properties.rows} >= {"connections", "hosts", "bytes down"}


def test_a_run_of_which_nothing_was_loaded_says_just_that(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", made_up_plan([made_up_page("one")]), {}) as store:
        store.set_status("out of time")
    assert fastopen("show", str(tmp_path / "run")).stdout == "Nothing was loaded: this run is out of time.\n"


def test_an_interrupted_run_counts_the_pages_it_lacks_and_names_a_few(tmp_path: Path) -> None:
    plan = made_up_plan([made_up_page(f"page-{number}") for number in range(30)], repeats=1)
    of_first = [planned for planned in plan.jobs if planned.job.page.name == "page-0"]
    with RunStore.create(tmp_path / "run", plan, {}) as store:
        fill(store, replace(plan, jobs=tuple(of_first)))
        store.set_status("interrupted")
    printed = " ".join(fastopen("show", str(tmp_path / "run")).stdout.split())
    assert "without any load of 29 of 30 pages (page-1, page-2, page-3 and 26 more)" in printed
