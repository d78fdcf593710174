"""Reproductions: every published cell is compared with a measured one; sentences state differences."""

import csv
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fastopen.analysis.attribution import Attribution, RunAnalysis, page_answers
from fastopen.analysis.statistics import (
    BEYOND_BOUND,
    Bound,
    Discrepancy,
    Label,
    Results,
    collect,
    discrepancies,
)
from fastopen.common.phrases import NBSP, signed
from fastopen.engines import HostEngine
from fastopen.experiments import (
    Experiment,
    load_experiment,
    load_rigs,
    make_plan,
    packaged_experiments,
    published_cells,
)
from fastopen.experiments.published import PublishedCell, all_published_cells
from fastopen.pages import Page, load_pages
from fastopen.pages.library import packaged_pages
from fastopen.report import results_renderables
from fastopen.report.figures.improvement import published_comparison
from fastopen.report.published import agreement, comparison_sentences
from fastopen.runs import RunStore, execute
from packaged_pages.handwritten import handwritten_pages
from places import ROOT, SHARED

FakeWorld = Callable[..., Path]
PUBLISHED = SHARED / "published" / "published.csv"


def cell(off: float, tfo: float, printed: float, unit: str = "", *, swapped: bool = False) -> PublishedCell:
    place = {"source": "them", "experiment": "x", "page": "p", "rtt_ms": 20, "down_mbit": 4, "up_mbit": 4}
    figures = {
        "plt_off": off,
        "plt_tfo": tfo,
        "unit_as_printed": "s",
        "improvement_percent_as_printed": printed,
    }
    meant = {"note": "", "true_unit": unit, "swapped": swapped}
    return PublishedCell.model_validate({**place, **figures, **meant})


def results_of(asked: Experiment, page: Page, program: Path) -> Results:
    plan = make_plan(asked, [page.model_copy(update={"name": name}) for name in asked.pages])
    with RunStore.create(None, plan, {}) as store:
        execute(plan, HostEngine(program, 2), {}, store, lambda _: None)
        return collect(store)


@pytest.fixture(name="palguyev", scope="module")
def _palguyev(page: Page, fake_world_of_module: FakeWorld) -> Results:
    """Return results of the experiment `palguyev` with the fake world. Loads take ten RTTs without TFO, of
    which two are handshakes, and eight RTTs with TFO.
    """
    asked = load_experiment("palguyev")
    return results_of(Experiment(**{**dict(asked), "repeats": 3}), page, fake_world_of_module())


def test_every_published_row_belongs_to_one_cell_of_one_experiment() -> None:
    compared = Counter(
        (row.experiment, row.page, row.rtt_ms, row.down_mbit)
        for name in packaged_experiments()
        for row in published_cells(load_experiment(name)).values()
    )
    rows = [(row.experiment, row.page, row.rtt_ms, row.down_mbit) for row in all_published_cells()]
    assert len(rows) == len(set(rows)) == 87
    assert compared == Counter(rows)


def test_every_row_of_the_shared_table_is_packaged() -> None:
    if not PUBLISHED.is_file():
        pytest.skip("the published tables that the project starts from are not here")
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        theirs = [{k: v for k, v in row.items() if k != "seed"} for row in csv.DictReader(file)]
    packaged = ROOT / "experiments" / "published.csv"
    with packaged.open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == theirs


@pytest.mark.parametrize("name", packaged_experiments())
def test_every_packaged_experiment_can_be_planned(name: str) -> None:
    asked = load_experiment(name)
    plan = make_plan(asked, [one.page for one in load_pages(asked.pages)])
    assert plan.loads() == len(plan.cells) * asked.repeats
    assert asked.title
    assert asked.source
    # Some experiments have no published figures.
    assert asked.published is None or asked.published.experiment == name


def test_the_bandwidth_sweeps_take_rates_first_with_first() -> None:
    for method in ("purdue-method1-bandwidth", "purdue-method2-bandwidth"):
        networks = load_experiment(method).networks
        assert [(one.rtt_us, one.down.rate_bit_per_s, one.up.rate_bit_per_s) for one in networks] == [
            (20_000, rate, rate) for rate in (5_000_000, 10_000_000, 15_000_000)
        ]


def test_the_packaged_pages_of_reports_are_those_that_are_written_down() -> None:
    (written,) = ({page.name: page for page in pages} for pages in (handwritten_pages(),))
    for name, page in written.items():
        (packaged,) = load_pages([str(packaged_pages()[name])])
        assert packaged.page == page


@pytest.mark.parametrize(
    ("name", "requests", "said"),
    [
        ("washingtonpost", 60, "about 60 requests"),
        ("admission-gatech", 30, "about 30 requests"),
        ("web-mit", 6, "six requests"),
        ("ucla", 30, "more than 25 requests"),
        ("gnu", 11, "mostly text"),
        ("omscs", 37, "bootstrapcdn.com"),
        ("brycemontano", 5, "extremely small"),
        ("talrealty", 26, "jQuery"),
    ],
)
def test_a_structural_page_says_what_its_report_says_and_what_is_assumed(
    name: str, requests: int, said: str
) -> None:
    (imported,) = load_pages([name])
    page = imported.page
    assert len(page.resources) == requests
    assert page.initiators == "declared"
    assert "report" in page.source
    notes = list(page.notes)
    assert said in notes[0]
    assert notes[0].startswith("the report says: ")
    assert all(note.startswith("assumed: ") for note in notes[1:])


