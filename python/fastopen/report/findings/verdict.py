"""State the verdict on a page or a run: how much TFO saves, and where and why it saves nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from fastopen.analysis.statistics import (
    CONFIDENCE,
    FULL_MIN,
    HELLO_BEYOND_SYN,
    CellResult,
    Effect,
    Results,
    Verdict,
    effect_of,
    verdict_on,
)
from fastopen.analysis.statistics.protocols import as_loaded, over_quic
from fastopen.common.grouping import grouped
from fastopen.common.phrases import (
    NBSP,
    capitalised,
    decapitalised,
    listed,
    plural,
    saves,
    span,
    times,
)
from fastopen.experiments import ARMS, BASELINE, Arm, treatments_of
from fastopen.report.findings import Finding

RANK: Final = 1
SEVERITY: Final = "answer"

# A sentence on more rows gives counts instead of a list.
ROWS_IN_WORDS: Final = 6
# If there are more pages, or more values of a factor, their number is given instead of their names.
NAMES_IN_WORDS: Final = 3
# The smallest saving that users notice, in percent of the page load time.
LITTLE_PERCENT: Final = 1.0
NO_SYN: Final = "There is nothing for TFO to save, since QUIC has no SYN."
# If the share of unfinished loads is larger with TFO by at least this, TFO is not worth it.
MANY_LOST: Final = 0.01


def cells_by_question(results: Results, cells: Sequence[CellResult]) -> dict[str, list[CellResult]]:
    """Group results for verdicts. Results get separate verdicts if they differ in HTTP version, TLS version,
    TLS session, middlebox, repeat view or client. The key names the settings that vary in the run, such as
    `HTTP/2, TLS 1.3`."""
    return grouped((results.factors.question(cell.cell), cell) for cell in cells)


def of_arm(cells: Sequence[CellResult], arm: Arm) -> list[CellResult]:
    """Return the results in `cells` whose arm is `arm`."""
    return [cell for cell in cells if cell.cell.arm.name == arm.name]


def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield the verdict on `page` as a finding, if the run has an arm with TFO."""
    if treatments_of(results.experiment.arms):
        yield Finding("verdict", headline(results, [one for one in results.cells if one.cell.page == page]))


def headline(results: Results, cells: Sequence[CellResult]) -> str:
    """Return sentences with the verdict: whether TFO is worth it, and how much it saves. Settings with the
    same verdict, such as two HTTP versions, share a sentence."""
    arms = treatments_of(results.experiment.arms)
    if not arms or over_quic(results, cells):
        return NO_SYN if over_quic(results, cells) else "No load used TFO."
    questions = cells_by_question(results, cells)
    alike = grouped(
        ((*verdict_of(results, of_question), bool(lost_loads(results, of_question))), name)
        for name, of_question in questions.items()
    )
    (verdict, large_hellos, loses), *others = alike
    if verdict is not None and not others:
        words = _on_all(results, cells, verdict, HELLO_BEYOND_SYN if large_hellos else "")
        return words + lost_loads(results, cells) * loses
    sentences = []
    for (verdict, _, loses), names in alike.items():
        together = [cell for name in names for cell in questions[name]]
        if verdict is None:
            words = NO_SYN
        elif verdict in (Verdict.UNKNOWN, Verdict.INVALID):
            words = f"{verdict_words(verdict, together)}."
        else:
            words = f"{_on_visit(results, arms[0], of_arm(together, arms[0]))}."
        subject = "; ".join(names) if any(", " in name for name in names) else listed(names)
        sentences.append(
            f"{capitalised(subject)}: {decapitalised(words)}{lost_loads(results, together) * loses}"
        )
    return " ".join(sentences)


def lost_loads(results: Results, cells: Sequence[CellResult]) -> str:
    """Return a sentence on unfinished loads, which savings do not include, if there are more of them with TFO
    than without. Otherwise, or if no load with TFO is valid, return an empty string."""
    arm = treatments_of(results.experiment.arms)[0]
    judged, without = of_arm(cells, arm), of_arm(cells, BASELINE)
    (lost, loads), (usual, of_usual) = _unfinished(judged), _unfinished(without)
    if lost <= usual or _excess_lost(judged, without) <= 0 or all_invalid(judged):
        return ""
    return (
        f" {lost} of {plural(loads, 'load')} {arm.words} did not finish, and {usual} of {of_usual}"
        f" {BASELINE.words}."
    )


