"""Figures: their data, drawing in every format, and their common style."""

import errno
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fastopen.analysis.attribution import RunAnalysis, analyse_run, request_label
from fastopen.analysis.attribution.cold import cold_requests
from fastopen.analysis.statistics import CellResult
from fastopen.cli.app import app
from fastopen.common.errors import InputError, MachineError
from fastopen.experiments import ARMS, Plan
from fastopen.report.figures import (
    FORMATS,
    PAGE,
    Figure,
    Format,
    load_figures,
    median_loads,
    overview_figures,
    rendered,
    slug_of,
    write_figures,
)
from fastopen.report.figures import figure as figure_module
from fastopen.report.figures.distribution import GROUPS, distribution
from fastopen.report.figures.lines import median_span
from fastopen.report.figures.panels import columns_of
from fastopen.report.figures.style import KIND_COLOURS
from fastopen.report.result_tables import cold_grid
from fastopen.runs import RunStore
from made_up_run import fill, made_up_page, made_up_plan, made_up_run

pytestmark = pytest.mark.slow

PAGES = [made_up_page("small", 6), made_up_page("large", 30)]
SIGNATURES: dict[Format, bytes] = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}


def source_of(plan: Plan) -> RunAnalysis:
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        return analyse_run(store)


def named(figures: Sequence[Figure], name: str) -> Figure:
    return next(figure for figure in figures if figure.name == name)


def rows_of(figure: Figure) -> list[dict[str, Any]]:
    return [dict(row) for row in figure.spec()["data"]["values"]]


def test_a_run_over_several_rtts_has_its_figures() -> None:
    names = [figure.name for figure in overview_figures(source_of(made_up_plan(PAGES)))]
    assert names == ["improvement", "plt-by-rtt", "critical-path", "cold-requests", "distribution"]


def test_a_sweep_of_rates_is_drawn_along_the_rate_as_well() -> None:
    analysis = source_of(made_up_plan(PAGES[:1], (20, 100), rates_mbit=(1, 4, 8)))
    rows = rows_of(named(overview_figures(analysis), "plt-by-down"))
    assert {row["panel"] for row in rows} == {"20 ms", "100 ms"}
    assert {row["x"] for row in rows} == {1, 4, 8}


def test_round_trips_are_drawn_over_sizes_of_certificates() -> None:
    setups = [
        {"tls": {"chain_bytes": size, "session": session}}
        for session in ("none", "resumed")
        for size in range(1000, 9000, 1000)
    ]
    free = {"rate_bit_per_s": None, "queue_bytes": None}
    network = {"rtt_us": 100_000, "down": free, "up": free}
    plan = made_up_plan(PAGES[:1], (100,), setups=setups, networks=[network])
    figure = named(overview_figures(source_of(plan)), "certificate-sizes")
    rows = rows_of(figure)
    assert {row["bytes"] for row in rows} == {*range(1000, 9000, 1000)}
    assert len({row["panel"] for row in rows}) == 2


def test_versions_are_categories_that_no_line_joins() -> None:
    setups = [{"tls": {}, "origins": {"http": http}} for http in ("1.1", "2", "3")]
    analysis = source_of(made_up_plan(PAGES[:1], (100,), setups=setups))
    figure = named(overview_figures(analysis), "plt-by-http")
    assert list(dict.fromkeys(row["x"] for row in rows_of(figure))) == ["1.1", "2", "3"]
    (panel,) = figure.spec()["concat"]
    assert {layer["encoding"]["x"]["type"] for layer in panel["layer"]} == {"nominal"}
    assert not any(layer["mark"]["type"] == "line" for layer in panel["layer"])


def test_over_one_network_there_is_no_line_to_draw() -> None:
    names = [figure.name for figure in overview_figures(source_of(made_up_plan(PAGES, (20,))))]
    assert "plt-by-rtt" not in names
    assert "improvement" in names


def test_the_bars_are_the_improvements_of_the_table() -> None:
    analysis = source_of(made_up_plan(PAGES[:1], (100,), repeats=8))
    rows = rows_of(named(overview_figures(analysis), "improvement"))
    warm = next(row for row in rows if "warm" in row["arm"])
    cell = next(cell for cell in analysis.results.cells if cell.cell.arm.name == "warm")
    assert warm["gain"] == cell.improvement_percent
    assert (warm["low"], warm["high"]) == cell.improvement_ci95


def test_the_ladder_of_first_flights_has_a_rung_for_each_session_and_version_and_each_bound() -> None:
    def tls(http: str, session: str) -> dict[str, Any]:
        return {"tls": {"session": session, "key_share": "x25519"}, "origins": {"http": http}}

    setups = [tls(http, session) for http in ("1.1", "2", "3") for session in ("none", "early")]
    analysis = source_of(made_up_plan(PAGES[:1], (100,), setups=setups))
    rows = rows_of(named(overview_figures(analysis), "first-flights"))
    assert list(dict.fromkeys(row["flight"] for row in rows)) == [
        f"HTTP/{http} {session}" for http in ("1.1", "2", "3") for session in ("full", "early")
    ]
    of_quic = [row for row in rows if row["flight"].startswith("HTTP/3")]
    assert {row["arm"] for row in of_quic} == {"no TFO"}
    savings = analysis.results.flight_savings
    bounds = {saving.bound.plt_ms - saving.bound.ms for saving in savings.values()}
    assert {row["least"] for row in rows} - {None} == {least_ms / 1000 for least_ms in bounds}
    alone = overview_figures(source_of(made_up_plan(PAGES[:1], (100,), setups=setups[:1])))
    assert "first-flights" not in [figure.name for figure in alone]


