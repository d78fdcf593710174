"""Each verdict answers one question, and surprising results are explained beside it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastopen.analysis.statistics import CellResult, Effect, FirstFlight, Reason, Results, collect, effect_of
from fastopen.common.phrases import times
from fastopen.common.terminal import plain
from fastopen.contract import Origins, Tls
from fastopen.engines import HostEngine
from fastopen.experiments import Plan, Setup, SmallestEffect, make_plan
from fastopen.report import results_renderables
from fastopen.report.findings import Finding, page_findings
from fastopen.report.findings.surprises import surprises_of_pages
from fastopen.report.findings.verdict import findings, invalid_lines
from fastopen.report.summary import summarise_run
from fastopen.runs import RunStore, execute
from made_up_run import fill, made_up_page, made_up_plan

FakeWorld = Callable[..., Path]
MakePlan = Callable[..., Plan]
CLEAR = " (cleartext, HTTP/1.1)."
SETUPS = [Setup(), Setup(tls=Tls()), Setup(origins=Origins(http="2"), tls=Tls())]
INTERVALS = {0: (18.0, (17.0, 19.0)), 1: (0.1, (0.1, 0.1)), 2: (-0.2, (-0.3, -0.1))}


def page_verdicts(results: Results, page: str) -> list[str]:
    return [one.sentence for one in findings(results, page)]


@pytest.fixture
def several_questions(small_plan: MakePlan, fake_world: FakeWorld) -> Results:
    """Return results in which warm cookies save 18 % in cleartext, and nothing over TLS."""
    plan = small_plan((20, 100), repeats=1)
    experiment = plan.experiment.model_copy(update={"setups": SETUPS})
    plan = make_plan(experiment, plan.pages)
    with RunStore.create(None, plan, {}) as store:
        execute(plan, HostEngine(fake_world(), 2), {}, store, lambda _: None)
        results = collect(store)
    cells = [
        replace(
            cell,
            improvement_percent=INTERVALS[cell.cell.setup][0],
            improvement_ci95=(-1.0, 1.0)
            if cell.cell.arm.cookies == "cold"
            else INTERVALS[cell.cell.setup][1],
            saved_ms=INTERVALS[cell.cell.setup][0] * 10,
            plt_ms_median=1000.0,
            pairs=9,
            connections=6,
            syn_data_connections=6 if cell.cell.arm.cookies == "warm" else 0,
        )
        if cell.cell.arm.fast_open
        else cell
        for cell in results.cells
    ]
    flight = FirstFlight(
        client_hello_bytes=1480,
        secured_connections=6,
        most_to_a_host=6,
        resumed_connections=0,
        early_connections=0,
        first_byte_rtts=3.0,
    )
    flights = {cell.cell.index: flight for cell in cells if cell.cell.setup and cell.cell.arm.fast_open}
    return replace(results, cells=cells, first_flights=flights)


def test_each_question_has_a_verdict_of_its_own(several_questions: Results) -> None:
    summary = summarise_run(several_questions)
    assert page_verdicts(several_questions, "small") == [summary.headline]
    words = (
        "HTTP/1.1, cleartext: on a repeat visit TFO saves 18.0 % (180 ms; 95 % intervals within +17.0 to"
        " +19.0 %); n 9. HTTP/1.1, TLS 1.3; HTTP/2, TLS 1.3: it makes no difference (saving -0.2 to +0.1 %;"
        " 95 % intervals within -0.3 to +0.1 %)."
    )
    assert (plain(summary.headline), summary.tone) == (words, "quiet")
    assert not any("saved" in label for label in summary.tiles)


def test_the_headline_of_one_question_is_its_verdict(several_questions: Results) -> None:
    cells = [cell for cell in several_questions.cells if cell.cell.setup == 0]
    experiment = several_questions.experiment.model_copy(update={"setups": SETUPS[:1]})
    summary = summarise_run(replace(several_questions, cells=cells, experiment=experiment))
    assert plain(summary.headline).startswith(
        "TFO is worth turning on for this page (cleartext, HTTP/1.1): on a repeat visit it saves 18.0 % (180"
        " ms; 95 % intervals within +17.0 to +19.0 %); n 9."
    )
    assert summary.tone == "good"


def test_without_a_baseline_the_verdict_is_that_nothing_can_be_compared() -> None:
    plan = made_up_plan([made_up_page("one")], rtts_ms=(20,), arms=["cold", "warm"])
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        summary = summarise_run(collect(store))
    assert (summary.headline, summary.tone) == (
        f"There is no load without TFO to compare with{CLEAR}",
        "quiet",
    )


def shown(results: Results, kind: str) -> list[Finding]:
    return [one for one in page_findings(results, "small") if one.kind == kind]


def test_a_client_hello_that_fits_no_syn_is_named_where_nothing_is_saved(several_questions: Results) -> None:
    (found,) = shown(several_questions, "hello_beyond_syn")
    assert ", so TFO saves no round trip with TLS 1.3." in found.sentence
    assert found.figures == {"client_hello_bytes_max": 1480, "syn_data_max_bytes": 1420}


def test_tables_of_many_pages_say_that_a_client_hello_fits_no_syn(several_questions: Results) -> None:
    lines = list(surprises_of_pages(several_questions, 2 * [*several_questions.pages]))
    assert len(lines) == 1, lines
    assert (
        "The ClientHello (1,480 bytes) is larger than a SYN can carry (1,420), so TFO saves no round trip"
        in lines[0]
    )
    assert list(surprises_of_pages(several_questions, [])) == []


def test_where_a_client_hello_fits_no_syn_and_one_rtt_saves_little_that_row_is_left_out(
    several_questions: Results,
) -> None:
    cells = [
        replace(cell, improvement_percent=0.4, improvement_ci95=(0.4, 0.4), saved_ms=11.0)
        if (cell.cell.setup, cell.cell.network, cell.cell.arm.name) == (1, 0, "warm")
        else cell
        for cell in several_questions.cells
    ]
    found = shown(replace(several_questions, cells=cells), "hello_beyond_syn")
    assert ["no round trip in 3 of 4 rows over TLS." in one.sentence for one in found] == [True]


def test_where_a_few_loads_save_much_nobody_says_that_nothing_is_saved(several_questions: Results) -> None:
    cells = [
        replace(cell, improvement_percent=8.8, improvement_ci95=None, saved_ms=88.0)
        if cell.cell.setup
        else cell
        for cell in several_questions.cells
    ]
    assert shown(replace(several_questions, cells=cells), "hello_beyond_syn") == []


def test_cold_cookies_without_a_second_connection_are_named(several_questions: Results) -> None:
    (found,) = shown(several_questions, "no_second_connection")
    assert found.sentence.startswith("On a first visit no connection can use TFO: ")


def test_a_page_that_loads_sooner_over_a_longer_rtt_is_named(several_questions: Results) -> None:
    faster = [
        replace(cell, plt_ms_median=900.0 if cell.cell.network else 1000.0)
        for cell in several_questions.cells
    ]
    found = shown(replace(several_questions, cells=faster), "audit_of_own_times")
    times = "without TFO 900 ms over 100 ms, 1000 ms over 20 ms"
    assert any(times in one.sentence for one in found)


def test_a_verdict_is_deterministic_even_if_a_row_has_no_valid_load(several_questions: Results) -> None:
    cells = [
        replace(cell, improvement_percent=None, improvement_ci95=None, pairs=0, deterministic=False)
        if cell.cell.network
        else replace(cell, deterministic=True)
        for cell in several_questions.cells
        if cell.cell.setup == 0
    ]
    experiment = several_questions.experiment.model_copy(update={"setups": SETUPS[:1]})
    (verdict,) = page_verdicts(replace(several_questions, cells=cells, experiment=experiment), "small")
    assert "; n 9, deterministic." in plain(verdict)


def test_loads_that_are_all_invalid_for_one_reason_are_said_at_once(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    plan = small_plan((20,), repeats=2)
    with RunStore.create(None, plan, {}) as store:
        execute(plan, HostEngine(fake_world({"*": "dies"}), 2), {}, store, lambda _: None)
        results = collect(store)
    (verdict,) = page_verdicts(results, "small")
    # The world dies after the first of its loads, which come in a random order.
    assert verdict == f"No load with TFO and cookies of an earlier visit is valid{CLEAR}"
    (reason,) = (line for line in printed(results).splitlines() if line.startswith("Invalid"))
    assert "warm: 2 of 2" in reason
    assert printed(results).count("the world program ended") == 1
    summary = summarise_run(results)
    assert (summary.headline, summary.tone) == (verdict, "bad")
    assert summary.sentences[-1].startswith("Invalid: warm: 2 of 2 loads: fault: ")
    assert "0 of 0" not in " ".join(summary.sentences)


def test_where_no_load_is_valid_without_tfo_either_that_is_said_once(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    plan = small_plan((20,), repeats=2)
    with RunStore.create(None, plan, {}) as store:
        execute(plan, HostEngine(fake_world({"*": "late"}), 2), {}, store, lambda _: None)
        results = collect(store)
    (verdict,) = page_verdicts(results, "small")
    assert verdict == summarise_run(results).headline == f"No load is valid{CLEAR}"
    reason = "Invalid: off: 2 of 2 loads, cold: 2 of 2, warm: 2 of 2: link_late: a packet was 9 ms late"
    assert printed(results).count(reason) == printed(results).count("link_late") == 1


def test_reasons_name_the_rows_and_arms_that_they_concern_and_verdicts_the_arms_without_a_valid_load(
    several_questions: Results,
) -> None:
    def verdict_and_reasons(struck: set[str], networks: set[int]) -> tuple[str, list[str]]:
        late = (Reason("link_late", 1, "a packet was 9 ms late"),)
        cells = [
            replace(cell, invalid=cell.loads, reasons=late, pairs=0, improvement_ci95=None)
            if cell.cell.arm.name in struck and cell.cell.network in networks
            else cell
            for cell in several_questions.cells
            if cell.cell.setup == 0
        ]
        experiment = several_questions.experiment.model_copy(update={"setups": SETUPS[:1]})
        results = replace(several_questions, cells=cells, experiment=experiment)
        return summarise_run(results).headline, [line for _, _, line in invalid_lines(results, cells)]

    assert verdict_and_reasons({"cold", "warm"}, {0, 1}) == (
        f"No load with TFO is valid{CLEAR}",
        ["Invalid: cold: 2 of 2 loads, warm: 2 of 2: link_late: a packet was 9 ms late"],
    )
    headline, reasons = verdict_and_reasons({"cold"}, {1})
    assert headline.startswith("TFO is worth turning on for this page (cleartext, HTTP/1.1): ")
    assert reasons == ["Invalid at 100 ms: cold: 1 of 1 load: link_late: a packet was 9 ms late"]
    assert verdict_and_reasons({"off"}, {0, 1})[0] == f"No load without TFO is valid{CLEAR}"


def test_invalid_loads_of_an_arm_are_counted_once_for_tls_and_cleartext(several_questions: Results) -> None:
    late = (Reason("link_late", 1, "a packet was 9 ms late"),)
    cells = [replace(cell, invalid=cell.loads, reasons=late) for cell in several_questions.cells]
    ((_, count, line),) = invalid_lines(replace(several_questions, cells=cells), cells)
    assert count == len(cells) == 18
    assert line.startswith("Invalid: off: 6 of 6 loads, cold: 6 of 6, warm: 6 of 6: link_late")


def test_a_saving_of_loads_that_survive_is_not_called_worth_it(several_questions: Results) -> None:
    experiment = several_questions.experiment.model_copy(update={"setups": SETUPS[:1]})

    def headline(unfinished: dict[str, tuple[int, int]], *, saves: bool = True) -> str:
        """Return the headline. `unfinished` maps an arm to (unfinished loads, all loads) of each cell."""
        cells = []
        for cell in several_questions.cells:
            lost, loads = unfinished.get(cell.cell.arm.name, (0, 4))
            reasons = (Reason("incomplete", lost, "it did not end"),) if lost else ()
            changed = replace(cell, loads=loads, invalid=lost, reasons=reasons)
            if not saves and cell.cell.arm.fast_open:
                changed = replace(changed, improvement_percent=0.0, improvement_ci95=(0.0, 0.0), saved_ms=0.0)
            cells += [changed] if cell.cell.setup == 0 else []
        summary = summarise_run(replace(several_questions, cells=cells, experiment=experiment))
        return " ".join((summary.headline, *summary.verdict))

    lost = headline({"warm": (1, 4)})
    assert not lost.startswith("TFO is worth turning on")
    assert (
        "2 of 8 loads with TFO and cookies of an earlier visit did not finish, and 0 of 8 without TFO" in lost
    )
    assert headline({}).startswith("TFO is worth turning on")
    assert headline({"warm": (1, 4), "off": (1, 4)}) == headline({})
    assert headline({"warm": (1, 3), "off": (1, 4)}) == headline({}), "an interrupted run has more of one arm"
    rare = headline({"warm": (1, 400), "off": (0, 400)})
    assert rare.startswith("TFO is worth turning on")
    assert "2 of 800 loads" in rare
    assert "(cleartext, HTTP/1.1), TFO saves nothing;" in headline({}, saves=False)
    assert headline({"warm": (1, 4)}, saves=False).startswith("TFO is not worth turning on")


def test_unfinished_loads_of_questions_with_one_verdict_are_added(several_questions: Results) -> None:
    lost = (Reason("incomplete", 1, "it did not end"),)
    cells = [
        replace(
            cell, loads=4, invalid=1, reasons=lost, improvement_percent=18.0, improvement_ci95=(17.0, 19.0)
        )
        if cell.cell.arm.name == "warm"
        else replace(cell, loads=4)
        for cell in several_questions.cells
    ]
    verdict = " ".join(summarise_run(replace(several_questions, cells=cells)).verdict)
    assert verdict.count("did not finish") == 1
    assert f"{sum(cell.cell.arm.name == 'warm' for cell in cells)} of" in verdict


def test_a_factor_that_changes_no_load_at_all_is_said_to_have_no_effect() -> None:
    setups = [{"tcp": {"congestion_control": name}} for name in ("cubic", "bbr", "reno")]
    plan = made_up_plan([made_up_page("small")], (20, 100), 1, engines=["virtual"], setups=setups)
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        results = collect(store)
    same = [
        replace(cell, plts_ms={0: 100.0 + cell.cell.network}, deterministic=True, retransmitted=0.0)
        if cell.cell.setup in (0, 2)
        else replace(cell, plts_ms={0: 90.0})
        for cell in results.cells
    ]
    words = "Page load times are the same, to the nanosecond, with"

    def said(cells: list[CellResult]) -> list[str]:
        found = shown(replace(results, cells=cells), "factor_without_effect")
        return [one.sentence for one in found]

    # The third value of the factor has another time, so only these two values are the same.
    assert said(same) == [f"{words} cubic and reno, as no segment is retransmitted."]
    lossy = [replace(cell, retransmitted=1.0) for cell in same]
    assert said(lossy) == [f"{words} cubic and reno."]
    everywhere = [replace(cell, plts_ms={0: 100.0 + cell.cell.network}) for cell in lossy]
    everywhere = [replace(cell, deterministic=True) for cell in everywhere]
    assert said(everywhere) == [f"{words} cubic, bbr and reno: the congestion control has no effect here."]
    of_draws = [replace(cell, deterministic=False, varied=True) for cell in everywhere]
    assert said(of_draws) == said(everywhere)
    assert said([replace(cell, deterministic=False) for cell in same]) == []


@pytest.mark.parametrize(
    ("rtts_ms", "values", "pages", "words"),
    [
        ((20,), ["cubic"], 2, "the median saving over 2 pages is +26.6 % (all faster)"),
        ((20, 100), ["cubic"], 2, "the median saving over 4 rows is "),
        ((20, 100), ["cubic", "bbr"], 2, "the median saving over 8 rows is "),
    ],
)
def test_what_a_median_is_over_is_called_what_it_is(
    rtts_ms: tuple[int, ...], values: list[str], pages: int, words: str
) -> None:
    setups = [{"tcp": {"congestion_control": value}} for value in values]
    made_up = [made_up_page(f"page-{number}") for number in range(pages)]
    plan = made_up_plan(made_up, rtts_ms, 1, engines=["virtual"], setups=setups)
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        summary = summarise_run(collect(store))
    assert words in plain(summary.sentences[0])


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((62.0, 410.0), "62 to 410 ms"),
        ((978.0, 1710.0), "0.98 to 1.71 s"),
        ((-1200.0, 30.0), "\N{MINUS SIGN}1.20 to 0.03 s"),
        ((62.2, 62.3), "62 ms"),
    ],
)
def test_a_range_of_times_has_one_unit(ends: tuple[float, float], words: str) -> None:
    assert times(*ends) == words.replace(" ms", "\N{NO-BREAK SPACE}ms").replace(" s", "\N{NO-BREAK SPACE}s")


def test_rows_are_named_by_the_factor_that_parts_their_effects() -> None:
    setups = [{"tcp": {"congestion_control": name}} for name in ("cubic", "reno")]

    def said(rtts: tuple[int, ...], savings: dict[tuple[int, int], float]) -> str:
        plan = made_up_plan([made_up_page("small")], rtts, 1, engines=["virtual"], setups=setups)
        with RunStore.create(None, plan, {}) as store:
            fill(store, plan)
            results = collect(store)
        cells = []
        for cell in results.cells:
            saved = savings[cell.cell.network, cell.cell.setup]
            facts: dict[str, Any] = {
                "improvement_percent": saved,
                "improvement_ci95": (saved, saved),
                "saved_ms": 50.0,
            }
            cells.append(replace(cell, **facts) if cell.cell.arm.fast_open else cell)
        return plain(page_verdicts(replace(results, cells=cells), "small")[0])

    both = {(0, 0): 9.0, (0, 1): 9.0}
    assert "on a repeat visit it saves 9.0 % (50 ms); n 1, deterministic." in said((20,), both)
    apart = {(0, 0): 9.0, (0, 1): 0.0}
    assert "TFO saves 9.0 % with cubic (50 ms), and saves nothing with reno;" in said((20,), apart)
    by_rtt = {(0, 0): 0.0, (0, 1): 0.1, (1, 0): 30.0, (1, 1): 31.0}
    assert "TFO saves 30.0 to 31.0 % at 100 ms (50 ms), and makes no difference at 20 ms (saving" in said(
        (20, 100), by_rtt
    )
    by_each = {(0, 0): 9.0, (0, 1): 0.0, (1, 0): 0.0, (1, 1): 30.0}
    words = "TFO saves 9.0 to 30.0 % in 2 of 4 rows (50 ms), and saves nothing in 2 of 4 rows;"
    assert words in said((20, 100), by_each)


def test_a_client_that_opens_no_connection_leaves_nothing_to_compare(several_questions: Results) -> None:
    idle = [
        replace(cell, connections=0, improvement_percent=None, improvement_ci95=None, pairs=0)
        for cell in several_questions.cells
    ]
    results = replace(several_questions, cells=idle)
    assert summarise_run(results).headline.startswith("The client opened no connection: there is nothing to")


def printed(results: Results) -> str:
    return "\n".join(str(one) for one in results_renderables(results, 100))


def result_with(saving: float, interval: tuple[float, float], plt_ms: float) -> Any:
    return SimpleNamespace(improvement_percent=saving, interval=interval, plt_ms_median=plt_ms)


@pytest.mark.parametrize(
    ("saving", "interval", "plt_ms", "effect"),
    [
        (0.6, (0.55, 0.65), 1000, Effect.REDUCES),
        (0.4, (0.3, 0.5), 10_000, Effect.NONE),
        (0.5, (0.5, 0.5), 10_000, Effect.REDUCES),
        (0.4, (0.35, 65.3), 10_000, Effect.UNCLEAR),
        (-0.4, (-0.6, -0.3), 10_000, Effect.UNCLEAR),
        (0.6, (0.1, 1.2), 10_000, Effect.REDUCES),
        (0.6, (0.5, 0.7), 100, Effect.NONE),
        (-2, (-3, -1), 1000, Effect.INCREASES),
        (0.1, (-0.2, 0.3), 1000, Effect.NONE),
        (1, (-1, 3), 1000, Effect.UNCLEAR),
    ],
)
def test_what_is_below_the_smallest_effect_of_interest_is_no_difference(
    saving: float, interval: tuple[float, float], plt_ms: float, effect: Effect
) -> None:
    assert effect_of(result_with(saving, interval, plt_ms), SmallestEffect()) is effect


def test_an_experiment_may_set_the_smallest_effect(small_plan: MakePlan) -> None:
    plan = small_plan((20,), repeats=1)
    asked = plan.experiment.model_copy(update={"smallest_effect": SmallestEffect(percent=5.0)})
    assert effect_of(result_with(4, (3, 5), 1000), asked.smallest_effect) is Effect.NONE
