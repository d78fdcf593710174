"""The printed results of runs, compared with snapshots; UPDATE_SNAPSHOTS=1 updates the snapshots."""

import io
import json
import os
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fastopen.analysis.statistics import Bound, Results, collect
from fastopen.cli.output import console
from fastopen.common.grid import Column, Entry, Grid
from fastopen.common.terminal import below_table, fitting_table, plain
from fastopen.engines import HostEngine
from fastopen.experiments import Experiment, Plan, load_experiment, make_plan
from fastopen.pages import Page
from fastopen.report import results_document, results_renderables
from fastopen.report.findings.verdict import findings
from fastopen.report.latex import escaped, latex
from fastopen.report.result_tables import fixed_rates, paper_grid, result_grid
from fastopen.report.summary import summarise_run
from fastopen.runs import RunStore, execute
from made_up_run import fill, made_up_page, made_up_plan

PAGE = "this page (cleartext, HTTP/1.1)"
SNAPSHOTS = Path(__file__).parent / "snapshots"
MakePlan = Callable[..., Plan]
FakeWorld = Callable[..., Path]


def page_verdicts(results: Results, page: str) -> list[str]:
    return [one.sentence for one in findings(results, page)]


def compare(name: str, text: str) -> None:
    """Compare the text with a snapshot, or write the snapshot if UPDATE_SNAPSHOTS is set."""
    path = SNAPSHOTS / name
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text)
    assert text == path.read_text()


def results_of(plan: Plan, program: Path) -> Results:
    with RunStore.create(None, plan, {"kernel": "6.18.0"}) as store:
        execute(plan, HostEngine(program, 2), {}, store, lambda _: None)
        return collect(store)


def printed(results: Results, width: int) -> str:
    target = Console(file=io.StringIO(), width=width, highlight=False)
    for renderable in results_renderables(results, target.width):
        target.print(renderable)
    assert isinstance(target.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in target.file.getvalue().splitlines())


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_of_a_run(small_plan: MakePlan, fake_world: FakeWorld, width: int) -> None:
    plan = small_plan((20, 100, 200), repeats=5)
    program = fake_world({"small@100ms#1": "dies"})
    text = printed(results_of(plan, program), width)
    assert max(len(line) for line in text.splitlines() if "Invalid " not in line) <= width
    compare(f"table-{width}.txt", text)


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_with_published_figures(page: Page, fake_world: FakeWorld, width: int) -> None:
    asked = load_experiment("radhakrishnan2011")
    experiment = Experiment(**{**dict(asked), "repeats": 3})
    plan = make_plan(experiment, [page.model_copy(update={"name": name}) for name in asked.pages])
    compare(f"table-published-{width}.txt", printed(results_of(plan, fake_world()), width))


