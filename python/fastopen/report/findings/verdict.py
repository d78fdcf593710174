"""State the verdict on a page or a run: how much TFO saves, and where and why it saves nothing."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from fastopen.analysis.statistics import (
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
from fastopen.common.phrases import NBSP, capitalised, decapitalised, ends, listed, plural, sizes, span, times
from fastopen.experiments import ARMS, BASELINE, Arm, treatments_of
from fastopen.report.findings import Finding, finds

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


@finds(rank=1, severity="answer")
def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield the verdict on `page` as a finding, if the run has an arm with TFO."""
    if treatments_of(results.experiment.arms):
        of_page = [one for one in results.cells if one.cell.page == page]
        yield Finding("verdict", " ".join(headline(results, of_page)))


def headline(results: Results, cells: Sequence[CellResult]) -> list[str]:
    """Return sentences with the verdict: first whether TFO is worth it, and how much it saves. Settings with
    the same verdict, such as two HTTP versions, share a sentence."""
    arms = treatments_of(results.experiment.arms)
    if not arms or over_quic(results, cells):
        return [NO_SYN if over_quic(results, cells) else "No load used TFO."]
    questions = cells_by_question(results, cells)
    alike = grouped(
        ((*verdict_of(results, of_question), bool(lost_loads(results, of_question))), name)
        for name, of_question in questions.items()
    )
    (verdict, _, loses), *others = alike
    if verdict is not None and not others:
        return [*_on_all(results, cells, verdict), *([lost_loads(results, cells)] if loses else [])]
    sentences, counts = [], ""
    for (verdict, _, loses), names in alike.items():
        together = [cell for name in names for cell in questions[name]]
        if verdict is None:
            words = NO_SYN
        elif verdict in (Verdict.UNKNOWN, Verdict.INVALID):
            words = f"{verdict_words(verdict, together)}."
        else:
            judged, told = of_arm(together, arms[0]), counts
            words = _effects(results, judged, "It") if told else _on_visit(results, arms[0], judged)
            counts = _counts(judged)
            words += f"{counts if counts != told else ''}."
        subject = "; ".join(names) if any(", " in name for name in names) else listed(names)
        lost = f" {lost_loads(results, together)}" if loses else ""
        sentences.append(f"{capitalised(subject)}: {decapitalised(words)}{lost}")
    return [" ".join(sentences)]


