"""Report the factor that decides the saving: its values, and the value from which no gain is certain."""

from collections.abc import Iterator, Sequence
from typing import Final

from fastopen.analysis.statistics import CellResult, Deciding, Effect, Results, deciding_factor, effect_of
from fastopen.common.phrases import NBSP, capitalised, listed, with_sign
from fastopen.report.findings.verdict import questions_of
from fastopen.report.model import Finding

RANK: Final = 40
SEVERITY: Final = "answer"

# A sentence on more values names only the first and the last.
LEVELS_IN_WORDS = 6


def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding for each question of a page, with the question if there are several."""
    of_page = [result for result in results.cells if result.cell.page == page]
    for question, cells in questions_of(results, of_page).items():
        found = deciding_factor(results, cells)
        if found is not None:
            opening = f"{capitalised(question)}: " if question else ""
            yield Finding("deciding_factor", f"{opening}{' '.join(_sentences(results, found))}")


def _sentences(results: Results, found: Deciding) -> Iterator[str]:
    levels = found.levels
    named = levels if len(levels) <= LEVELS_IN_WORDS else (levels[0], levels[-1])
    savings = [f"{with_sign(level.saving_percent)}{NBSP}% ({level.phrase})" for level in named]
    titles = [factor.title for factor in (found.factor, *found.together)]
    joint = ", which vary together" if found.together else ""
    yield f"What decides most: {listed(titles)}{joint}. TFO saves {listed(savings)}, medians of rows."
    smallest = results.experiment.smallest_effect
    gains = [any(effect_of(one, smallest) is Effect.REDUCES for one in level.cells) for level in levels]
    if gains[0] and not gains[-1]:
        last = max(number for number, gain in enumerate(gains) if gain)
        yield f"From {levels[last + 1].phrase} on, no row shows a certain gain."
    again = [level.retransmitted for level in levels]
    if again[-1] >= again[0] + 1 and levels[-1].saving_percent < levels[0].saving_percent:
        yield (
            f"Retransmitted segments per load go from {again[0]:g} to {again[-1]:g}: loads then wait for"
            " retransmissions, which TFO does not shorten."
        )


def deciding_of_run(results: Results, cells: Sequence[CellResult]) -> str:
    """Return the sentences on the deciding factor of all pages together, for one question; empty if none."""
    found = deciding_factor(results, cells)
    return "" if found is None else " ".join(_sentences(results, found))
