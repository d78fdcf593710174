"""Choosing pages of a corpus by their properties, and random samples of pages."""

import csv
import warnings
from pathlib import Path

import pytest

from command_line import fastopen
from fastopen.common.errors import InputError
from fastopen.pages import Choice, page_json
from fastopen.pages.conditions import LENGTH_MAX, Condition
from fastopen.pages.corpus import COLUMNS, KINDS, corpus_files, load_chosen, page_properties, read_index
from fastopen.pages.library import LeftOutWarning
from made_up_run import made_up_page

FACTS = {
    **{name: 3 if kind == "number" else name for name, kind in KINDS.items()},
    "connections": 21,
    "hosts": 9,
}


def meets(text: str) -> bool:
    return Condition(text, KINDS)(FACTS)


def refused(text: str) -> str:
    with pytest.raises(InputError) as error:
        Condition(text, KINDS)
    return str(error.value)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Write ten pages of 2 to 20 requests in nested folders, and a truncated file. Return the folder."""
    for number in range(10):
        page = made_up_page(f"page-{number}", requests=2 * (number + 1))
        place = tmp_path / "corpus" / f"part{number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"page-{number}.page.json").write_text(page_json(page))
    (tmp_path / "corpus" / "torn.har").write_text('{"log": {"entries": [')
    return tmp_path / "corpus"


def names(folder: Path, where: str = "", sample: int | None = None, seed: int = 0) -> list[str]:
    choice = Choice(where=where, sample=sample, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [one.page.name for one in load_chosen([folder], choice, processes=1)]


def write_index(folder: Path, index: Path) -> None:
    done = fastopen("page", "index", str(folder), "-o", str(index), "-j", "1", "-q")
    assert done.returncode == 1, "the torn file is named"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("connections>20 and hosts<50", True),
        ("connections > 21", False),
        ("10 < connections <= 21", True),
        ("not (hosts == 9 or requests > 100)", False),
        ("connections / hosts > 2.3 and -hosts < 0", True),
        ("'age' in page and url != 'x'", True),
        ("bytes_down / (redirects - 3) > 0 or bytes_down / (redirects - 3) <= 0", False),
    ],
)
def test_a_condition_is_worked_out_over_the_facts_of_a_page(text: str, *, expected: bool) -> None:
    assert meets(text) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("conections > 20", "unknown page property 'conections'; did you mean connections?"),
        ("Hosts > 20", "did you mean hosts?"),
        ("zzz > 20", "use file, page, url"),
        ("hosts > 'a'", "hosts is a number and 'a' is a text"),
        ("hosts", "hosts is a number, not a condition"),
        ("hosts = 4", "== compares"),
        ("hosts >", "cannot be understood"),
        ("hosts < (1 < 2)", "cannot be compared in this way"),
        ("1 in hosts", "cannot be compared in this way"),
        ("(hosts > 1) + 2 > 1", "is a condition, not a number"),
        ("True", "unsupported expression"),
        ("__import__('os').system('false')", "unsupported expression"),
        ("page.__class__ == page", "unsupported expression"),
        ("hosts ** 9 > 1", "unsupported expression"),
        ("[x for x in page] == page", "unsupported expression"),
        ("f'{hosts}' == page", "unsupported expression"),
        ("hosts > 1\0", "cannot be understood"),
        ("(" * 900 + "hosts" + ")" * 900, "cannot be understood"),
        ("hosts>1 or " * LENGTH_MAX, "longer than"),
    ],
)
def test_what_is_no_condition_is_refused_in_one_line(text: str, words: str) -> None:
    message = refused(text)
    assert words in message
    assert message.startswith("--where: ")
    assert "\n" not in message


def test_pages_are_chosen_by_their_facts_and_damaged_files_named(corpus: Path) -> None:
    with pytest.warns(UserWarning, match=r"left out: .*torn\.har"):
        found = load_chosen([corpus], Choice(where="requests > 12"), processes=1)
    assert sorted(one.page.name for one in found) == ["page-6", "page-7", "page-8", "page-9"]


def test_the_same_seed_draws_the_same_pages_wherever_they_are(corpus: Path) -> None:
    drawn = names(corpus, sample=4, seed=5)
    assert len(drawn) == 4
    assert drawn == names(corpus.rename(corpus.with_name("elsewhere")), sample=4, seed=5)


def test_a_larger_sample_has_all_of_a_smaller_one_and_another_seed_draws_others(corpus: Path) -> None:
    drawn = {seed: names(corpus, sample=4, seed=seed) for seed in range(4)}
    assert set(drawn[0]) < set(names(corpus, sample=7))
    assert len({tuple(one) for one in drawn.values()}) > 1
    assert len(names(corpus, sample=99)) == 10


def test_an_index_chooses_as_its_folder_does_and_reads_the_chosen_files_alone(
    corpus: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index.csv"
    write_index(corpus, index)
    chosen = names(index, "requests > 4", sample=3, seed=2)
    assert chosen == names(corpus, "requests > 4", sample=3, seed=2)
    for file in corpus.rglob("*.page.json"):
        if file.name.removesuffix(".page.json") not in chosen:
            file.write_text("no page")
    assert names(index, "requests > 4", sample=3, seed=2) == chosen
    assert [one.page.name for one in load_chosen([index], Choice(where=f"page == '{chosen[0]}'"))] == chosen[
        :1
    ]


def test_a_file_that_has_changed_since_it_was_indexed_is_named(corpus: Path, tmp_path: Path) -> None:
    index = tmp_path / "index.csv"
    write_index(corpus, index)
    changed = next(corpus.rglob("page-3.page.json"))
    changed.write_text(page_json(made_up_page("page-3", requests=3)))
    with pytest.raises(InputError, match=r"page-3\.page\.json: has changed since it was indexed"):
        load_chosen([index], None)
    with pytest.warns(UserWarning, match="left out"):
        assert len(load_chosen([index], None, lenient=True)) == 9


def test_names_that_a_spreadsheet_would_take_for_formulas_come_back_from_an_index(tmp_path: Path) -> None:
    folder, index = tmp_path / "corpus", tmp_path / "index.csv"
    folder.mkdir()
    (folder / "a.page.json").write_text(page_json(made_up_page("=1+1")))
    assert fastopen("page", "index", str(folder), "-o", str(index), "-j", "1", "-q").returncode == 0
    assert "'=1+1" in index.read_text()
    assert [one.properties["page"] for one in read_index(index)] == ["=1+1"]
    assert names(index) == ["=1+1"]


def test_an_index_without_a_column_or_with_nonsense_in_one_is_refused(tmp_path: Path) -> None:
    facts = page_properties(made_up_page("a"), Path("a.page.json"))
    index = tmp_path / "index.csv"
    for columns, value, words in (
        (COLUMNS[:-1], 3, "lacks the column digest"),
        (COLUMNS, "many", "line 2: hosts is 'many'"),
    ):
        with index.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerow({**facts, "hosts": value})
        with pytest.raises(InputError, match=words):
            names(index)


def test_packaged_pages_are_chosen_by_their_facts_as_well() -> None:
    found = load_chosen(["example", "one-request"], Choice(where="requests == 1"))
    assert [one.page.name for one in found] == ["one-request"]
    with pytest.raises(InputError, match="'requests > 1000' matches no page"):
        load_chosen(["example", "one-request"], Choice(where="requests > 1000"))


def test_a_page_that_is_given_twice_counts_once(corpus: Path) -> None:
    file = next(one for one in corpus_files([corpus]) if one.name != "torn.har")
    again = file.parent / ".." / file.parent.name / file.name
    with pytest.warns(LeftOutWarning, match="given twice") as told:
        found = load_chosen([file, "example", again, "example"], None)
    assert len(told) == len(found) == 2