def _unfinished(cells: Sequence[CellResult]) -> tuple[int, int]:
    return sum(cell.unfinished for cell in cells), sum(cell.loads for cell in cells)


def _excess_lost(judged: Sequence[CellResult], without: Sequence[CellResult]) -> float:
    share, usual = (lost / loads if loads else 0.0 for lost, loads in map(_unfinished, (judged, without)))
    return share - usual


def verdict_of(results: Results, cells: Sequence[CellResult]) -> tuple[Verdict | None, bool]:
    """Return the verdict on TFO (None over QUIC), and True if TFO saves nothing because the ClientHellos do
    not fit into SYNs. The verdict is worse if many loads finish only without TFO. `cells`: results with the
    same HTTP version, TLS version, client and so on."""
    if over_quic(results, cells):
        return None, False
    judged = of_arm(cells, treatments_of(results.experiment.arms)[0])
    verdict = verdict_on(judged, results.experiment.smallest_effect)
    if lost_loads(results, cells) and _excess_lost(judged, of_arm(cells, BASELINE)) >= MANY_LOST:
        if verdict in (Verdict.WORTH_IT, Verdict.WORTH_IT_FOR_SOME):
            verdict = Verdict.MIXED
        elif verdict in (Verdict.NO_DIFFERENCE, Verdict.MOSTLY_NONE, Verdict.UNCLEAR):
            verdict = Verdict.HARMFUL
    return verdict, verdict is Verdict.NO_DIFFERENCE and all(map(results.hello_beyond_syn, judged))


def _on_all(results: Results, cells: Sequence[CellResult], verdict: Verdict, because: str) -> str:
    """Return sentences with the verdict, and with TFO's effect on first visits (cold cookies) and on repeat
    visits (warm cookies). `because`: a clause with the reason for the verdict, or empty."""
    arms = treatments_of(results.experiment.arms)
    judged = of_arm(cells, arms[0])
    words, sure = verdict_words(verdict, cells), how_sure(verdict, judged)
    pages = len({cell.cell.page for cell in cells})
    # If all pages share the HTTP versions, only the verdict on all pages names them.
    one_of_many = pages < len(results.pages)
    known = one_of_many and all(one.origins.http != "recorded" for one in results.experiment.setups)
    loaded = "" if known else f" ({as_loaded(results, cells)})"
    if words != str(verdict) or verdict in (Verdict.UNKNOWN, Verdict.INVALID):
        return f"{words}{sure}{loaded}."
    subject = f"{'this page' if pages == 1 else f'these {pages} pages'}{loaded}"
    sentences = []
    if verdict in (Verdict.WORTH_IT, Verdict.NO_DIFFERENCE, Verdict.HARMFUL) and not one_of_many:
        best = max(abs(cell.improvement_percent or 0.0) for cell in judged)
        little = verdict is Verdict.WORTH_IT and best < LITTLE_PERCENT
        opening = "TFO saves little" if little else str(verdict)
        sentences.append(f"{opening}{sure} for {subject}{because}.")
    for arm in arms:
        of_this = of_arm(cells, arm)
        effects = {effect_of(cell, results.experiment.smallest_effect) for cell in of_this}
        said = verdict is Verdict.NO_DIFFERENCE and effects == {Effect.NONE}
        if sentences and effects != {Effect.UNKNOWN} and not said:
            sentences.append(f"{_on_visit(results, arm, of_this, subject='it')}.")
        elif not sentences:
            to = "" if known else f" to {subject},"
            sentences.append(f"{_on_visit(results, arm, of_this, to)}{sure}.")
    return " ".join(sentences)


def _on_visit(
    results: Results, arm: Arm, cells: Sequence[CellResult], to: str = "", subject: str = "TFO"
) -> str:
    """Return a clause on the effect of TFO in results with the cookies of `arm`, such as `On a repeat visit
    to this page, TFO saves 4.0 %`. `to` is text to insert after `visit`, such as ` to this page,`."""
    of_effect = grouped((effect_of(cell, results.experiment.smallest_effect), cell) for cell in cells)
    clauses = [
        _clause(results, effect, of_effect[effect], where_of(results, of_effect[effect], cells))
        for effect in Effect
        if effect in of_effect
    ]
    visit = arm.visit.partition(" (")[0]
    return f"On {visit}{to} {subject} {', and '.join(clauses)}"


