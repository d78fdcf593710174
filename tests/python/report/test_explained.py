"""The report of a search for a rig, as an HTML page and as tables. All times are made up."""

import json
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from fastopen.cli.app import app
from fastopen.common.errors import InputError
from fastopen.common.terminal import fitting_table
from fastopen.experiments import PublishedCell, load_rigs
from fastopen.report.explained import cells_grid, disagreeing_cells_grid, properties_grid
from fastopen.report.explained_page import ALONE, WITHOUT, cells_by_property, explained_html
from fastopen.workflows.explained import Explained, Tried, sourced_rig
from fastopen.workflows.predicted import CellTimes

SPACE = load_rigs("cs244-2015")
CELLS = SPACE.base_cells()
FIRST = SPACE.properties[0]
EVIL = '</style><script>alert(1)</script><img src=x onerror="alert(1)">'


def tried(rig: tuple[int, ...], agreeing: int) -> Tried:
    """Return a rig with the published savings in the first `agreeing` cells, and with savings that are ten
    percentage points smaller in the others."""

    def times(number: int, cell: PublishedCell) -> CellTimes:
        points = 0 if number < agreeing else -10
        return CellTimes(cell.off_ms, cell.off_ms * (1 - (cell.improvement_percent + points) / 100))

    of_cells = {cell: times(number, cell) for number, cell in enumerate(CELLS)}
    return Tried(tuple(SPACE.properties[number] for number in rig), of_cells, frozenset())


@pytest.fixture(name="found")
def _found() -> Explained:
    sourced = tuple(map(SPACE.properties.index, sourced_rig(SPACE)))
    rigs = (tried((), 0), tried((0,), 2), tried((1,), 1), tried(sourced, 0))
    return Explained(SPACE, CELLS, rigs, {}, 7)


def test_tables_have_the_figures_of_the_search(found: Explained) -> None:
    assert [row[-1].text for row in cells_grid(found).rows] == ["best", "best", "-"]
    rows = {str(row[1]): row for row in properties_grid(found).rows}
    alone, without, predicted = (entry.value for entry in rows[f"{FIRST.value} *"][2:5])
    assert (alone, without) == (2, -2)
    # Both rigs with the first cell agree alike without the second one, and the mean of their savings is 5
    # points off.
    assert predicted == found.predicted_gained(FIRST) == 1
    assert [entry.value for entry in rows[SPACE.properties[2].value][2:5]] == [None, None, 0]
    # All cells are of one page. Without it, no figure tells which rig is right.
    assert (found.predicted, found.predicted_pages) == (1, 0)
    (disagreeing,) = disagreeing_cells_grid(found).rows
    assert "no rig tried reaches it (4 of 128)" in disagreeing[-1].text


@pytest.mark.parametrize("width", [80, 100])
def test_tables_fit_a_terminal(found: Explained, width: int) -> None:
    for grid in (cells_grid(found), properties_grid(found), disagreeing_cells_grid(found)):
        table, layout = fitting_table(grid, width)
        assert not layout.bare
        assert sum(column.min_width or 0 for column in table.columns) < width


def test_the_figure_has_each_property_alone_and_without_it(found: Explained) -> None:
    figure = cells_by_property(found)
    assert figure is not None
    of_first = {row["rig"]: row["cells"] for row in figure.rows if row["source"] == FIRST.source}
    assert of_first == {ALONE: 2, WITHOUT: 0}
    assert cells_by_property(replace(found, space=replace(SPACE, properties=()))) is None


def test_the_page_escapes_whatever_a_foreign_rig_declares(found: Explained) -> None:
    evil = FIRST.model_copy(update={"name": EVIL, "value": EVIL, "source": EVIL})
    space = replace(SPACE, base=SPACE.base.model_copy(update={"title": EVIL, "source": EVIL, "name": EVIL}))
    space = replace(space, properties=(evil, *SPACE.properties[1:]))
    rigs = tuple(
        replace(one, rig=tuple(evil if other == FIRST else other for other in one.rig)) for one in found.tried
    )
    text = explained_html(replace(found, space=space, tried=rigs))
    assert "<script" not in text
    assert "<img" not in text
    assert "script-src 'none'" in unescape(text)
    svg = text[text.index("<svg") : text.index("</svg>") + len("</svg>")]
    assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_the_command_writes_the_page_into_the_folder_that_it_is_given(
    found: Explained, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fastopen.cli.commands.reproduce.estimate", lambda *_, **__: (True, 1.0))
    monkeypatch.setattr("fastopen.cli.commands.reproduce.explain", lambda *_, **__: found)
    folder = tmp_path / "new"
    asked = ["reproduce", "cs244-2015", "--explain", "--json", "-o", str(folder)]
    assert isinstance(CliRunner().invoke(app, asked).exception, InputError), "-o is the folder of --report"
    said = CliRunner().invoke(app, [*asked, "--report"])
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["properties"][0]["cells_predicted"] == found.predicted_gained(FIRST)
    (path,) = folder.iterdir()
    assert path.name == "cs244-2015-explained.html"
    assert path.read_text() == explained_html(found)
