"""Judge for each question of a page whether TCP Fast Open is worth turning on, in plain sentences."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fastopen.analysis.statistics import (
    CONFIDENCE,
    CellResult,
    Effect,
    Results,
    Verdict,
    effect_of,
    verdict_on,
)
from fastopen.common.grouping import grouped
from fastopen.common.phrases import NBSP, capitalised, decapitalised, listed, percents, plural, saves
from fastopen.experiments import ARMS, BASELINE, Arm, Factor, treatments_of
from fastopen.report.loaded import as_loaded, over_quic
from fastopen.report.model import Finding

RANK: Final = 20
SEVERITY: Final = "answer"

# A sentence on more rows gives counts instead of a list.
ROWS_IN_WORDS: Final = 6
# The verdict on a question whose connections cannot use TFO.
NO_SYN: Final = "There is nothing for TFO to save, since QUIC has no SYN."
# Clauses on the effects of TFO, to complete with rows or their number.
CLAUSES: Final = {
    Effect.REDUCES: "reduces page load time {}",
    Effect.INCREASES: "increases page load time {}",
    Effect.NONE: "makes no difference {}",
    Effect.UNCLEAR: "has no certain effect {}",
    Effect.UNKNOWN: "has too few valid repeats {} to say",
}


def questions_of(results: Results, cells: Sequence[CellResult]) -> dict[str, list[CellResult]]:
    """Group the cells by question: the varying factors that no verdict may mix, such as HTTP version, TLS
    version, session, path, view and client."""
    return grouped((results.factors.question(cell.cell), cell) for cell in cells)


def savings_of(cells: Iterable[CellResult]) -> list[float]:
    """Return the savings that sentences state for these cells, in percent."""
    return [saving for cell in cells for saving in cell.stated_percent]


def of_arms(cells: Sequence[CellResult], arms: Sequence[Arm]) -> list[list[CellResult]]:
    return [[cell for cell in cells if cell.cell.arm.name == arm.name] for arm in arms]


def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield findings with the verdict on each question, preceded by the question if there are several."""
    of_page = [result for result in results.cells if result.cell.page == page]
    questions = questions_of(results, of_page)
    opening = f"{as_loaded(results, of_page)}: " if len(questions) == 1 else ""
    said = [(question, _sentences(results, cells)) for question, cells in questions.items()]
    if opening:
        said = [(question, opening + decapitalised(text)) for question, text in said if text]
    for line in said_once([(question, text) for question, text in said if text], len(questions)):
        yield Finding("verdict", line)


def said_once(said: Sequence[tuple[str, str]], questions: int) -> list[str]:
    """Return each sentence once, after the questions to which it applies, unless these are all."""
    of_text = grouped((text, question) for question, text in said)
    return [
        text if len(named) == questions else f"{capitalised('; '.join(named))}: {text}"
        for text, named in of_text.items()
    ]


def _sentences(results: Results, cells: Sequence[CellResult]) -> str:
    arms = treatments_of(results.experiment.arms)
    if not arms:
        return ""
    of_arm = of_arms(cells, arms)
    if over_quic(results, cells):
        return NO_SYN
    verdict = verdict_on(of_arm[0], results.experiment.smallest_effect)
    words = verdict_words(verdict, cells)
    sentences = [f"{words}{how_sure(verdict, of_arm[0])}."]
    known = [
        (arm, of_this)
        for arm, of_this in zip(arms, of_arm, strict=True)
        if any(cell.interval is not None for cell in of_this)
    ]
    sentences += [
        _sentence(results, of_this, f"{arm.condition} {'it' if number else 'TFO'}")
        for number, (arm, of_this) in enumerate(known)
    ]
    # Keep a figure and its unit on one line.
    return " ".join(sentences).replace(" %", f"{NBSP}%")