def test_stacked_pieces_add_up_to_the_mean_page_load_time() -> None:
    analysis = source_of(made_up_plan(PAGES[:1], (100,)))
    rows = rows_of(named(overview_figures(analysis), "critical-path"))
    for bar in {row["bar"] for row in rows}:
        pieces = sum(row["seconds"] for row in rows if row["bar"] == bar)
        index = next(cell.cell.index for cell in analysis.results.cells if bar.endswith(_word(cell)))
        assert pieces == pytest.approx(analysis.attribution.breakdowns[index].plt_ms / 1000, rel=0.01)


def _word(cell: CellResult) -> str:
    return "no TFO" if cell.cell.arm.name == "off" else cell.cell.arm.name


def test_a_waterfall_has_every_request_of_both_loads_and_the_path_through_them() -> None:
    analysis = source_of(made_up_plan(PAGES[1:], (100,)))
    timing, waterfall = load_figures(analysis)
    rows = rows_of(waterfall)
    assert {row["arm"] for row in rows} == {"no TFO", "TFO, warm cookies"}
    drawn = [row for row in rows if row["what"] == "piece"]
    assert {row["request"] for row in drawn} == set(range(30))
    path = [row for row in rows if row["what"] == "path" and row["arm"] == "no TFO"]
    assert sum(row["end"] - row["start"] for row in path) == pytest.approx(max(row["end"] for row in path))
    (event,) = (row for row in rows if row["what"] == "load event" and row["arm"] == "no TFO")
    assert event["end"] == pytest.approx(max(row["end"] for row in path))
    assert sum(row["what"] == "request" for row in rows_of(timing)) == 2 * 30


def test_a_traced_load_has_a_figure_of_its_connections_over_time() -> None:
    plan = made_up_plan(PAGES[1:], (100,))
    jobs = (replace(one, job=one.job.model_copy(update={"tcp_trace": True})) for one in plan.jobs)
    analysis = source_of(replace(plan, jobs=tuple(jobs)))
    figure = list(load_figures(analysis))[-1]
    rows = rows_of(figure)
    assert rendered(figure, "svg")
    (shown, *_) = (shown for _, _, arms in median_loads(analysis) for shown in arms.values())
    traced = [one for one in shown.record.connections if one.origin_samples]
    first = [row for row in rows if row["connection"] == f"{traced[0].id} {traced[0].host}"]
    assert {row["quantity"]: row["value"] for row in first} == {
        "congestion window, kB": 14.48,
        "bytes in flight, kB": 5.792,
        "smoothed RTT, ms": 100.0,
    }
    assert {row["at"] for row in rows} == {105.0}


@pytest.mark.parametrize("form", FORMATS)
def test_every_figure_can_be_drawn(form: Format) -> None:
    analysis = source_of(made_up_plan(PAGES[:1], (20, 100), rates_mbit=(1, 4)))
    for figure in [*overview_figures(analysis), *islice(load_figures(analysis), 2)]:
        assert SIGNATURES[form] in rendered(figure, form)[:400], figure.name


def test_in_a_page_a_figure_takes_the_colour_of_its_text() -> None:
    figure = overview_figures(source_of(made_up_plan(PAGES[:1])))[0]
    svg = rendered(figure, "svg", PAGE).decode()
    assert "currentColor" in svg
    assert 'fill="white"' not in svg