def test_published_times_are_read_as_they_were_meant() -> None:
    milliseconds = cell(6109.844, 7885.424, 29.06097111, "ms")
    assert (milliseconds.off_ms, round(milliseconds.improvement_percent, 2)) == (6109.844, -29.06)
    swapped = cell(0.5, 0.55, 9, swapped=True)
    assert (swapped.off_ms, swapped.tfo_ms, round(swapped.improvement_percent, 1)) == (550, 500, 9.1)


def test_a_misprint_is_corrected_in_its_own_table_and_in_others_of_the_rig() -> None:
    for name in ("purdue-method1", "purdue-method1-bandwidth"):
        cells = [one for _, one in load_rigs(name).cells_of("amazon") if one.down_mbit == 5]
        assert [(one.plt_off, one.off_ms, one.plt_tfo) for one in cells] == [(17.655, 27_655, 24.885)]
        assert round(cells[0].improvement_percent) == cells[0].improvement_percent_as_printed
    assert [one.off_ms for _, one in load_rigs("purdue-method1").cells_of("wsj")][-1] == 4660


@pytest.mark.parametrize(
    ("theirs", "labels"),
    [
        (cell(6109.844, 7885.424, 29.06, "ms"), (Label.SLOWER, Label.UNSIGNED)),
        (cell(17.655, 24.885, 10), (Label.SLOWER, Label.MISPRINTED)),
        (cell(2.0, 1.6, 20), ()),
        (cell(2.0, 1.6, 40), (Label.MISPRINTED,)),
        (cell(11.77, 0.92, 92.2), (Label.IMPOSSIBLE,)),
        (cell(0.5, 0.55, 9, swapped=True), ()),
        (cell(17.655, 24.885, 10).model_copy(update={"corrected_off": 27.655}), (Label.MISPRINTED,)),
    ],
)
def test_the_print_itself_is_judged(
    palguyev: Results, theirs: PublishedCell, labels: tuple[Label, ...]
) -> None:
    one = discrepancies(palguyev)[0]
    assert Discrepancy(one.comparison, theirs, None, None).labels == labels


@pytest.mark.parametrize(
    ("tfo", "label"),
    [(0.80, Label.AGREES), (0.78, Label.AGREES), (0.70, Label.BEYOND), (0.90, Label.OURS_MORE)],
)
def test_ours_is_compared_with_theirs_and_with_the_bound(palguyev: Results, tfo: float, label: Label) -> None:
    one = discrepancies(palguyev)[2]
    assert one.at_most_percent == pytest.approx(20, abs=0.2)
    theirs = cell(1.0, tfo, 100 * (1 - tfo))
    assert replace(one, published=theirs).labels == (label,)


def test_more_than_ours_within_the_bound_is_told_from_more_than_the_bound(palguyev: Results) -> None:
    one = discrepancies(palguyev)[2]
    assert one.headline is not None
    roomy = replace(one.headline, bound=Bound(800.0, 1000.0, 80.0))
    labels = replace(one, published=cell(1.0, 0.7, 30), headline=roomy).labels
    assert labels == (Label.THEIRS_MORE,)


def test_a_measured_improvement_above_its_bound_is_marked_in_the_figure(palguyev: Results) -> None:
    tight = [replace(cell, bound=Bound(1.0, 1000.0, 0.1)) for cell in palguyev.cells]
    for results, marked in ((palguyev, False), (replace(palguyev, cells=tight), True)):
        figure = published_comparison(RunAnalysis(results, Attribution({}, {}), None))
        assert figure is not None
        assert any(row.get("mark") for row in figure.rows) is marked
        assert (BEYOND_BOUND in figure.caption) is marked


def test_the_words_say_where_and_why_they_differ(palguyev: Results) -> None:
    said = "\n".join(comparison_sentences(palguyev))
    assert agreement(palguyev) == (
        "1 of 6 cells matches the published savings within 3 points. We save more in 4, they save more in 1."
    )
    assert "Printed without sign: their table prints the size of the difference without its sign." in said
    assert (
        "amazon at 100 ms: theirs saves 0.932 s (9.32 RTTs); in ours, handshakes in a row took 0.2 s" in said
    )
    words = "wikipedia-tcp: their load time without TFO is 3.1 to 13 times ours and grows faster with RTT"
    assert f"{words} (19.9 ms per ms; ours 10)." in said
    assert "Known about the source:\n- Times are milliseconds under a heading of seconds." in said


def test_answers_give_the_published_figures_that_the_table_gives(palguyev: Results) -> None:
    for one in discrepancies(palguyev):
        if one.improvement_percent is not None:
            answers = page_answers(RunAnalysis(palguyev, Attribution({}, {}), None), one.comparison.page)
            said = " ".join(sentence for answer in answers.values() for sentence in answer)
            assert f"come to {signed(one.published.improvement_percent)}{NBSP}%; ours" in said


def test_a_run_without_valid_loads_is_still_compared_with_the_print(
    page: Page, fake_world: FakeWorld
) -> None:
    asked = load_experiment("cs244-2015")
    results = results_of(Experiment(**{**dict(asked), "repeats": 1}), page, fake_world({"*": "dies"}))
    words = "None of our valid loads can be compared with the published figures."
    assert agreement(results) == words


def test_the_table_fits_a_terminal(palguyev: Results) -> None:
    for width in (80, 100):
        target = Console(file=io.StringIO(), width=width)
        for renderable in results_renderables(palguyev, width):
            target.print(renderable)
        assert isinstance(target.file, io.StringIO)
        assert max(map(len, target.file.getvalue().splitlines())) <= width
