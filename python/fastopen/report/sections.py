"""Render sections of a report as HTML: all of them into a file, or single ones for `fastopen browse`."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

from markupsafe import Markup

from fastopen.analysis.attribution import RunAnalysis, page_answers, run_answers
from fastopen.analysis.statistics import Results
from fastopen.common.phrases import NBSP, listed
from fastopen.report.corpus import corpus_grids, pages_described_singly
from fastopen.report.embedding import inline_svg
from fastopen.report.figures import Figure
from fastopen.report.findings.surprises import sentences_on_pages
from fastopen.report.method import environment_facts, method_paragraphs
from fastopen.report.published import comparison_sentences, published_grid
from fastopen.report.result_tables import column_notes, detail_grids, first_grids, fixed_rates, paper_grid
from fastopen.report.summary import findings_by_page, summarise_run
from fastopen.report.templates import environment

Part = Literal["verdict", "results", "published", "answers", "evidence", "method"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
# If there are more pages, the subject gives their number instead of their names.
NAMED_PAGES: Final = 4


def part_html(part: Part, analysis: RunAnalysis) -> Markup:
    """Return the HTML of the section `part`, such as `method`, of the report of a run. The HTML is empty if
    the run has nothing to report in this section."""
    return _rendered(part, _CONTENT[part](analysis))


def verdict_html(results: Results) -> Markup:
    """Return the HTML of the section with the verdict. It can be shown first, because it does not need the
    records of single loads, which take time to read."""
    return _rendered("verdict", {"summary": summarise_run(results)})


def _rendered(part: Part, content: Mapping[str, Any] | None) -> Markup:
    if content is None:
        return Markup()
    section = getattr(environment().get_template("sections.html.jinja").module, part)
    return Markup(section(**content))  # noqa: S704  # the template escapes all texts


def _results(analysis: RunAnalysis) -> dict[str, Any]:
    results = analysis.results
    corpus = list(corpus_grids(results))
    names = [] if corpus else list(results.pages)
    findings, shared = findings_by_page(results, names)
    common, grids = first_grids(results, names)
    pages: list[dict[str, Any]] = [
        {"name": name, "grid": grid.main_results_first(), "findings": findings[name]}
        for name, grid in grids.items()
    ]
    if corpus:
        pages = [{"name": f"all {len(results.pages)} pages", "grid": paper_grid(results), "findings": ()}]
    notes = {page["grid"].note for page in pages}
    return {
        "corpus": corpus,
        "sentences": [*filter(None, [common]), *sentences_on_pages(results), *shared],
        "pages": pages,
        "common_note": notes.pop() if len(notes) == 1 else "",
        "columns": " ".join(column_notes(results)),
    }


def _published(analysis: RunAnalysis) -> dict[str, Any] | None:
    grid = published_grid(analysis.results)
    comparison = [line.removeprefix("- ") for line in comparison_sentences(analysis.results)]
    return {"published": grid, "comparison": comparison} if grid.rows else None


_CONTENT: Final[dict[Part, Callable[[RunAnalysis], dict[str, Any] | None]]] = {
    "verdict": lambda analysis: {"summary": summarise_run(analysis.results)},
    "results": _results,
    "published": _published,
    "answers": lambda analysis: {
        "run_answers": run_answers(analysis),
        "pages": [
            {"name": name, "answers": page_answers(analysis, name)}
            for name in pages_described_singly(analysis.results)
        ],
    },
    "evidence": lambda analysis: {"grids": detail_grids(analysis)},
    "method": lambda analysis: {
        "method": list(method_paragraphs(analysis)),
        "facts": environment_facts(analysis),
    },
}


def subject(results: Results) -> str:
    """Return a line that describes the pages, networks and clients of a run, such as `wikipedia-2018; RTT 20
    ms, 20 Mbit/s down; chromium`."""
    pages, experiment = list(results.pages), results.experiment
    rtts = dict.fromkeys(f"{network.rtt_us / 1000:g}" for network in experiment.networks)
    rates = fixed_rates(results)
    clients = dict.fromkeys(setup.client.label for setup in experiment.setups)
    fixed = [phrase for name, phrase in results.factors.fixed().items() if name != "client"]
    parts = (
        listed(pages) if len(pages) <= NAMED_PAGES else f"{len(pages)} pages",
        f"RTT {listed(list(rtts))}{NBSP}ms{f', {rates}' if rates else ''}",
        ", ".join([listed(list(clients)), *fixed]),
    )
    return "; ".join(parts)


def drawn(figure: Figure) -> dict[str, Any]:
    """Return template variables: `figure`, and `svg`, its drawing for print or without scripts."""
    return {"figure": figure, "svg": Markup(inline_svg(figure, figure.name))}  # noqa: S704  # vl-convert escapes
