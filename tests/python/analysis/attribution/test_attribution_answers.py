"""Answers about the effect of TFO, generated from a run: each sentence states correct figures."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fastopen.analysis.attribution import (
    Kind,
    RunAnalysis,
    analyse_run,
    attribute,
    page_answers,
    run_answers,
)
from fastopen.analysis.statistics import collect
from fastopen.contract import LoadRecord
from fastopen.experiments import Plan
from fastopen.experiments.published import all_published_cells
from fastopen.pages.describe import registrable_domain, third_parties
from fastopen.report.figures import median_loads
from fastopen.runs import RunStore
from made_up_run import MS, fill, load_data, made_up_page, made_up_plan


def taken_apart(plan: Plan, **others: Any) -> RunAnalysis:
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        results = collect(store)
        return RunAnalysis(results, attribute(store, store.loads(), results, **others), None)


def text_of(answers: Mapping[str, Sequence[str]]) -> str:
    return "\n".join(f"{one} {' '.join(told)}" for one, told in answers.items()).replace("\xa0", " ")


PAGES = [made_up_page("small", 6), made_up_page("large", 30, ("x.co.uk", "cdn.y.com", "z.org", "10.0.0.1"))]


def test_every_sentence_carries_a_figure() -> None:
    analysis = taken_apart(made_up_plan(PAGES, (20, 100, 200)))
    answers = [one for page in analysis.results.pages for one in page_answers(analysis, page).items()]
    answers += run_answers(analysis).items()
    assert len(answers) == 9
    for question, sentences in answers:
        assert question.endswith("?")
        for sentence in sentences:
            assert re.search(r"\d", sentence), sentence
            assert sentence.endswith("."), sentence
            assert "nan" not in sentence


def test_the_breakdown_of_a_cell_adds_up_to_its_mean_page_load_time() -> None:
    attribution = taken_apart(made_up_plan(PAGES)).attribution
    assert len(attribution.breakdowns) == 2 * 2 * 3
    for path in attribution.breakdowns.values():
        assert sum(path.kinds_ms.values()) == pytest.approx(path.plt_ms)
        assert path.loads == 4


def test_a_load_without_tfo_waits_for_the_handshakes_of_document_and_image() -> None:
    analysis = taken_apart(made_up_plan(PAGES[:1], (100,)))
    off = analysis.attribution.breakdowns[analysis.results.cells[0].cell.index]
    assert off.handshakes == 2
    assert off.kinds_ms[Kind.HANDSHAKE] == pytest.approx(200)
    said = text_of(page_answers(analysis, "small"))
    assert (
        "handshakes in a row took 200 ms, 46.5 % of page load time; TFO saved 200 ms of them (100 %)" in said
    )
    assert "the critical path at 100 ms waits for 2 handshakes" in said
    assert "handshake \N{MINUS SIGN}200 ms" in said
    assert "All 6 requests" not in said


def test_how_the_rtt_changes_it_is_said_only_where_there_are_two() -> None:
    asked = "How does the RTT change that?"
    assert asked not in text_of(page_answers(taken_apart(made_up_plan(PAGES[:1], (100,))), "small"))
    said = text_of(page_answers(taken_apart(made_up_plan(PAGES[:1], (100, 300))), "small"))
    assert asked in said
    assert "From 100 to 300 ms of RTT" in said
    assert "2.0 ms for each millisecond of RTT, as if 2 handshakes in a row were saved" in said


@pytest.mark.parametrize("changes", [{"saved_ms": -1.0}, {"improvement_percent": 99.0}])
def test_a_slowdown_or_a_saving_beyond_its_bound_is_not_given_in_handshakes(changes: dict[str, Any]) -> None:
    analysis = taken_apart(made_up_plan(PAGES[:1], (100, 300)))
    first = next(cell for cell in analysis.results.cells if cell.cell.arm.name == "warm")
    cells = [replace(cell, **changes) if cell is first else cell for cell in analysis.results.cells]
    results = replace(analysis.results, cells=cells)
    said = text_of(page_answers(replace(analysis, results=results), "small"))
    assert " for each millisecond of RTT. " in said


@pytest.mark.parametrize(
    ("handshakes", "words"),
    [
        (0, "waits for 0 handshakes. How"),
        (1, "waits for 1 handshake. This handshake takes"),
        (2, "waits for 2 handshakes. These handshakes take"),
    ],
)
def test_handshakes_are_singular_or_plural(handshakes: int, words: str) -> None:
    analysis = taken_apart(made_up_plan([made_up_page("one", 1)], (20,)))
    paths = {
        index: replace(path, handshakes=handshakes, kinds_ms={**path.kinds_ms, Kind.HANDSHAKE: 0.1})
        for index, path in analysis.attribution.breakdowns.items()
    }
    attribution = replace(analysis.attribution, breakdowns=paths)
    said = text_of(page_answers(replace(analysis, attribution=attribution), "one"))
    assert words in said.replace("\n", " ")
    assert "The request stays with" in said


def test_without_an_arm_to_compare_with_there_is_no_answer() -> None:
    analysis = taken_apart(made_up_plan(PAGES, arms=["warm"]))
    assert page_answers(analysis, "small") == {}
    assert run_answers(analysis) == {}


def test_pages_are_ranked_by_what_they_gain() -> None:
    analysis = taken_apart(made_up_plan(PAGES))
    ((first, *_),) = run_answers(analysis).values()
    cells = analysis.results.cells
    gains = [cell for cell in cells if cell.cell.arm.name == "warm" and cell.cell.network == 1]
    small, large = (cell.improvement_percent or 0.0 for cell in gains)
    most = "small" if small > large else "large"
    assert first.startswith(f"{most} gains most")


def test_of_a_sweep_of_rates_each_row_of_rtts_is_answered_for() -> None:
    analysis = taken_apart(made_up_plan(PAGES[:1], (20, 100), rates_mbit=(1, 8)))
    said = text_of(page_answers(analysis, "small"))
    assert said.count("From 20 to 100 ms of RTT") == 2
    assert "(1 Mbit/s down)" in said


def test_of_a_large_run_the_loads_nearest_the_median_are_taken_apart() -> None:
    analysis = taken_apart(made_up_plan(PAGES[:1], (20,), repeats=9), loads_max=9)
    off, attribution = analysis.results.cells[0], analysis.attribution
    assert attribution.breakdowns[off.cell.index].loads == 3
    shown = attribution.shown[off.cell.index]
    assert shown.path.plt_ns / 1e6 == pytest.approx(off.plt_ms_median)


def test_the_arms_are_shown_by_loads_of_the_repeat_with_the_median_saving() -> None:
    """The repeats save 10, -45 and 50 %, so the first is shown. The arms' median times are in the others."""
    plts_ms = {"off": (1000, 2000, 3000), "warm": (900, 2900, 1500)}
    plan = made_up_plan(PAGES[:1], (20,), repeats=3, arms=["off", "warm"])
    with RunStore.create(None, plan, {}) as store:
        for planned in plan.jobs:
            for number, load in enumerate(planned.job.loads):
                data = load_data(planned, load.cookies, number)
                plt_ms = plts_ms["warm" if load.cookies else "off"][planned.repeat]
                data.update(id=load.id, transport=load.transport, cookies=load.cookies, plt_ns=plt_ms * MS)
                raw = json.dumps(data)
                store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
        analysis = analyse_run(store)
    ((_, _, shown),) = median_loads(analysis)
    plts_ns = {label: one.record.plt_ns for label, one in shown.items()}
    assert plts_ns == {"no TFO": 1000 * MS, "TFO, warm cookies": 900 * MS}
    assert [path.loads for path in analysis.attribution.breakdowns.values()] == [3, 3]


