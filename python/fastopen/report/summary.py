"""Summarise a run for the beginning of a report: the verdict, the saving, the evidence."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

from fastopen.analysis.statistics import CellResult, Effect, Results, Verdict, effect_of
from fastopen.analysis.statistics.protocols import over_quic
from fastopen.common.phrases import gain, listed, plural, span, times
from fastopen.experiments import Arm, treatments_of
from fastopen.report.corpus import middle_pages_sentence
from fastopen.report.findings import Finding, page_findings
from fastopen.report.findings.deciding import deciding_sentences
from fastopen.report.findings.verdict import (
    all_invalid,
    cells_by_question,
    findings_by_question,
    headline,
    invalid_lines,
    of_arm,
    verdict_of,
)
from fastopen.report.published import agreement

# Phrases for the number of cells with each effect.
COUNTED: Final = {
    Effect.REDUCES: "{} with a gain",
    Effect.NONE: "{} without a difference",
    Effect.INCREASES: "{} with a loss",
    Effect.UNCLEAR: "{} uncertain",
    Effect.UNKNOWN: "{} with too few valid repeats",
}


@dataclass(frozen=True)
class Summary:
    """The beginning of a report: the verdict on TFO or, if figures are published, the agreement with them
    (`headline`), its tone (`good`, `bad` or `quiet`), supporting sentences, and key figures."""

    headline: str
    tone: str
    sentences: tuple[str, ...]
    tiles: Mapping[str, str]
    """Maps labels to key figures as strings. Reports show the figures in large type."""


def summarise_run(results: Results) -> Summary:
    """Summarise the run over all pages and networks. The verdict and the key figures are about loads with
    warm TFO cookies, or with cold cookies if the run has no warm ones."""
    arms = treatments_of(results.experiment.arms)
    verdict = headline(results, results.cells)
    published = agreement(results)
    if not arms or over_quic(results, results.cells):
        return Summary(published or verdict, "quiet", (verdict,) if published else (), {})
    questions = cells_by_question(results, results.cells)
    judged = of_arm(results.cells, arms[0])
    verdicts = {found for cells in questions.values() if (found := verdict_of(results, cells)[0])}
    sentences = [verdict] if published else []
    if len(results.pages) > 1:
        told = findings_by_question(results, results.cells, partial(_savings, results, arms))
        sentences += [finding.sentence for finding in told]
    if Verdict.INVALID in verdicts:
        struck = results.cells if all_invalid(results.cells) else judged
        sentences += [line for _, _, line in invalid_lines(results, struck)]
    if connections := sum(cell.connections for cell in judged):
        sent = sum(cell.syn_data_connections for cell in judged)
        visits = f"{judged[0].cell.arm.visit.partition(' (')[0].removeprefix('a ')}s"
        number = f"all {sent:,}" if sent == connections else f"{sent:,} of {connections:,}"
        active = "active" if sent else "not active"
        sentences.append(f"TFO was {active}: {number} connections on {visits} delivered data in the SYN.")
    tone = verdicts.pop().tone if len(verdicts) == 1 else "quiet"
    tiles = _tiles(results, judged, with_savings=len(questions) == 1)
    return Summary(published or verdict, tone, tuple(sentences), tiles)


def other_findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield the findings on `page`. Omit the verdict if the run has no other page: the summary shows it."""
    for one in page_findings(results, page):
        if one.kind != "verdict" or len(results.pages) > 1:
            yield one


def _savings(results: Results, arms: Sequence[Arm], cells: Sequence[CellResult]) -> Iterator[Finding]:
    for arm in arms:
        known = [cell for cell in of_arm(cells, arm) if cell.improvement_percent is not None]
        if known:
            yield Finding("saving", _saving_sentence(results, arm, known, named=arm is arms[0]))
    yield from (Finding("deciding_factor", text) for text in deciding_sentences(results, cells))


def _saving_sentence(results: Results, arm: Arm, cells: Sequence[CellResult], *, named: bool) -> str:
    """Return a sentence on the median saving in `cells`. If `named` is True, also name the median result."""
    medians = [cell.improvement_percent or 0.0 for cell in cells]
    effects = Counter(effect_of(cell, results.experiment.smallest_effect) for cell in cells)
    pages = len({cell.cell.page for cell in cells})
    places = plural(len(cells), "page" if pages == len(cells) else "row")
    counts = [
        words.format("all" if effects[effect] == len(cells) else effects[effect])
        for effect, words in COUNTED.items()
        if effects[effect]
    ]
    differ = named and len({round(saving, 1) for saving in medians}) > 2
    middle = f" {middle_pages_sentence(savings_by_name(results, cells))}" if differ else ""
    return (
        f"On {arm.visit}, page load time is {gain(median(medians))} with TFO in the median of {places}"
        f" ({listed(counts)}).{middle}"
    )


def savings_by_name(results: Results, cells: Sequence[CellResult]) -> dict[str, float]:
    """Map the name of each result to its saving in percent. A name is the page, followed by the network and
    settings if these vary, such as `wiki at 20 ms`. The saving of each result must be known."""
    one_place = len({results.factors.where(cell.cell) for cell in cells}) == 1
    return {
        cell.cell.page + ("" if one_place else f" {results.factors.where(cell.cell)}"): (
            cell.improvement_percent or 0.0
        )
        for cell in cells
    }


def _tiles(results: Results, judged: Sequence[CellResult], *, with_savings: bool) -> dict[str, str]:
    """Map labels, such as `loads valid`, to key figures as text. `with_savings`: include TFO's savings."""
    loads = sum(cell.loads for cell in results.cells)
    tiles: dict[str, str] = {}
    known = [cell for cell in judged if cell.saved_ms is not None]
    if known and with_savings:
        saved = [cell.saved_ms or 0.0 for cell in known]
        tiles["of the page load time saved"] = span([cell.improvement_percent or 0.0 for cell in known], "%")
        tiles["saved a load, in the median"] = times(min(saved), max(saved))
    if connections := sum(cell.connections for cell in known):
        sent = sum(cell.syn_data_connections for cell in known)
        tiles["connections sent data in the SYN"] = f"{sent:,} of {connections:,}"
    return {**tiles, "loads valid": f"{loads - sum(cell.invalid for cell in results.cells):,} of {loads:,}"}