def _clause(results: Results, effect: Effect, cells: Sequence[CellResult], where: str) -> str:
    savings = [cell.improvement_percent for cell in cells if cell.improvement_percent is not None]
    if effect in (Effect.REDUCES, Effect.INCREASES):
        saved_ms = [abs(cell.saved_ms) for cell in cells if cell.saved_ms is not None]
        aside = times(min(saved_ms), max(saved_ms)) if saved_ms else ""
        if len(cells) == 1 and cells[0].varied and cells[0].interval is not None:
            over = f"90{NBSP}% of" if cells[0].pairs >= FULL_MIN else "all"
            # A saving of -5 to -4 % is an increase of 4 to 5 %.
            sign = 1 if effect is Effect.REDUCES else -1
            ends = [sign * end for end in cells[0].interval]
            aside = f"{span(ends, '%')} over {over} samples; {aside}"
        amount = f"{span([*map(abs, savings)], '%')} ({aside})"
        return f"saves {amount}{where}" if effect is Effect.REDUCES else f"adds {amount}{where}"
    if effect is Effect.UNKNOWN:
        return f"has too few valid repeats{where} for a verdict"
    if effect is Effect.UNCLEAR:
        ends = [end for cell in cells for end in cell.interval or ()]
        intervals = "interval" if len(cells) == 1 else "intervals"
        return f"has no certain effect{where} ({intervals}: saves {span(ends, '%')})"
    reason = HELLO_BEYOND_SYN if all(map(results.hello_beyond_syn, cells)) else ""
    if any(round(saving, 1) for saving in savings):
        return f"makes no difference{where} ({saves(savings)}){reason}"
    return f"saves nothing{where}{reason}"


def where_of(results: Results, found: Sequence[CellResult], cells: Sequence[CellResult]) -> str:
    """Return a phrase that distinguishes the results `found` from the other results in `cells`, such as ` at
    20 ms`, ` with cubic` or ` in 3 of 9 rows`. Empty if there are no other results."""
    if len(found) == len(cells):
        return ""
    indices = {cell.cell.index for cell in found}

    def names_apart(names: Sequence[str]) -> list[str]:
        """Select the names of `found` from `names`, which has a name for each of `cells`. Return an empty
        list if there are more than NAMES_IN_WORDS, or if a result outside `found` has one of these names."""
        of_name = grouped(zip(names, (cell.cell.index in indices for cell in cells), strict=True))
        named = [name for name, flags in of_name.items() if any(flags)]
        apart = all(all(of_name[name]) for name in named)
        return named if apart and len(named) <= NAMES_IN_WORDS else []

    words = {"rtt": "at", "network": "for"}
    for factor in results.factors.varying:
        names = names_apart([factor.phrase_at(results.factors.point(cell.cell)) for cell in cells])
        if names:
            return f" {words.get(factor.name, 'with')} {listed(names)}"
    if names := names_apart([cell.cell.page for cell in cells]):
        return f" for {listed(names)}"
    return f" in {len(found)} of {len(cells)} rows"


def findings_by_question(
    results: Results, cells: Sequence[CellResult], find: Callable[[Sequence[CellResult]], Iterable[Finding]]
) -> Iterator[Finding]:
    """Call `find` for each group of results with its own verdict (see `cells_by_question`), and yield the
    findings without duplicates. The sentence of a finding begins with the names of its groups, such as
    `HTTP/2: `, unless all groups have the finding."""
    questions = cells_by_question(results, cells)
    found = (
        (finding.sentence, (name, finding))
        for name, of_question in questions.items()
        for finding in find(of_question)
    )
    for sentence, named in grouped(found).items():
        names, first = dict.fromkeys(name for name, _ in named), named[0][1]
        everywhere = len(names) == len(questions)
        yield first if everywhere else replace(first, sentence=f"{capitalised('; '.join(names))}: {sentence}")