def lost_loads(results: Results, cells: Sequence[CellResult]) -> str:
    """Return a sentence on unfinished loads, which savings do not include, if there are more of them with TFO
    than without. Otherwise, or if no load with TFO is valid, return an empty string."""
    arm = treatments_of(results.experiment.arms)[0]
    judged, without = of_arm(cells, arm), of_arm(cells, BASELINE)
    (lost, loads), (usual, of_usual) = _unfinished(judged), _unfinished(without)
    if lost <= usual or _excess_lost(judged, without) <= 0 or all_invalid(judged):
        return ""
    return (
        f"{lost} of {plural(loads, 'load')} {arm.words} did not finish, and {usual} of {of_usual}"
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


def _on_all(results: Results, cells: Sequence[CellResult], verdict: Verdict) -> list[str]:
    """Return sentences with the verdict, and with TFO's effect on repeat visits (warm cookies) and on first
    visits (cold cookies)."""
    arms = treatments_of(results.experiment.arms)
    judged, words = of_arm(cells, arms[0]), verdict_words(verdict, cells)
    loaded = as_loaded(results, cells)
    if words != str(verdict) or verdict in (Verdict.UNKNOWN, Verdict.INVALID):
        few = [saving for cell in judged for saving in cell.improvements_percent.values()]
        aside = f": saving {ends(few)}{_counts(judged)}" if few and verdict is Verdict.UNKNOWN else ""
        return [f"{words} ({loaded}){aside}."]
    pages = len({cell.cell.page for cell in cells})
    subject = f"{'this page' if pages == 1 else f'these {pages} pages'} ({loaded})"
    first = _on_visit(results, arms[0], judged, f" to {subject},")
    if verdict in (Verdict.WORTH_IT, Verdict.HARMFUL):
        best = max(abs(cell.improvement_percent or 0.0) for cell in judged)
        little = verdict is Verdict.WORTH_IT and best < LITTLE_PERCENT
        opening = "TFO saves little" if little else str(verdict)
        effect = decapitalised(_on_visit(results, arms[0], judged, subject="it"))
        first = f"{opening} for {subject}: {effect}"
    others = ((arm, of_arm(cells, arm)) for arm in arms[1:])
    further = (f"{_on_visit(results, arm, found, subject='it')}." for arm, found in others if found)
    return [f"{first}{_counts(judged)}.", *further]


def _on_visit(
    results: Results, arm: Arm, cells: Sequence[CellResult], to: str = "", subject: str = "TFO"
) -> str:
    """Return a clause on the effect of TFO in results with the cookies of `arm`, such as `On a repeat visit
    to this page, TFO saves 4.0 %`. `to` is text to insert after `visit`, such as ` to this page,`."""
    return f"On {arm.visit.partition(' (')[0]}{to} {_effects(results, cells, subject)}"


def _effects(results: Results, cells: Sequence[CellResult], subject: str) -> str:
    of_effect = grouped((effect_of(cell, results.experiment.smallest_effect), cell) for cell in cells)
    clauses = [
        _clause(results, effect, of_effect[effect], where_of(results, of_effect[effect], cells))
        for effect in Effect
        if effect in of_effect
    ]
    return f"{subject} {(', and ' if len(clauses) < 3 else '; ').join(clauses)}"


def _clause(results: Results, effect: Effect, cells: Sequence[CellResult], where: str) -> str:
    savings = [cell.improvement_percent for cell in cells if cell.improvement_percent is not None]
    if effect is Effect.UNKNOWN:
        return f"has too few valid repeats{where} for a verdict"
    if effect in (Effect.REDUCES, Effect.INCREASES):
        saved_ms = [abs(cell.saved_ms) for cell in cells if cell.saved_ms is not None]
        aside = [times(min(saved_ms), max(saved_ms))] if saved_ms else []
        # A saving of -5 to -4 % is an increase of 4 to 5 %.
        verb, sign = ("saves", 1) if effect is Effect.REDUCES else ("adds", -1)
        aside += _interval(cells, sign)
        return f"{verb} {span([*map(abs, savings)], '%')}{where} ({'; '.join(aside)})"
    if effect is Effect.NONE and not any(round(saving, 1) for saving in savings):
        reason = HELLO_BEYOND_SYN if all(map(results.hello_beyond_syn, cells)) else ""
        return f"saves nothing{where}{reason}"
    words = "makes no difference" if effect is Effect.NONE else "has no certain effect"
    return f"{words}{where} ({'; '.join([f'saving {ends(savings)}', *_interval(cells)])})"


def _interval(cells: Sequence[CellResult], sign: int = 1) -> list[str]:
    """Return a list with the range that spans the savings' intervals, such as `95 % interval +3.1 to +4.4 %`.
    The list is empty if nothing was random. `sign`: -1 for intervals of the time that TFO adds."""
    known = [cell for cell in cells if cell.interval is not None]
    if all(cell.deterministic for cell in known):
        return []
    level = f"{100 * min(cell.confidence for cell in known):.0f}{NBSP}% interval"
    if all(cell.varied for cell in known):
        level = f"90{NBSP}% of samples" if min(cell.pairs for cell in known) >= FULL_MIN else "all samples"
    hull = ends([sign * end for cell in known for end in cell.interval or ()])
    within = f"{'s' * level.endswith('l')} within" if len(known) > 1 and " to " in hull else ""
    return [f"{level}{within} {hull}"]


def _counts(cells: Sequence[CellResult]) -> str:
    """Return the number of pairs of loads as the end of a sentence, such as `; n 4 to 5`."""
    known = [cell for cell in cells if cell.improvement_percent is not None]
    exact = ", deterministic" if all(cell.deterministic for cell in known) else ""
    return f"; {sizes([cell.pairs for cell in known])}{exact}" if known else ""


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
    telling = [factor for factor in results.factors.varying if not factor.question]
    rows = [f"{one.cell.page} over {results.factors.name_by(one.cell, telling)}" for one in cells]
    if len({one.cell.page for one in cells}) > 1 and (names := names_apart(rows)):
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
        text = f"{capitalised('; '.join(names))}: {after_colon(results, sentence)}"
        yield replace(first, sentence=sentence if everywhere else text)


def after_colon(results: Results, sentence: str) -> str:
    """Return the sentence with a lower-case first letter, unless it begins with a page's or client's name."""
    names = (*results.pages, *(setup.client.label for setup in results.experiment.setups))
    named = re.match(rf"({'|'.join(map(re.escape, names))})(?!\w)", sentence)
    return sentence if named else decapitalised(sentence)


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