def test_one_command_writes_all_figures(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", made_up_plan(PAGES[:1], (20, 100)))
    said = CliRunner().invoke(app, ["figures", str(run), "-o", str(tmp_path / "f"), "--format", "svg"])
    assert said.exit_code == 0, said.output
    names = sorted(path.name for path in (tmp_path / "f").iterdir())
    assert "improvement.svg" in names
    assert "waterfall-small-100-ms.svg" in names
    assert len(names) == 5 + 2 * 2


def test_an_unknown_format_and_a_folder_that_is_a_file_are_named(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", made_up_plan(PAGES[:1]))
    said = CliRunner().invoke(app, ["figures", str(run), "-o", str(tmp_path), "--format", "gif"])
    assert isinstance(said.exception, InputError)
    assert "unknown format 'gif'" in str(said.exception)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; give a folder"):
        write_figures([], tmp_path / "file", ["svg"])


@pytest.mark.parametrize("existed", [False, True])
def test_a_full_disk_leaves_no_empty_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existed: bool
) -> None:
    def full(_path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(figure_module, "write_atomic", full)
    folder = tmp_path / "figures"
    if existed:
        folder.mkdir()
    with pytest.raises(MachineError):
        write_figures(overview_figures(source_of(made_up_plan(PAGES[:1])))[:1], folder, ["svg"])
    assert folder.exists() is existed


def test_pages_whose_names_are_one_file_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    figure = overview_figures(source_of(made_up_plan(PAGES[:1])))[0]
    written = write_figures([figure, figure], tmp_path, ["svg"])
    assert [path.name for path in written] == ["improvement.svg", "improvement-2.svg"]


@given(st.text())
def test_a_slug_of_any_text_is_a_file_name(text: str) -> None:
    slug = slug_of(text)
    assert slug
    assert all(letter.isascii() and (letter.isalnum() or letter == "-") for letter in slug)


def test_a_long_name_of_a_request_is_cut() -> None:
    page = made_up_page("p", 1)
    long = page.resources[0].model_copy(update={"url": "http://a.test/" + "x" * 99 + "?q"})
    name = request_label(page.model_copy(update={"resources": (long,)}), 0)
    assert name == "0 " + "x" * 25 + "…"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=1200))
def test_the_interval_of_a_median_holds_the_median(values: list[float]) -> None:
    ordered = sorted(values)
    span = median_span(ordered)
    assert (span is None) == (len(ordered) < 6)
    if span is not None:
        middle = ordered[len(ordered) // 2]
        assert span[0] <= middle <= span[1]


def test_the_interval_of_a_median_is_that_of_the_tables() -> None:
    # Tables of David and Nagaraja: for n = 10 the 2nd and 9th value, for n = 20 the 6th and 15th.
    assert median_span(list(range(1, 11))) == (2, 9)
    assert median_span(list(range(1, 21))) == (6, 15)


def test_a_distribution_is_thinned_but_keeps_both_ends() -> None:
    points = distribution([float(value) for value in range(1000)])
    assert len(points) <= 201
    assert points[0][0] == 0
    assert points[-1] == (999, 1.0)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", [[arm.colour for arm in ARMS.values()], list(KIND_COLOURS.values())])
def test_no_two_colours_of_a_legend_are_the_same(colours: list[str]) -> None:
    assert len(set(colours)) == len(colours)


def test_what_stands_side_by_side_in_a_bar_differs_in_brightness_too() -> None:
    drawn = [KIND_COLOURS[kind] for kind in KIND_COLOURS if kind not in ("name look-up", "queueing")]
    for one, other in combinations(drawn, 2):
        bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) > 1.15, (one, other)


def test_figures_need_no_network() -> None:
    """vl-convert reads only the specification, which must not name a file or a host."""
    spec = json.dumps(overview_figures(source_of(made_up_plan(PAGES[:1])))[0].spec())
    assert "http" not in spec.replace("https://vega.github.io/schema/vega-lite/v6", "")


def test_many_settings_are_small_multiples_against_what_decides() -> None:
    analysis = source_of(made_up_plan(PAGES, (20, 100), rates_mbit=(1, 4)))
    rows = rows_of(named(overview_figures(analysis), "improvement"))
    assert {row["x"] for row in rows} == {"20", "100"}
    assert {row["panel"] for row in rows} == {
        f"{page.name}, {rate} Mbit/s down" for page in PAGES for rate in (1, 4)
    }
    assert {row["place"] for row in rows} >= {"20 ms, 1 Mbit/s down"}


def test_the_panels_of_a_page_fill_rows_of_their_own() -> None:
    def rows(pages: int, each: int) -> list[dict[str, str]]:
        return [{"page": str(page), "panel": f"{page} {n}"} for page in range(pages) for n in range(each)]

    assert columns_of(rows(1, 9), 170) == 3
    assert columns_of(rows(3, 4), 170) == 2
    assert columns_of(rows(4, 1), 170) == 3
    assert columns_of(rows(1, 1), 600) == 1


def test_cold_requests_are_those_that_waited_for_a_handshake_and_the_table_has_the_same_figures() -> None:
    analysis = source_of(made_up_plan(PAGES, (20, 100)))
    found = cold_requests(analysis)
    assert [one.place for one in found] == ["20 ms", "100 ms"]
    for one in found:
        waited = [(took, waited) for took, waited in one.times_ms if waited]
        assert len(one.times_ms) == sum(len(page.resources) for page in PAGES)
        assert all(0 < waited < took for took, waited in waited)
        assert sum(one.cold_ms) - sum(one.without_ms) == pytest.approx(sum(part for _, part in waited))
        assert one.interval is not None
        assert one.interval[0] <= one.share <= one.interval[1]
    rows = rows_of(named(overview_figures(analysis), "cold-requests"))
    assert {row["group"] for row in rows} == set(GROUPS)
    assert max(row["ms"] for row in rows if row["panel"] == "20 ms") == max(found[0].all_ms)
    grid = cold_grid(analysis)
    assert grid is not None
    assert [row[-2].value for row in grid.rows] == [one.share for one in found]