def verdict_words(verdict: Verdict, cells: Sequence[CellResult]) -> str:
    """Return the verdict as text, or the reason why there cannot be a verdict, such as `No load is valid`.
    `cells`: the results that the verdict is about, with and without TFO."""
    if all_invalid(cells):
        return "No load is valid"
    loaded_arms = [ARMS[name] for name in dict.fromkeys(cell.cell.arm.name for cell in cells if cell.loads)]
    without = [arm for arm in loaded_arms if all_invalid(of_arm(cells, arm))]
    if BASELINE in without:
        return f"No load {BASELINE.words} is valid"
    if verdict is Verdict.INVALID and any(arm.fast_open and arm not in without for arm in loaded_arms):
        return f"No load {max(without, key=lambda arm: arm.preference).words} is valid"
    if not of_arm(cells, BASELINE):
        return f"There is no load {BASELINE.words} to compare with"
    loaded = any(cell.loads > cell.invalid for cell in cells)
    if verdict is Verdict.UNKNOWN and loaded and not any(cell.connections for cell in cells):
        return "The client opened no connection: there is nothing to compare"
    return str(verdict)


def all_invalid(cells: Sequence[CellResult]) -> bool:
    """Return True if there are loads, and all of them are invalid."""
    return any(cell.loads for cell in cells) and all(cell.loads == cell.invalid for cell in cells)


def how_sure(verdict: Verdict, cells: Sequence[CellResult]) -> str:
    """Return a suffix with the certainty of the verdict: ` (75 % sure)` for less than the usual confidence, `
    (1 pair of loads: saves 8.0 %)` for too few repeats, and otherwise an empty string."""
    if verdict is Verdict.UNKNOWN and (few := [one for one in cells if one.interval is None and one.pairs]):
        fewest, most = min(cell.pairs for cell in few), max(cell.pairs for cell in few)
        pairs = plural(most, "pair") if fewest == most else f"{fewest} to {most} pairs"
        each = " each" if len(few) > 1 else ""
        savings = [saving for cell in few for saving in cell.improvements_percent.values()]
        return f" ({pairs} of loads{each}: {saves(savings)})"
    if verdict in (Verdict.UNKNOWN, Verdict.UNCLEAR, Verdict.INVALID):
        return ""
    least = min((cell.confidence for cell in cells if cell.interval is not None), default=1.0)
    return f" ({100 * least:.0f}{NBSP}% sure)" if least < CONFIDENCE else ""


def invalid_lines(results: Results, cells: Sequence[CellResult]) -> Iterator[tuple[str, int, str]]:
    """Yield (kind, number of loads, line) for each kind of fault that made loads invalid. A line is, for
    example, `Invalid at 20 ms: cold: 3 of 3 loads, warm: 1 of 3: link_late: a packet was 9 ms late`."""
    by_kind = grouped((reason.kind, (cell, reason)) for cell in cells for reason in cell.reasons)
    rows = list(dict.fromkeys(cell.cell.comparison for cell in cells if cell.loads))
    for kind, struck in by_kind.items():
        places = [row for row in rows if any(cell.cell.comparison == row for cell, _ in struck)]
        counts: list[str] = []
        for arm, loads in grouped((cell.cell.arm.name, reason.loads) for cell, reason in struck).items():
            total = sum(cell.loads for cell in of_arm(cells, ARMS[arm]) if cell.cell.comparison in places)
            counts.append(f"{arm}: {sum(loads)} of {total if counts else plural(total, 'load')}")
        where = f" in {len(places)} of {len(rows)} rows"
        if len(places) == len(rows):
            where = ""
        elif len(places) <= ROWS_IN_WORDS:
            where = f" {at_rows(results.factors.preposition, [results.factors.name(row) for row in places])}"
        examples = list(dict.fromkeys(reason.example for _, reason in struck))
        such_as = ", for example" if len(examples) > 1 else ""
        line = f"Invalid{where}: {', '.join(counts)}: {kind}{such_as}: {examples[0]}"
        yield kind, sum(reason.loads for _, reason in struck), line


def at_rows(preposition: str, names: Sequence[str]) -> str:
    """Join the names of table rows with a preposition: `at 20 ms and 50 ms` or, if names have commas, `at 4
    ms, cubic, and at 9 ms, bbr`."""
    if any("," in name for name in names):
        return ", and ".join(f"{preposition} {name}" for name in names)
    return f"{preposition} {listed(names)}"
