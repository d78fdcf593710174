"""Summarise a run for the beginning of a report: the verdict, the saving, the evidence."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

from fastopen.analysis.statistics import CellResult, Effect, Results, Verdict, effect_of
from fastopen.analysis.statistics.protocols import over_quic
from fastopen.common.grouping import grouped
from fastopen.common.phrases import ends, listed, plural, times
from fastopen.experiments import Arm, treatments_of
from fastopen.report.findings import Finding, page_findings
from fastopen.report.findings.deciding import deciding_sentences
from fastopen.report.findings.verdict import (
    after_colon,
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
    Effect.REDUCES: "{} faster",
    Effect.NONE: "{} without a difference",
    Effect.INCREASES: "{} slower",
    Effect.UNCLEAR: "{} uncertain",
    Effect.UNKNOWN: "{} with too few valid repeats",
}


@dataclass(frozen=True)
class Summary:
    """The beginning of a report: the verdict or the agreement with published figures (`headline`), its tone
    (`good`, `bad` or `quiet`), the rest of the verdict, supporting sentences, and key figures."""

    headline: str
    tone: str
    verdict: tuple[str, ...]
    sentences: tuple[str, ...]
    tiles: Mapping[str, str]
    """Maps labels to key figures as strings. Reports show the figures in large type."""


def summarise_run(results: Results) -> Summary:
    """Summarise the run over all pages and networks. The verdict and the key figures are about loads with
    warm TFO cookies, or with cold cookies if the run has no warm ones."""
    arms = treatments_of(results.experiment.arms)
    opening, *rest = (*filter(None, [agreement(results)]), *headline(results, results.cells))
    if not arms or over_quic(results, results.cells):
        return Summary(opening, "quiet", tuple(rest), (), {})
    questions = cells_by_question(results, results.cells)
    judged = of_arm(results.cells, arms[0])
    verdicts = {found for cells in questions.values() if (found := verdict_of(results, cells)[0])}
    told = findings_by_question(results, results.cells, partial(_savings, results, arms))
    sentences = [finding.sentence for finding in (told if len(results.pages) > 1 else ())]
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
    return Summary(opening, tone, tuple(rest), tuple(sentences), tiles)


def findings_by_page(results: Results, pages: Sequence[str]) -> tuple[dict[str, list[Finding]], list[str]]:
    """Return the findings to report below the table of each page, and sentences that hold for several pages,
    each once with the names of its pages. Warnings stay below the table of their page. Omit what the summary
    and `sentences_on_pages` report."""
    told = {"verdict", "hello_beyond_syn"} if len(pages) > 1 else {"verdict"}
    of_page = {page: [one for one in page_findings(results, page) if one.kind not in told] for page in pages}
    subjects = grouped(
        (one.sentence, page) for page, found in of_page.items() for one in found if one.severity != "warning"
    )
    named = {sentence: list(dict.fromkeys(names)) for sentence, names in subjects.items()}
    shared = {sentence: names for sentence, names in named.items() if len(names) > 1}
    own = {page: [one for one in found if one.sentence not in shared] for page, found in of_page.items()}
    return own, [
        sentence if len(names) == len(pages) else f"{listed(names)}: {after_colon(results, sentence)}"
        for sentence, names in shared.items()
    ]


def _savings(results: Results, arms: Sequence[Arm], cells: Sequence[CellResult]) -> Iterator[Finding]:
    for arm in arms:
        known = [cell for cell in of_arm(cells, arm) if cell.improvement_percent is not None]
        if known:
            yield Finding("saving", _saving_sentence(results, arm, known))
    yield from (Finding("deciding_factor", text) for text in deciding_sentences(results, cells))


def _saving_sentence(results: Results, arm: Arm, cells: Sequence[CellResult]) -> str:
    saving = median(cell.improvement_percent or 0.0 for cell in cells)
    effects = Counter(effect_of(cell, results.experiment.smallest_effect) for cell in cells)
    pages = len({cell.cell.page for cell in cells})
    places = plural(len(cells), "page" if pages == len(cells) else "row")
    counts = [
        words.format("all" if effects[effect] == len(cells) else effects[effect])
        for effect, words in COUNTED.items()
        if effects[effect]
    ]
    return f"On {arm.visit}, the median saving over {places} is {ends([saving])} ({listed(counts)})."


def _tiles(results: Results, judged: Sequence[CellResult], *, with_savings: bool) -> dict[str, str]:
    """Map labels, such as `loads valid`, to key figures as text. `with_savings`: include TFO's savings."""
    loads = sum(cell.loads for cell in results.cells)
    tiles: dict[str, str] = {}
    known = [cell for cell in judged if cell.saved_ms is not None]
    if known and with_savings:
        saved = [cell.saved_ms or 0.0 for cell in known]
        tiles["of page load time saved"] = ends([cell.improvement_percent or 0.0 for cell in known])
        tiles["saved a load, in the median"] = times(min(saved), max(saved))
    if connections := sum(cell.connections for cell in known):
        sent = sum(cell.syn_data_connections for cell in known)
        tiles["connections sent data in the SYN"] = f"{sent:,} of {connections:,}"
    return {**tiles, "loads valid": f"{loads - sum(cell.invalid for cell in results.cells):,} of {loads:,}"}
