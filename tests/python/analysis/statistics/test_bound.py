"""The upper bound of savings: every report shows the same bound and marks savings above it."""

from dataclasses import replace
from statistics import median
from typing import Any

import pytest
from rich.text import Text

from fastopen.analysis.attribution import RunAnalysis, analyse_run, excess_sentence, page_answers
from fastopen.analysis.statistics import BEYOND_BOUND, Bound, CellResult
from fastopen.analysis.statistics.bound import savings_bound
from fastopen.report import results_document
from fastopen.report.figures import overview_figures
from fastopen.report.printed import results_renderables
from fastopen.report.result_tables import result_grid
from fastopen.runs import RunStore
from made_up_run import fill, made_up_page, made_up_plan


def run(**changes: Any) -> RunAnalysis:
    """Return a run with a load of 430 ms without TFO, of which handshakes take 200 ms, and a load of 230 ms
    with warm cookies. `changes` replace fields of all cell results."""
    plan = made_up_plan([made_up_page("small", 6)], (100,), repeats=1, engines=["virtual"])
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        analysis = analyse_run(store)
    cells = [replace(cell, **changes) for cell in analysis.results.cells]
    return replace(analysis, results=replace(analysis.results, cells=cells))


def warm(analysis: RunAnalysis) -> CellResult:
    return next(cell for cell in analysis.results.cells if cell.cell.arm.name == "warm")


def improvement_row(analysis: RunAnalysis) -> dict[str, Any]:
    (figure,) = (one for one in overview_figures(analysis) if one.name == "improvement")
    return next(row for row in figure.rows if "warm" in row["arm"])


def printed(analysis: RunAnalysis) -> str:
    parts = results_renderables(analysis.results, 200)
    return "\n".join(part.plain for part in parts if isinstance(part, Text)).replace("\xa0", " ")


def answered(analysis: RunAnalysis) -> str:
    answers = page_answers(analysis, "small").values()
    return " ".join(sentence for answer in answers for sentence in answer).replace("\xa0", " ")


def load(handshakes_ms: float, plt_ms: float | None) -> tuple[int, int | None]:
    return round(handshakes_ms * 1e6), None if plt_ms is None else round(plt_ms * 1e6)


def test_the_bound_is_the_median_of_handshakes_in_a_row_and_of_their_shares_of_each_load() -> None:
    bound = savings_bound([load(50, 400), load(60, 600), load(100, 500)])
    assert bound == Bound(60, 500, 12.5)


def test_loads_that_save_no_more_than_their_handshakes_took_are_within_the_bound() -> None:
    times_ms = [(50, 100), (100, 1000), (500, 1000)]
    bound = savings_bound([load(*times) for times in times_ms])
    saved = median(100 * handshakes_ms / plt_ms for handshakes_ms, plt_ms in times_ms)
    assert bound is not None
    assert not bound.beaten_by(saved)


def test_without_a_valid_load_there_is_no_bound() -> None:
    assert savings_bound([load(50, None)]) is None


@pytest.mark.parametrize(
    ("saved_ms", "beats"), [(100, False), (102.9, False), (103.1, True), (-50, False), (None, False)]
)
def test_a_saving_beats_the_bound_by_more_than_two_per_cent_and_a_millisecond(
    saved_ms: float | None, beats: bool
) -> None:
    improvement = None if saved_ms is None else 100 * saved_ms / 500
    assert Bound(100, 500, 20).beaten_by(improvement) is beats


@pytest.mark.parametrize("saved_ms", [0.0, 0.5])
def test_no_saving_is_compared_with_a_load_without_handshakes_in_a_row(saved_ms: float) -> None:
    analysis = run(bound=Bound(0, 430, 0), saved_ms=saved_ms, improvement_percent=saved_ms / 4.3)
    assert "handshakes in a row took" not in answered(analysis)


def test_the_table_shows_the_bound_of_the_pairs_of_the_arm_that_exceeds_it() -> None:
    analysis = run()
    for beating, most in (("warm", "30.0"), ("cold", "20.0"), ("none", "30.0")):
        cells = [
            replace(
                cell,
                bound=Bound(100, 430, {"off": 10.0, "cold": 20.0, "warm": 30.0}[cell.cell.arm.name]),
                improvement_percent=40.0 if cell.cell.arm.name == beating else 5.0,
            )
            for cell in analysis.results.cells
        ]
        grid = result_grid(replace(analysis.results, cells=cells), "small")
        at = [column.heading.replace("\xa0", " ") for column in grid.columns].index("at most %")
        assert grid.rows[0][at].text == most, beating


def test_the_bound_is_the_same_number_in_table_figure_text_and_document() -> None:
    analysis = run()
    grid = result_grid(analysis.results, "small")
    at = [column.heading.replace("\xa0", " ") for column in grid.columns].index("at most %")
    cell = results_document(analysis.results)["cells"][-1]
    assert cell["bound_percent"] == pytest.approx(46.5, abs=0.05)
    assert cell["bound_ms"] == pytest.approx(200)
    assert grid.rows[0][at].text == f"{cell['bound_percent']:.1f}"
    assert improvement_row(analysis)["bound"] == cell["bound_percent"]
    assert "handshakes in a row took 200 ms, 46.5 % of page load time; TFO saved 200 ms of" in answered(
        analysis
    )


def test_a_saving_within_the_bound_has_no_mark() -> None:
    analysis = run()
    assert improvement_row(analysis)["mark"] == ""
    assert not any(entry.mark for entry in result_grid(analysis.results, "small").rows[0])
    assert "more than" not in printed(analysis)


def test_a_saving_above_the_bound_is_marked_in_table_and_figure_and_named_in_the_text() -> None:
    analysis = run(bound=Bound(100, 430, 23.3))
    grid = result_grid(analysis.results, "small")
    marked = [entry.text for entry in grid.rows[0] if entry.mark == BEYOND_BOUND]
    assert marked == ["+46.5"]
    assert BEYOND_BOUND in grid.note
    assert improvement_row(analysis)["mark"] == BEYOND_BOUND
    for text in (printed(analysis), answered(analysis)):
        assert "with warm cookies, TFO saves 46.5 %, more than the 23.3 % of page load time" in text


def test_with_random_loss_the_note_of_the_mark_says_that_the_bound_is_no_limit() -> None:
    analysis = run(bound=Bound(100, 430, 23.3))
    assert "lost at random" not in result_grid(analysis.results, "small").note
    network = analysis.results.experiment.networks[0]
    up = network.up.model_copy(update={"loss": 0.01})
    networks = [network.model_copy(update={"up": up})]
    experiment = analysis.results.experiment.model_copy(update={"networks": networks})
    lossy = replace(analysis, results=replace(analysis.results, experiment=experiment))
    assert "lost at random, the bound is not a limit" in result_grid(lossy.results, "small").note
    (figure,) = (one for one in overview_figures(lossy) if one.name == "improvement")
    assert "lost at random, the bound is not a limit" in figure.caption
    within = replace(lossy, results=replace(run().results, experiment=experiment))
    assert "no limit" not in result_grid(within.results, "small").note


def test_no_cause_is_named_that_made_no_difference() -> None:
    result = replace(warm(run(bound=Bound(100, 430, 23.3))), retransmitted=3.0)
    same = excess_sentence("100 ms", result, result)
    assert same.endswith("took: something else took less time as well.")
    fewer = excess_sentence("100 ms", replace(result, retransmitted=5.0), result, ["a took 2 ms less"])
    assert fewer.endswith("took: a took 2 ms less and 2 segments fewer per load were retransmitted.")