def test_third_parties_are_told_by_registrable_domain() -> None:
    assert registrable_domain("news.bbc.co.uk") == "bbc.co.uk"
    assert registrable_domain("static.example.com") == "example.com"
    assert registrable_domain("192.0.2.7") == "192.0.2.7"
    assert registrable_domain("localhost") == "localhost"
    assert third_parties(PAGES[1]) == {"y.com": 8, "10.0.0.1": 7, "z.org": 7}
    page = made_up_page("two domains", 6, ("a.test", "b.net"))
    said = text_of(page_answers(taken_apart(made_up_plan([page], (20,))), page.name))
    assert "3 of its 6 requests (50 %) leave a.test for b.net." in said


def test_what_a_page_is_called_stays_text_as_it_is() -> None:
    named = made_up_page("<script>alert(1)</script>", 6)
    assert "<script>" in text_of(run_answers(taken_apart(made_up_plan([named, PAGES[1]]))))


def test_each_setting_says_what_it_changes_on_the_critical_path() -> None:
    plan = made_up_plan([made_up_page("one")], rtts_ms=(20, 100), rates_mbit=(1, 8))
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        source = analyse_run(store)
    without, with_tfo = page_answers(source, "one")["What do the other settings change?"]
    expected = "Without TFO, 8 Mbit/s down instead of 1 Mbit/s down (100 ms): "
    assert without.startswith(expected)
    assert "transfer \N{MINUS SIGN}" in without
    assert with_tfo.startswith("With TFO, 8 Mbit/s down")


@pytest.mark.parametrize(
    ("engine", "repeats", "expected"),
    [("virtual", 4, "all 4 samples"), ("virtual", 8, "90 % of 8 samples"), ("host", 4, "88 % interval")],
)
def test_a_published_figure_within_the_range_is_the_same(engine: str, repeats: int, expected: str) -> None:
    others: dict[str, Any] = {"vary": {}} if engine == "virtual" else {}
    plan = made_up_plan([made_up_page("one")], (20,), repeats, engines=[engine], **others)
    analysis = taken_apart(plan)
    (place,) = analysis.places("one")
    assert place.headline is not None
    times = {"plt_off": 100.0, "plt_tfo": 100.0 - (place.headline.improvement_percent or 0.0)}
    published = all_published_cells()[0].model_copy(update=times)
    results = replace(analysis.results, published={("one", place.comparison.network): published})
    answers = text_of(page_answers(replace(analysis, results=results), "one"))
    assert f"is the same within its range ({expected} +" in answers
