"""The bars of page load times, and the line that a run ends with."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import fastopen
from fastopen.analysis.statistics import CellResult, Results, collect
from fastopen.report.summary import summarise_run
from fastopen.report.terminal_bars import BLANK, bar, bars
from fastopen.runs import RunStore
from made_up_run import made_up_page, made_up_plan, made_up_run


@pytest.fixture(name="results", scope="module")
def _results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    plan = made_up_plan([made_up_page("one")], repeats=3)
    with RunStore.open(made_up_run(tmp_path_factory.mktemp("run") / "kept", plan)) as store:
        return collect(store)


def dots(text: str) -> list[int]:
    """Return the number of dots in each column."""
    bits = [ord(letter) - BLANK for letter in text]
    return [(bit & half).bit_count() for bit in bits for half in (0x47, 0xB8)]


def with_loads(cell: CellResult, *plts_ms: float) -> CellResult:
    return replace(cell, plts_ms=dict(enumerate(plts_ms)), plt_ms_median=sorted(plts_ms)[len(plts_ms) // 2])


def test_a_bar_is_as_long_as_its_median_and_has_a_mark_for_each_load(results: Results) -> None:
    cell = with_loads(results.cells[0], 40, 50, 100)
    assert dots(bar(cell, 100, 10, "utf-8")) == [1] * 7 + [4, 1, 4] + [0] * 9 + [4]
    assert bar(cell, 100, 10, "ascii") == "---||    |"


def test_every_cell_has_a_rung_that_fits_the_terminal(results: Results) -> None:
    for width in (60, 80, 200):
        title, *rungs = [line.plain for line in bars(results, width)]
        assert title == "one: page load time"
        assert len(rungs) == len(results.cells)
        assert {len(rung) for rung in rungs} == {width}
    assert [rung.split()[0] for rung in rungs] == ["20", "cold", "warm", "100", "cold", "warm"]


def test_a_cell_without_a_valid_load_has_no_bar(results: Results) -> None:
    lost = replace(results.cells[1], plts_ms={}, plt_ms_median=None, improvement_percent=None)
    shown = [line.plain for line in bars(replace(results, cells=[results.cells[0], lost]), 80)]
    assert shown[2].split() == ["cold", chr(BLANK) * len(shown[2].split()[1]), "-"]
    assert list(bars(replace(results, cells=[lost]), 80)) == []


def test_the_verdict_has_the_saving_of_each_visit(results: Results) -> None:
    summary = summarise_run(results)
    line = " ".join((summary.headline, *summary.verdict))
    assert line.startswith("TFO is worth turning on for this page (cleartext, HTTP/1.1): on a repeat visit")
    assert re.search(r" it saves \d.*75\s% .* On a first visit it (saves|adds) \d", line)


def test_a_run_begins_with_its_verdict_and_ends_with_where_to_look(
    fake_world: Callable[..., Path], tmp_path: Path
) -> None:
    fake_world()
    command = ("run", "example", "--engine", "host", "--rtt", "20ms", "--repeats", "3", "--plot")
    done = fastopen(*command, "-o", tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    last = done.stderr.splitlines()[-1]
    first = done.stdout.splitlines()[0]
    assert first.startswith("TFO is worth turning on for this page (cleartext, HTTP/1.1): on a")
    assert "\N{NO-BREAK SPACE}" not in first
    assert last.endswith(f"fastopen report {tmp_path / 'kept'}")
    assert "example: page load time" in done.stdout
    again = fastopen("show", tmp_path / "kept", "--plot")
    assert again.stdout == done.stdout
    assert "where the time went" not in fastopen(*command, "-o", tmp_path / "kept", "--quiet").stderr