@pytest.mark.parametrize("name", ["purdue-method2-bandwidth", "palguyev", "meissner"])
def test_every_table_with_published_figures_fits_80_columns(
    page: Page, fake_world: FakeWorld, name: str
) -> None:
    asked = load_experiment(name)
    experiment = Experiment(**{**dict(asked), "repeats": 1})
    plan = make_plan(experiment, [page.model_copy(update={"name": name}) for name in asked.pages])
    text = printed(results_of(plan, fake_world()), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def virtual_run(repeats: int = 1, **others: Any) -> Results:
    """Return the results of loads with each arm, in virtual time."""
    plan = made_up_plan([made_up_page("small", 6)], (20,), repeats, engines=["virtual"], **others)
    with RunStore.create(None, plan, {"kernel": "6.18.0"}) as store:
        fill(store, plan)
        return collect(store)


def test_a_virtual_run_of_one_repeat_prints_no_range_and_says_how_to_get_one() -> None:
    text = printed(virtual_run(), 100)
    assert "[" not in text
    assert "Each value is from one load: loads in virtual time are deterministic." in text
    assert "With fewer than 6 repeats" not in text
    assert text.startswith(
        "TFO is worth turning on for this page (cleartext, HTTP/1.1): on a repeat visit it"
    )


def test_the_sentences_on_a_single_row_do_not_name_it_again() -> None:
    lines = page_verdicts(virtual_run(), "small")
    assert not any("20" in line for line in lines)


def test_networks_with_names_are_calibrated_by_these_and_their_rates_stand_above() -> None:
    networks = [
        {
            "rtt_us": rtt * 1000,
            "down": {"rate_bit_per_s": down, "queue_bytes": 256_000},
            "up": {"rate_bit_per_s": up, "queue_bytes": 256_000},
        }
        for rtt, down, up in ((28, 5_000_000, 1_000_000), (70, 12_000_000, 12_000_000))
    ]
    results = virtual_run(networks=networks)
    assert fixed_rates(results) == "cable (5 Mbit/s down, 1 Mbit/s up), lte (12 Mbit/s down, 12 Mbit/s up)"
    (verdict,) = page_verdicts(results, "small")
    assert "Mbit" not in verdict
    (verdict,) = page_verdicts(with_warm(results, (5.0, (4.0, 6.0)), (0.0, (0.0, 0.0))), "small")
    assert " for cable (56\N{NO-BREAK SPACE}ms), and saves nothing for lte;" in verdict


def test_loss_is_chance_in_virtual_time_too() -> None:
    limit = {"rate_bit_per_s": 4_000_000, "queue_bytes": 96_000, "loss": 0.01}
    network = {"rtt_us": 20_000, "down": limit, "up": limit}
    text = printed(virtual_run(networks=[network]), 100)
    assert "[n < 3]" in text
    assert "is from one load" not in text
    assert "With fewer than 6 repeats" in text


def test_the_document_of_a_run(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    plan = small_plan((20,), repeats=4)
    document = results_document(results_of(plan, fake_world({"small@20ms#1": "killed"})))
    compare("document.json", json.dumps(document, indent=2) + "\n")


def test_the_document_has_the_keys_that_the_issue_names(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    cells = results_document(results_of(small_plan((20,), repeats=4), fake_world()))["cells"]
    needed = {
        *("page", "rtt_ms", "down_bit_per_s", "up_bit_per_s", "transport", "cookies", "client", "engine"),
        *("plt_ms_median", "improvement_percent", "improvement_ci95", "loads", "invalid"),
        *("connections", "syn_data_connections"),
    }
    assert all(needed <= set(cell) for cell in cells)
    off, _, warm = cells
    assert (off["transport"], off["cookies"], off["improvement_percent"]) == ("tcp", None, None)
    assert off["improvement_ci95"] is None
    assert (warm["transport"], warm["cookies"], warm["loads"], warm["invalid"]) == ("tfo", "warm", 4, 0)
    low, high = warm["improvement_ci95"]
    assert low <= warm["improvement_percent"] <= high


def with_warm(results: Results, *figures: tuple[float, tuple[float, float] | None]) -> Results:
    """Return the results with new savings and intervals for warm cookies: a pair of `figures` per network."""
    cells = [
        replace(
            cell,
            improvement_percent=figures[cell.cell.network][0],
            improvement_ci95=figures[cell.cell.network][1],
            pairs=9,
        )
        if cell.cell.arm.name == "warm"
        else cell
        for cell in results.cells
    ]
    return replace(results, cells=cells)


@pytest.mark.parametrize(
    ("beaten", "shown"), [((), "80.0"), (("cold",), "70.0"), (("cold", "warm"), "70.0/80.0")]
)
def test_a_table_has_each_bound_that_a_saving_exceeds(
    small_plan: MakePlan, fake_world: FakeWorld, beaten: Collection[str], shown: str
) -> None:
    results = results_of(small_plan((100,)), fake_world())
    bounds = {"cold": Bound(70, 100, 70), "warm": Bound(80, 100, 80)}
    cells = [
        replace(one, bound=bounds.get(name), improvement_percent=90.0 if name in beaten else 5.0)
        for one in results.cells
        for name in [one.cell.arm.name]
    ]
    grid = result_grid(replace(results, cells=cells), "small")
    (at,) = (number for number, one in enumerate(grid.columns) if one.header.startswith("at"))
    assert [str(row[at]) for row in grid.rows] == [shown]


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (
            [(5, (4, 6)), (9, (8, 10))],
            f"TFO is worth turning on for {PAGE}: on a repeat visit it saves 5.0 to 9.0 % (",
        ),
        (
            [(0.9, (0.8, 1)), (0.7, (0.6, 0.8))],
            f"TFO saves little for {PAGE}: on a repeat visit it saves 0.7",
        ),
        (
            [(5, (4, 6)), (1, (-1, 2))],
            "and has no certain effect at 100 ms (saving +1.0 %; 95 % interval -1.0 to +2.0 %); n 9.",
        ),
        (
            [(5, (4, 6)), (-9, (-10, -8))],
            "and adds 9.0 % at 100 ms (200 ms; 95 % interval +8.0 to +10.0 %); n 9.",
        ),
        (
            [(0, (-1, 1)), (1, (-1, 2))],
            "TFO has no certain effect (saving 0.0 to +1.0 %; 95 % intervals within -1.0 to +2.0 %); n 9.",
        ),
        (
            [(0, (-0.1, 0.1)), (0.2, (0.1, 0.3))],
            "TFO makes no difference (saving 0.0 to +0.2 %; 95 % intervals within -0.1 to +0.3 %); n 9.",
        ),
        ([(-5, (-6, -4)), (0, (0, 0))], f"TFO is not worth turning on for {PAGE}: on a repeat visit it adds"),
        ([(5, (4, 6)), (1, None)], "and has too few valid repeats at 100 ms for a verdict; n 9."),
        (
            [(0, (-0.1, 0.1)), (1, None)],
            "TFO saves nothing at 20 ms, and has too few valid repeats at 100 ms for a verdict; n 9.",
        ),
        (
            [(5, None), (1, None)],
            "Too few valid repeats to say what TFO does (cleartext, HTTP/1.1): saving +",
        ),
    ],
)
def test_the_verdict_follows_the_intervals(
    small_plan: MakePlan,
    fake_world: FakeWorld,
    figures: list[tuple[float, tuple[float, float] | None]],
    said: str,
) -> None:
    results = results_of(small_plan((20, 100), repeats=1), fake_world())
    (verdict,) = page_verdicts(with_warm(results, *figures), "small")
    assert said in plain(verdict)


def test_a_few_pages_that_gain_and_a_few_that_lose_do_not_make_the_verdict_on_many() -> None:
    figures = [(5.0, (4.0, 6.0)), (-9.0, (-10.0, -8.0)), *[(0.0, (0.0, 0.0))] * 3]
    plan = made_up_plan([made_up_page("small", 6)], (20, 40, 60, 80, 100), repeats=1)
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        found = with_warm(collect(store), *figures)
    (verdict,) = page_verdicts(found, "small")
    assert plain(verdict).startswith(
        f"On a repeat visit to {PAGE}, TFO saves 5.0 % at 20 ms (40 ms; 95 % interval +4.0 to +6.0 %);"
        " adds 9.0 % at 40 ms (80 ms; 95 % interval +8.0 to +10.0 %); saves nothing at 60 ms, 80 ms and"
        " 100 ms; n 9."
    )


def test_an_interrupted_run_says_so_and_what_is_missing(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    plan = small_plan((20,), repeats=2)
    with RunStore.create(None, plan, {}) as store:
        engine = HostEngine(fake_world(), 1)
        short = replace(plan, jobs=plan.jobs[:1])
        execute(short, engine, {}, store, lambda _: None)
        store.set_status("interrupted")
        text = printed(collect(store), 100)
    assert "This run is interrupted" in text
    assert "Not done: 3 loads." in text


def test_pages_of_which_nothing_was_loaded_have_no_table(fake_world: FakeWorld) -> None:
    plan = made_up_plan([made_up_page("one"), made_up_page("two")], rtts_ms=(20,), repeats=1)
    with RunStore.create(None, plan, {}) as store:
        first = tuple(job for job in plan.jobs if job.comparison.page == "one")
        execute(replace(plan, jobs=first), HostEngine(fake_world(), 1), {}, store, lambda _: None)
        store.set_status("interrupted")
        text = " ".join(printed(collect(store), 100).split())
    assert "two 4" not in text
    assert "This run is interrupted, without any load of two;" in text


def test_the_table_of_draws_says_what_its_brackets_are() -> None:
    results = virtual_run(repeats=30, vary={})
    text = printed(results, 100)
    assert "% [90 %]" in text
    assert "Brackets: the range of 90 % of 30 samples of uncertain inputs" in " ".join(text.split())
    cells = [cell for cell in results_document(results)["cells"] if cell["improvement_ci95"]]
    assert {cell["interval_over"] for cell in cells} == {"draws"}
    for cell in cells:
        wide, narrow = cell["improvement_ci95"], cell["improvement_range90"]
        assert wide[0] <= narrow[0] < cell["improvement_percent"] < narrow[1] <= wide[1]


def test_what_is_printed_of_many_pages_has_ordinary_spaces_and_signs() -> None:
    pages = [made_up_page("one", requests=4), made_up_page("two", requests=5)]
    plan = made_up_plan(pages, repeats=3)
    with RunStore.create(None, plan, {"kernel": "6.18.0"}) as store:
        fill(store, plan)
        text = printed(collect(store), 80)
    assert "75 % intervals within +" in " ".join(text.split())
    assert not {"\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"} & {*text}


def test_the_verdict_over_draws_speaks_of_what_holds_for_them() -> None:
    results = virtual_run(repeats=30, vary={})
    warm = next(cell for cell in results.cells if cell.cell.arm.name == "warm")
    low, high = warm.interval or (0.0, 0.0)
    (verdict,) = page_verdicts(results, "small")
    assert f"; 90 % of samples +{low:.1f} to +{high:.1f} %); n 30." in plain(verdict)
    slower = {repeat: -saved for repeat, saved in warm.improvements_percent.items()}
    added = replace(warm, improvement_percent=-(warm.improvement_percent or 0.0), improvements_percent=slower)
    found = replace(results, cells=[added if cell is warm else cell for cell in results.cells])
    (verdict,) = page_verdicts(found, "small")
    words = rf" adds [\d.]+ % \([\d.]+ ms; 90 % of samples \+{low:.1f} to \+{high:.1f} %\); n 30\."
    assert re.search(words, plain(verdict))
    spread = {repeat: saved - 100 * (repeat % 2) for repeat, saved in warm.improvements_percent.items()}
    results.cells[results.cells.index(warm)] = replace(warm, improvements_percent=spread)
    (verdict,) = page_verdicts(results, "small")
    assert re.search(r"TFO has no certain effect \(saving \+.*; 90 % of samples -", plain(verdict))


def test_a_narrow_terminal_gets_numbers_for_factors_and_less_proof_in_place_of_cut_figures() -> None:
    columns = (
        Column("loss\n%", "factor"),
        Column("conges-\ntion", "factor"),
        Column("RTT\nms", "factor"),
        *(Column(f"PLT\n{name} s") for name in ("off", "cold", "warm")),
        Column("warm\nsaves\n% [range]"),
        Column("SYN\ndata", detail=True),
    )
    loss = Entry("1", phrase="1 % loss")
    row = (loss, Entry("cubic", phrase="cubic"), Entry("28", phrase="28 ms"))
    figures = [Entry("5.078"), Entry("4.699"), Entry("4.646"), Entry("+8.4", aside="[-0.6, 25.9]")]
    grid = Grid("", columns, ((*row, *figures, Entry("113/114")),))
    table, layout = fitting_table(grid, 44)
    assert layout.bare
    assert list(below_table(grid, layout)) == [
        "1: 1 % loss, cubic",
        "Left out, since the terminal is too narrow: SYN data.",
    ]
    console = Console(width=44, file=io.StringIO(), record=True, highlight=False)
    console.print(table)
    text = console.export_text()
    assert all(figure in text for figure in ("1 ", "28", "5.078", "[-0.6, 25.9]"))
    assert "113" not in text


@pytest.mark.parametrize("width", [80, 100])
def test_a_table_with_many_factors_and_ranges_fits_with_every_figure_whole(width: int) -> None:
    words = ("profile mget", "12 connections a host", "think time x 1")
    columns = [Column(name, "factor") for name in ("profile", "conns", "think", "RTT\nms")]
    columns += [Column(f"PLT\n{name} s") for name in ("off", "off2", "cold", "warm")]
    columns += [Column(f"{arm} saves\n%", short=f"{arm}\nsaves\n%") for arm in ("off2", "cold", "warm")]
    columns += [Column("at\nmost %"), Column("SYN data\nwarm", detail=True), Column("n")]
    rows = [
        (
            *(Entry(word.split()[-1], phrase=word) for word in words),
            Entry(rtt, phrase=f"RTT {rtt} ms"),
            *(Entry(plt) for plt in ("12.345", "12.346", "12.347", "12.348")),
            *(Entry("-10.5", aside=f"[-{low}.4,\N{NO-BREAK SPACE}45.2]") for low in (61, 62, 63)),
            *(Entry(text) for text in ("41.9", "1234/1235", "29-30")),
        )
        for rtt in ("20", "200")
    ]
    grid = Grid("", tuple(columns), tuple(rows))
    table, layout = fitting_table(grid, width)
    console = Console(width=width, file=io.StringIO(), record=True, highlight=False)
    console.print(table)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert max(map(len, lines)) <= width
    text = " ".join(lines)
    below = list(below_table(grid, layout))
    figures = ("12.345", "12.348", "[-61.4,", "[-63.4,", "45.2]", "41.9", "29-30", "200")
    assert all(figure in text for figure in figures)
    if width == 80:
        assert below == [
            f"1: {', '.join(words)}",
            "Left out, since the terminal is too narrow: SYN data warm.",
        ]


def test_long_names_of_pages_go_on_several_lines_before_a_figure_is_cut() -> None:
    columns = [Column("page", "key"), Column("RTT\nms", "factor")]
    columns += [Column(f"PLT\n{name} s") for name in ("off", "cold", "warm")]
    name = "a-very-long-name-of-a-recording-that-somebody-made"
    figures = [Entry(text) for text in ("12.345", "12.346", "12.347")]
    rows = [(Entry(f"{name}-{number}"), Entry("100"), *figures) for number in range(2)]
    table, _ = fitting_table(Grid("", tuple(columns), tuple(rows), grouped=True), 50)
    console = Console(width=50, file=io.StringIO(), record=True, highlight=False)
    console.print(table)
    lines = console.export_text().splitlines()
    assert sum(all(figure in line for figure in ("100", "12.345", "12.347")) for line in lines) == 2
    assert max(map(len, lines)) <= 50


def test_a_table_is_rather_too_wide_than_without_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [Column("RTT\nms", "factor"), *(Column(f"PLT\n{name} s") for name in ("off", "cold", "warm"))]
    figures = ("170", "12.345", "12.346", "12.347")
    table, _ = fitting_table(Grid("", tuple(columns), (tuple(map(Entry, figures)),)), 20)
    written = io.StringIO()
    monkeypatch.setenv("COLUMNS", "40")
    narrow = console()
    narrow.width, narrow.file = 20, written
    narrow.print(table)
    assert all(figure in written.getvalue().splitlines()[-1] for figure in figures)


def test_what_all_rows_have_in_common_is_said_once_above_them() -> None:
    networks = [
        {
            "rtt_us": 20_000,
            "down": {"rate_bit_per_s": 4_000_000, "queue_bytes": 256_000, "loss": loss},
            "up": {"rate_bit_per_s": 256_000, "queue_bytes": 256_000, "loss": loss},
        }
        for loss in (0.0, 0.01)
    ]
    results = virtual_run(networks=networks)
    grid = result_grid(results, "small")
    assert grid.subtitle == "RTT 20 ms; cleartext; 4 Mbit/s down, 256 kbit/s up"
    assert [column.heading[:7] for column in grid.columns][:2] == ["loss %", "PLT off"]
    assert f"small  {grid.subtitle}" in printed(results, 80).splitlines()
    assert escaped(grid.subtitle) in latex([grid])
    # A table with a single row keeps the columns that describe it.
    assert result_grid(virtual_run(), "small").columns[0].heading == "RTT ms"
    # If rows begin with the page, the only network is above the table.
    two = made_up_plan([made_up_page("a"), made_up_page("b")], (20,), 1, engines=["virtual"])
    with RunStore.create(None, two, {}) as store:
        fill(store, two)
        paper = paper_grid(collect(store))
    assert [column.heading[:7] for column in paper.columns][:2] == ["page", "PLT off"]
    assert paper.subtitle.startswith("RTT 20 ms; ")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "All requests of the page are https, and are loaded in cleartext here"),
        (2, "All pages are https, and are loaded in cleartext here (--transports tls,tls+tfo"),
        (9, "All pages are https, and are loaded in cleartext here (--transports tls,tls+tfo"),
    ],
)
def test_pages_of_https_that_are_loaded_in_the_clear_are_no_silent_answer(count: int, said: str) -> None:
    pages = []
    for number in range(count):
        page = made_up_page(f"page{number}")
        secure = json.loads(page.model_dump_json().replace("http://", "https://"))
        pages.append(type(page).model_validate_json(json.dumps(secure)))
    plan = made_up_plan(pages, (20,), repeats=1)
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        results = collect(store)
        text = " ".join(printed(results, 100).split())
    assert "(cleartext, HTTP/1.1)" in summarise_run(results).headline
    assert text.count("are loaded in cleartext here") == 1
    assert said in text