def verdict_words(verdict: Verdict, cells: Sequence[CellResult]) -> str:
    """Return the verdict on these cells of all arms in words, or the reason why they have no verdict."""
    if all_invalid(cells):
        return "No load is valid"
    loaded_arms = [ARMS[name] for name in dict.fromkeys(cell.cell.arm.name for cell in cells if cell.loads)]
    without = [arm for arm in loaded_arms if all_invalid(*of_arms(cells, [arm]))]
    if BASELINE in without:
        return f"No load {BASELINE.words} is valid"
    if verdict is Verdict.INVALID and any(arm.fast_open and arm not in without for arm in loaded_arms):
        return f"No load {max(without, key=lambda arm: arm.preference).words} is valid"
    loaded = any(cell.loads > cell.invalid for cell in cells)
    if verdict is Verdict.UNKNOWN and loaded and not any(cell.connections for cell in cells):
        return "The client opened no connection: there is nothing to compare"
    return str(verdict)


def all_invalid(cells: Sequence[CellResult]) -> bool:
    return any(cell.loads for cell in cells) and all(cell.loads == cell.invalid for cell in cells)


def how_sure(verdict: Verdict, cells: Sequence[CellResult]) -> str:
    """Return ` (75 % sure)` if there are few repeats, the savings if there are too few, otherwise empty."""
    if verdict is Verdict.UNKNOWN:
        return _what_few_saved([cell for cell in cells if cell.interval is None and cell.pairs])
    if verdict in (Verdict.UNCLEAR, Verdict.INVALID):
        return ""
    least = min((cell.confidence for cell in cells if cell.interval is not None), default=1.0)
    return f" ({100 * least:.0f}{NBSP}% sure)" if least < CONFIDENCE else ""


def _what_few_saved(cells: Sequence[CellResult]) -> str:
    """Return ` (1 pair of loads: saves +8.0 %)`, for cells without an interval."""
    if not cells:
        return ""
    fewest, most = min(cell.pairs for cell in cells), max(cell.pairs for cell in cells)
    pairs = plural(most, "pair") if fewest == most else f"{fewest} to {most} pairs"
    each = " each" if len(cells) > 1 else ""
    savings = [saving for cell in cells for saving in cell.improvements_percent.values()]
    return f" ({pairs} of loads{each}: {saves(savings)})"


def invalid_lines(results: Results, cells: Sequence[CellResult]) -> Iterator[tuple[str, int, str]]:
    """Yield kind, number and line for each kind of invalid loads. A line is such as `Invalid at 20 ms: cold:
    3 of 3 loads, warm: 1 of 3: link_late: a packet was 9 ms late`."""
    by_kind = grouped((reason.kind, (cell, reason)) for cell in cells for reason in cell.reasons)
    rows = list(dict.fromkeys(cell.cell.comparison for cell in cells if cell.loads))
    for kind, struck in by_kind.items():
        places = [row for row in rows if any(cell.cell.comparison == row for cell, _ in struck)]
        counts: list[str] = []
        for arm in dict.fromkeys(cell.cell.arm.name for cell, _ in struck):
            loads = sum(reason.loads for cell, reason in struck if cell.cell.arm.name == arm)
            of_arm = [cell for cell in cells if cell.cell.arm.name == arm and cell.cell.comparison in places]
            total = sum(cell.loads for cell in of_arm)
            counts.append(f"{arm}: {loads} of {total if counts else plural(total, 'load')}")
        where = ""
        if len(places) < len(rows):
            many = len(places) > ROWS_IN_WORDS
            names = [results.factors.name(row) for row in places]
            where = (
                f" in {len(places)} of {len(rows)} rows"
                if many
                else f" {at_rows(results.factors.word, names)}"
            )
        examples = list(dict.fromkeys(reason.example for _, reason in struck))
        such_as = ", for example" if len(examples) > 1 else ""
        line = f"Invalid{where}: {', '.join(counts)}: {kind}{such_as}: {examples[0]}"
        yield kind, sum(reason.loads for _, reason in struck), line


