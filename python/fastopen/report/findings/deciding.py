"""Report the setting, such as the RTT, or sampled input (`--vary`) on which the saving depends most."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from fastopen.analysis.statistics import (
    CellResult,
    Effect,
    Results,
    deciding_factor,
    effect_of,
    sensitivity,
)
from fastopen.common.phrases import NBSP, capitalised, listed, signed
from fastopen.experiments import UNKNOWNS, headline_of
from fastopen.report.findings import Finding, finds
from fastopen.report.findings.verdict import ROWS_IN_WORDS, at_rows, findings_by_question

# A sentence on more values names only the first and the last.
LEVELS_IN_WORDS = 6


@finds(rank=40, severity="answer")
def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield findings on the setting, such as the RTT, on which the saving by TFO on `page` depends most.
    Results that differ in HTTP version, TLS version, client and the like are examined separately."""
    of_page = [result for result in results.cells if result.cell.page == page]

    def find(cells: Sequence[CellResult]) -> Iterator[Finding]:
        if text := " ".join(deciding_sentences(results, cells)):
            yield Finding("deciding_factor", text)

    yield from findings_by_question(results, of_page, find)


def deciding_sentences(results: Results, cells: Sequence[CellResult]) -> Iterator[str]:
    """Yield sentences on the setting, such as the RTT, on which the saving by TFO in `cells` depends most.
    Yield nothing if no setting stands out (see `deciding_factor`)."""
    found = deciding_factor(results, cells)
    if found is None:
        return
    levels = found.levels
    named = levels if len(levels) <= LEVELS_IN_WORDS else (levels[0], levels[-1])
    title, word = found.factor.title, "at" if found.factor.name == "rtt" else "with"
    names = {level.phrase: level.phrase.removeprefix(f"{title} ") for level in levels}
    savings = [f"{signed(level.saving_percent)}{NBSP}% {word} {names[level.phrase]}" for level in named]
    titles = capitalised(listed([title, *(factor.title for factor in found.together)]))
    matter = ", which vary together, matter" if found.together else " matters"
    yield f"{titles}{matter} most: median saving {listed(savings)}."
    smallest = results.experiment.smallest_effect
    gains = [any(effect_of(one, smallest) is Effect.REDUCES for one in level.cells) for level in levels]
    if gains[0] and not gains[-1] and gains == sorted(gains, reverse=True):
        idle = [names[level.phrase] for level in levels[sum(gains) :]]
        many = len(idle) > LEVELS_IN_WORDS
        where = f"From {idle[0]} on," if many else f"{capitalised(word)} {listed(idle)}"
        yield f"{where} no row gains for certain."
    again = [level.retransmitted for level in levels]
    if again[-1] >= again[0] + 1 and levels[-1].saving_percent < levels[0].saving_percent:
        yield (
            f"Retransmitted segments per load go from {again[0]:g} to {again[-1]:g}: loads then wait for"
            " retransmissions, which TFO does not shorten."
        )


@finds(rank=80, severity="detail")
def most_sensitive_input(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding that names the sampled input on which the saving depends most, if there is any."""
    of_unknown: dict[str, list[str]] = defaultdict(list)
    rows = results.comparisons(page)
    for row, cells in rows.items():
        headline = headline_of(cells)
        found = None if headline is None else sensitivity(results.experiment, headline)
        if headline is None or found is None or found.most is None:
            continue
        if effect_of(headline, results.experiment.smallest_effect) is not Effect.NONE:
            of_unknown[UNKNOWNS[found.most]].append(results.factors.name(row))
    if of_unknown:
        many = sum(map(len, of_unknown.values())) > ROWS_IN_WORDS
        preposition = results.factors.preposition
        named = (
            f"on {words} {f'in {len(names)} of {len(rows)} rows' if many else at_rows(preposition, names)}"
            for words, names in of_unknown.items()
        )
        yield Finding("sensitivity", f"Of the sampled inputs, the saving depends most {'; '.join(named)}.")
