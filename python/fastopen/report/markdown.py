"""Write a report as Markdown, for an issue, a wiki or a notebook."""

import re
from collections.abc import Iterable, Iterator

from fastopen.analysis.attribution import RunAnalysis, page_answers, run_answers
from fastopen.common.grid import Grid
from fastopen.report.corpus import pages_described_singly
from fastopen.report.findings.surprises import sentences_on_pages
from fastopen.report.method import environment_facts, method_paragraphs
from fastopen.report.result_tables import all_grids
from fastopen.report.summary import findings_by_page, summarise_run

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")


def escaped(text: str) -> str:
    """Escape text so that Markdown prints it unchanged. List markers (`-`, `+`, `1.`) are not escaped."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return _SPECIAL.sub(r"\\\1", plain)


def markdown(analysis: RunAnalysis) -> str:
    """Return the report of a run as Markdown: verdict, tables, answers, method and environment."""
    return "\n".join(_lines(analysis)).rstrip() + "\n"


def _lines(analysis: RunAnalysis) -> Iterator[str]:
    results, summary = analysis.results, summarise_run(analysis.results)
    yield f"# {escaped(results.experiment.title or results.experiment.name)}"
    verdict = " ".join((summary.headline, *summary.verdict))
    yield f"\n**{escaped(verdict)}** {escaped(' '.join(summary.sentences))}"
    yield "\n## Results"
    findings, shared = findings_by_page(results, list(results.pages))
    yield from (f"\n{escaped(sentence)}" for sentence in (*sentences_on_pages(results), *shared))
    for grid in all_grids(analysis):
        yield from table(grid)
        if grid.title in results.pages:
            yield from (f"\n{escaped(one.sentence)}" for one in findings[grid.title])
    yield "\n## Answers"
    for page in pages_described_singly(results):
        yield f"\n### {escaped(page)}"
        for question, sentences in page_answers(analysis, page).items():
            yield f"\n**{question}** {escaped(' '.join(sentences))}"
    for question, sentences in run_answers(analysis).items():
        yield f"\n### {question}\n\n{escaped(' '.join(sentences))}"
    yield "\n## Method"
    for paragraph in method_paragraphs(analysis):
        yield f"\n{escaped(paragraph)}"
    yield "\n## Environment\n"
    for name, value in environment_facts(analysis):
        yield f"- {escaped(name)}: {escaped(value)}"


def table(grid: Grid) -> Iterator[str]:
    """Yield the lines of a table in Markdown: its title, the rows, and the note below it."""
    yield f"\n### {escaped(grid.title)}\n"
    if grid.subtitle:
        yield f"{escaped(grid.subtitle)}\n"
    yield _row(escaped(column.heading) for column in grid.columns)
    yield _row("---:" if column.kind == "figure" else "---" for column in grid.columns)
    for row in grid.rows:
        yield _row(escaped(str(cell)) for cell in row)
    if grid.note:
        yield f"\n{escaped(grid.note)}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