def _sentence(results: Results, cells: Sequence[CellResult], opening: str) -> str:
    """Return a sentence on the effect in each row or, for many rows, on the count and range of effects."""
    smallest = results.experiment.smallest_effect
    of_effect = {
        effect: found
        for effect in CLAUSES
        if (found := [c for c in cells if effect_of(c, smallest) is effect])
    }
    many = len(cells) > ROWS_IN_WORDS
    single = len(cells) == 1
    telling = _telling(results, cells)
    clauses = [
        CLAUSES[effect].format(
            _single(effect, *found)
            if single
            else " ".join(
                _rows(results, effect, found, telling)
                if telling and not many
                else _counted(effect, found, len(cells))
            )
        )
        for effect, found in of_effect.items()
    ]
    return f"{opening} {listed(clauses)}."


def _telling(results: Results, cells: Sequence[CellResult]) -> list[Factor]:
    """Return the factors that name rows: the RTT if it varies, and others unless they make no difference."""
    others = [one for one in results.factors.varying if not one.question and one.name != "rtt"]
    rtts = [one for one in results.factors.varying if one.name == "rtt" and results.factors.varying_rtt]
    telling = [*others, *rtts]
    for factor in others:
        without = [one for one in telling if one is not factor]
        said: dict[str, set[tuple[object, ...]]] = {}
        for cell in cells:
            effect = effect_of(cell, results.experiment.smallest_effect)
            # For other effects, a sentence gives the range over all rows.
            of_each = effect in (Effect.REDUCES, Effect.INCREASES)
            stated = [percents([*map(abs, cell.stated_percent)])] if of_each else []
            said.setdefault(results.factors.name_by(cell.cell, without), set()).add((effect, *stated))
        if len(said) < len(cells) and all(len(one) == 1 for one in said.values()):
            telling = without
    return telling


def _single(effect: Effect, cell: CellResult) -> str:
    """Return `by 4.0 %` or `(saves 0.0 to +0.1 %)`. The cell must have an interval."""
    if effect in (Effect.REDUCES, Effect.INCREASES):
        return f"by {percents([*map(abs, cell.stated_percent)])}"
    return f"({saves(cell.stated_percent)})"


def _counted(effect: Effect, found: Sequence[CellResult], rows: int) -> Iterator[str]:
    """Yield `in 4 of 8 rows` and `(by 1.2 to 7.4 %)`, or `in all 8 rows` and `(-0.1 to +0.3 %)`."""
    every = "both rows" if rows == 2 else f"all {rows} rows"
    yield f"in {every}" if len(found) == rows else f"in {len(found)} of {rows} rows"
    savings = savings_of(found)
    if effect in (Effect.REDUCES, Effect.INCREASES):
        yield f"(by {percents([*map(abs, savings)])})"
    elif effect is not Effect.UNKNOWN:
        yield f"({saves(savings)})"


def at_rows(word: str, names: Sequence[str]) -> str:
    """Return `at 20 ms and 50 ms`, or `at 4 ms, cubic, and at 9 ms, bbr` if names contain commas."""
    if any("," in name for name in names):
        return ", and ".join(f"{word} {name}" for name in names)
    return f"{word} {listed(names)}"


def _rows(
    results: Results, effect: Effect, found: Sequence[CellResult], telling: Sequence[Factor]
) -> Iterator[str]:
    """Yield `by 4.0 % at 20 ms and 5.0 % at 100 ms`, or `at 20 ms and 50 ms` and `(saves 0.0 to +0.1 %)`."""
    of_name = {
        results.factors.name_by(cell.cell, telling).replace(" ms", f"{NBSP}ms", 1): cell for cell in found
    }
    names = list(of_name)
    word = results.factors.word
    if effect in (Effect.REDUCES, Effect.INCREASES):
        alike = grouped((percents([*map(abs, one.stated_percent)]), name) for name, one in of_name.items())
        compound = any("," in name for name in names)
        each = (
            f"{saving} ({'; '.join(rows)})" if compound else f"{saving} {at_rows(word, rows)}"
            for saving, rows in alike.items()
        )
        yield f"by {listed(list(each))}"
        return
    yield at_rows(word, names)
    if effect is not Effect.UNKNOWN:
        yield f"({saves(savings_of(found))})"
