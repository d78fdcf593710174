"""Findings of a run are computed once, and every renderer shows all of them."""

import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from rich.console import Console

from fastopen.analysis.attribution import RunAnalysis, analyse_run
from fastopen.analysis.statistics import Results
from fastopen.report import findings, results_document, results_renderables
from fastopen.report.findings import Finding, finders, page_findings
from fastopen.report.markdown import markdown
from fastopen.report.page import html
from fastopen.report.summary import findings_by_page
from fastopen.runs import RunStore
from made_up_run import fill, made_up_page, made_up_plan

PAGE = "made-up"


@pytest.fixture(name="analysis", scope="module")
def _source() -> RunAnalysis:
    setups = [{"tls": {}}, {"tls": {"session": "resumed"}}, {}]
    plan = made_up_plan([made_up_page(PAGE, 6)], (20, 100), repeats=3, setups=setups)
    with RunStore.create(None, plan, {"kernel": "6.18.0", "started": "2026-01-01"}) as store:
        fill(store, plan)
        return analyse_run(store)


class Text(HTMLParser):
    """Collects the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def rendered(analysis: RunAnalysis) -> Iterator[tuple[str, str]]:
    target = Console(file=io.StringIO(), width=100, highlight=False)
    for renderable in results_renderables(analysis.results, target.width):
        target.print(renderable)
    assert isinstance(target.file, io.StringIO)
    yield "terminal", target.file.getvalue()
    yield "markdown", re.sub(r"\\(.)", r"\1", markdown(analysis))
    text = Text()
    text.feed(html(analysis))
    yield "html", " ".join(text.parts)
    sentences = (one["sentence"] for one in results_document(analysis.results)["findings"])
    yield "json", json.dumps(list(sentences), ensure_ascii=False)


def letters(text: str) -> str:
    """Return the text without white space, at which renderers break lines."""
    return re.sub(r"\s", "", text)


def test_all_renderers_show_all_findings(analysis: RunAnalysis) -> None:
    found = list(page_findings(analysis.results, PAGE))
    assert {"verdict", "first_flight"} <= {one.kind for one in found}
    assert all(one.subject == PAGE for one in found)
    for name, text in rendered(analysis):
        missing = [one.kind for one in found if letters(one.sentence) not in letters(text)]
        assert (name, missing) == (name, [])


def test_a_function_is_all_a_finding_takes(analysis: RunAnalysis, monkeypatch: pytest.MonkeyPatch) -> None:
    def new(results: Results, page: str) -> Iterator[Finding]:
        yield Finding("new", f"{page} has {len(results.cells)} new things.")

    monkeypatch.setattr(findings, "finders", lambda: [*finders(), (35, "note", new)])
    sentence = f"{PAGE} has {len(analysis.results.cells)} new things."
    for name, text in rendered(analysis):
        assert letters(sentence) in letters(text), name


@pytest.mark.parametrize(
    ("severity", "sentence", "shared"),
    [
        ("note", "It has new things.", ["One and two: it has new things."]),
        ("note", "One is new.", ["One and two: One is new."]),
        ("note", "Ones are new.", ["One and two: ones are new."]),
        ("warning", "Invalid: off: 1 of 1 load.", []),
    ],
)
def test_a_sentence_on_several_pages_is_told_once_and_names_them_but_a_warning_stays_at_its_page(
    monkeypatch: pytest.MonkeyPatch, severity: str, sentence: str, shared: list[str]
) -> None:
    def new(_results: Results, page: str) -> Iterator[Finding]:
        if page != "three":
            yield Finding("new", sentence)

    plan = made_up_plan([made_up_page(name) for name in ("One", "two", "three")], (20,), repeats=1)
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        results = analyse_run(store).results
    monkeypatch.setattr(findings, "finders", lambda: [(35, severity, new)])
    own, of_several = findings_by_page(results, list(results.pages))
    assert of_several == shared
    assert [len(of_page) for of_page in own.values()] == ([0, 0, 0] if shared else [1, 1, 0])


def test_ranks_differ() -> None:
    ranks = [rank for rank, _, _ in finders()]
    assert len({*ranks}) == len(ranks)
