"""Summarise a run for the beginning of a report: the verdict, the saving, the evidence."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from fastopen.analysis.statistics import CellResult, Effect, Results, Verdict, effect_of, verdict_on
from fastopen.common.grouping import grouped
from fastopen.common.phrases import capitalised, decapitalised, gain, listed, percents, plural, saves, times
from fastopen.experiments import Arm, place_word, treatments_of
from fastopen.report.corpus import in_the_middle
from fastopen.report.findings.deciding import deciding_of_run
from fastopen.report.findings.verdict import (
    NO_SYN,
    all_invalid,
    how_sure,
    invalid_lines,
    of_arms,
    questions_of,
    savings_of,
    verdict_words,
)
from fastopen.report.loaded import as_loaded, over_quic

# The label of the tile with the savings.
SAVED: Final = "of the page load time saved"
NO_TREATMENT: Final = "No load used TFO."
# Clauses after "it", to complete with the number of places that have the effect.
COUNTED: Final = {
    Effect.REDUCES: "reduces it in {}",
    Effect.INCREASES: "increases it in {}",
    Effect.NONE: "makes no difference in {}",
    Effect.UNCLEAR: "has no certain effect in {}",
    Effect.UNKNOWN: "has too few valid repeats in {}",
}


@dataclass(frozen=True)
class Summary:
    """The verdict in a few words with its tone, the sentences that support it, and its figures."""

    headline: str
    tone: str
    sentences: tuple[str, ...]
    tiles: Mapping[str, str]
    """The figures in large type, by label."""
    of_questions: tuple[str, ...] = ()
    """The verdict on each question, such as `HTTP/2: worth turning on.`; empty if all verdicts are equal."""


def summarise_run(results: Results) -> Summary:
    """Summarise the run over all pages and networks, by its preferred treatment and for each question."""
    arms = treatments_of(results.experiment.arms)
    if not arms:
        return Summary(NO_SYN if over_quic(results, results.cells) else NO_TREATMENT, "quiet", (), {})
    questions = questions_of(results, results.cells)
    verdicts = {}
    sentences: list[str] = []
    for question, cells in questions.items():
        judged = of_arms(cells, arms[:1])[0]
        if over_quic(results, cells):
            sentences.append(f"{capitalised(question)}: {NO_SYN}" if question else NO_SYN)
            continue
        verdicts[question] = verdict_on(judged, results.experiment.smallest_effect)
        words = decapitalised(verdict_words(verdicts[question], cells))
        opening = f"{capitalised(question)}: {words}. " if len(questions) > 1 else ""
        of_question = [*_sentences(results, cells, arms, verdicts[question]), deciding_of_run(results, cells)]
        sentences.append(opening + " ".join(filter(None, of_question)))
    judged = of_arms(results.cells, arms[:1])[0]
    if carried := _carried(judged):
        sentences.append(
            f"The kernels of both ends prove it: {carried} connections of the loads {arms[0].words} carried"
            " data in their SYN."
        )
    only = next(iter(verdicts.values())) if len(set(verdicts.values())) == 1 else None
    if not verdicts:
        return Summary(NO_SYN, "quiet", (), {})
    if only:
        headline = f"{verdict_words(only, results.cells)}{how_sure(only, judged)}."
    else:
        asking = [f"the {factor.title}" for factor in results.factors.varying if factor.question]
        headline = f"It depends on {listed(asking)}."
    if len(questions) == 1:
        headline = f"{as_loaded(results, results.cells)}: {decapitalised(headline)}"
    tiles = _tiles(results, judged, one_question=len(questions) == 1)
    of_words = grouped(
        (decapitalised(verdict_words(verdict, questions[question])), question)
        for question, verdict in verdicts.items()
    )
    return Summary(
        headline,
        only.tone if only else "quiet",
        tuple(filter(None, sentences)),
        tiles,
        ()
        if only
        else tuple(f"{capitalised('; '.join(named))}: {words}." for words, named in of_words.items()),
    )


def verdict_line(results: Results) -> str:
    """Return the headline, then each treatment's savings or, if verdicts differ, each question's verdict:
    `Worth turning on. With warm cookies TFO saves +1.2 to +3.4 % of page load time, with cold cookies -0.3
    %.`"""
    summary = summarise_run(results)
    if summary.of_questions:
        return " ".join((summary.headline, *summary.of_questions))
    unknown = decapitalised(Verdict.UNKNOWN) in decapitalised(summary.headline)
    if unknown or SAVED not in summary.tiles:
        return summary.headline
    arms = treatments_of(results.experiment.arms)
    clauses: list[str] = []
    for arm, cells in zip(arms, of_arms(results.cells, arms), strict=True):
        if known := [cell for cell in cells if cell.saved_ms is not None]:
            saved = saves(savings_of(known))
            clauses.append(
                f"{decapitalised(arm.condition)} {saved.removeprefix('saves ')}"
                if clauses
                else f"{arm.condition} TFO {saved} of page load time"
            )
    return f"{summary.headline} {', '.join(clauses)}."


def _sentences(
    results: Results, cells: Sequence[CellResult], arms: Sequence[Arm], verdict: Verdict
) -> list[str]:
    sentences = []
    for arm, of_arm in zip(arms, of_arms(cells, arms), strict=True):
        known = [cell for cell in of_arm if cell.improvement_percent is not None]
        if known:
            sentences.append(_sentence(results, arm, known))
        elif verdict is Verdict.INVALID and arm is arms[0]:
            struck = cells if all_invalid(cells) else of_arm
            sentences += [line for _, _, line in invalid_lines(results, struck)]
    return sentences


def _sentence(results: Results, arm: Arm, cells: Sequence[CellResult]) -> str:
    """Return `On a repeat visit (warm cookies) TFO reduces page load time by 3.1 to 18.8 %, ...`."""
    savings, medians = savings_of(cells), [cell.improvement_percent or 0.0 for cell in cells]
    effects = Counter(effect_of(cell, results.experiment.smallest_effect) for cell in cells)
    on_visit = f"On {arm.visit} TFO"
    if effects[Effect.NONE] == len(cells):
        return f"{on_visit} makes no difference ({saves(savings)})."
    if min(savings) < 0 < max(savings):
        sentence = f"{on_visit} {saves(savings)} of page load time"
    else:
        word = "reduces" if max(savings) > 0 else "increases"
        sentence = f"{on_visit} {word} page load time by {percents([*map(abs, savings)])}"
    if len(cells) == 1:
        return f"{sentence}."
    pages = len({cell.cell.page for cell in cells})
    one = place_word([cell.cell for cell in cells])
    combinations = (f"combination of page and {one}", f"combinations of page and {one}")
    what = ("page",) if pages == len(cells) else combinations if pages > 1 else (one,)
    places = plural(len(cells), *what)
    counts = [
        words.format("every one" if effects[effect] == len(cells) else effects[effect])
        for effect, words in COUNTED.items()
        if effects[effect]
    ]
    headline = arm is treatments_of(results.experiment.arms)[0]
    differ = headline and pages > 1 and len({round(saving, 1) for saving in medians}) > 2
    middle = f" {in_the_middle(savings_by_name(results, cells))}" if differ else ""
    return f"{sentence} ({gain(median(medians))} in the median of {places}): it {listed(counts)}.{middle}"


def savings_by_name(results: Results, cells: Sequence[CellResult]) -> dict[str, float]:
    """Map cells, named by page and by network if that varies, to their savings. No saving may be missing."""
    one_place = len({results.factors.where(cell.cell) for cell in cells}) == 1
    return {
        cell.cell.page + ("" if one_place else f" {results.factors.where(cell.cell)}"): (
            cell.improvement_percent or 0.0
        )
        for cell in cells
    }


def _carried(cells: Sequence[CellResult]) -> str:
    """Return the number of connections with data in their SYN: `1,000 of 1,000`; empty for no connections."""
    connections = sum(cell.connections for cell in cells)
    return f"{sum(cell.syn_data_connections for cell in cells):,} of {connections:,}" if connections else ""


def _tiles(results: Results, judged: Sequence[CellResult], *, one_question: bool) -> dict[str, str]:
    """Return figures by label, with savings only for one question: several need separate answers."""
    loads = sum(cell.loads for cell in results.cells)
    valid = loads - sum(cell.invalid for cell in results.cells)
    tiles: dict[str, str] = {}
    known = [cell for cell in judged if cell.saved_ms is not None]
    if known and one_question:
        saved = [cell.saved_ms or 0.0 for cell in known]
        tiles[SAVED] = saves(savings_of(known)).removeprefix("saves ")
        tiles["saved a load, in the median"] = times(min(saved), max(saved))
    if carried := _carried(known):
        tiles["connections sent data in the SYN"] = carried
    return {**tiles, "loads valid": f"{valid:,} of {loads:,}"}
