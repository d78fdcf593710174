"""Figures in several documents come from one file, equal their sources, and are not copied by hand."""

import re
import tomllib
from typing import Final

import pytest

from command_line import fastopen
from generate import FACT
from places import ROOT
from test_limits import documents

FACTS: Final = tomllib.loads((ROOT / "docs" / "facts.toml").read_text())


def test_the_totals_are_those_of_the_table_of_published_cells() -> None:
    (total,) = re.findall(r"^\| all \|(.*)\|$", (ROOT / "docs" / "paper.md").read_text(), re.M)
    cells, base, _, agree, predicted, of_pages, *_ = (figure.strip() for figure in total.split("|"))
    names = ("published_cells", "savings_unsearched", "savings_agree", "savings_predicted")
    assert [FACTS[name] for name in names] == [cells, base, agree, predicted]
    assert FACTS["savings_predicted_pages"] == of_pages


def test_the_reachable_savings_are_those_of_all_tables() -> None:
    texts = ((ROOT / "docs" / name).read_text() for name in ("paper.md", "measurements/published-tables.md"))
    of_tables = re.findall(r"at least (\d+) would agree", "".join(texts))
    assert len(of_tables) == 9
    assert FACTS["savings_reachable"] == str(sum(map(int, of_tables)))


def test_the_audit_finds_as_many_cells() -> None:
    done = fastopen("audit", ROOT / "experiments" / "published.csv")
    assert f"{FACTS['cells_audited']} of {FACTS['published_cells']} cells" in done.stdout


def test_the_example_saves_what_the_picture_shows() -> None:
    figure = FACTS["example_saves"].removesuffix(" %")
    assert f"+{figure}" in (ROOT / "docs" / "images" / "example.svg").read_text()


@pytest.mark.parametrize(
    ("name", "path", "figure"),
    [
        ("replays_without_handshakes", "replays.md", "6.9"),
        ("engines_apart", "engines.md", "3.9"),
    ],
)
def test_a_measured_figure_is_in_its_table(name: str, path: str, figure: str) -> None:
    assert FACTS[name] == f"{figure} %"
    assert figure in (ROOT / "docs" / "measurements" / path).read_text()


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_is_marked_and_not_copied(name: str) -> None:
    texts = {path: path.read_text() for path in documents()}
    assert any(f"<!--fact:{name}-->" in text for text in texts.values())
    # In CommonMark, a line that begins with a comment is HTML and ends the paragraph before it.
    assert [str(path) for path, text in texts.items() if f"\n<!--fact:{name}-->" in text] == []
    if not FACTS[name].isdigit():
        copy = re.compile(rf"(?<![\w.]){re.escape(FACTS[name])}")
        assert [str(path) for path, text in texts.items() if copy.search(FACT.sub("", text))] == []
