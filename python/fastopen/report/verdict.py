"""One or two plain sentences on a page: is TCP Fast Open worth turning on, by its own numbers."""

from collections.abc import Sequence
from typing import Final

from fastopen.attribution.phrases import NBSP, listed
from fastopen.experiments import VaryingFactors, treatments_of
from fastopen.statistics import CellResult, Results

# Percent; less than this is printed as 0.0.
SHOWN_MIN: Final = 0.05
# Of more rows than this a sentence gives counts instead of a list.
ROWS_IN_WORDS: Final = 6
# What TFO does, to how many rows or to which.
SENTENCES: Final = {
    "sooner": "loads it sooner {}",
    "later": "loads it later {}",
    "unclear": "makes no difference {} that these repeats could tell",
    "unknown": "has too few valid repeats {} to say",
}


def page_verdict(results: Results, page: str) -> str:
    """The sentences, each with its figures. The intervals decide, not the medians."""
    of_page = [result for result in results.cells if result.cell.page == page]
    if all(result.improvement_ci95 is None for result in of_page):
        return "Too few valid repeats to say what TFO does."
    arms = treatments_of(results.experiment.arms)
    of_arm = [[result for result in of_page if result.cell.arm.name == arm.name] for arm in arms]
    sentences = [worth(of_arm[0])] if arms else []
    for arm, cells, subject in zip(arms, of_arm, ["TFO", *("it" for _ in arms[1:])], strict=True):
        sentences.append(_sentence(results.factors, cells, f"{arm.condition} {subject}"))
    # A figure and its unit stay on one line.
    return " ".join(filter(None, sentences)).replace(" %", f"{NBSP}%")


def outcome(result: CellResult) -> str:
    """What its interval says: a key of SENTENCES."""
    gain, interval = result.improvement_percent, result.improvement_ci95
    if gain is None or interval is None:
        return "unknown"
    if abs(gain) < SHOWN_MIN or interval[0] <= 0 <= interval[1]:
        return "unclear"
    return "sooner" if gain > 0 else "later"


def worth(cells: Sequence[CellResult]) -> str:
    """What the intervals of the arm that TFO is judged by come to; empty where one is missing."""
    intervals = [result.improvement_ci95 for result in cells if result.improvement_ci95 is not None]
    if not cells or len(intervals) < len(cells):
        return ""
    if all(low > 0 for low, _ in intervals):
        return "Worth turning on."
    if any(high < 0 for _, high in intervals):
        return "Not worth turning on everywhere."
    if any(low > 0 for low, _ in intervals):
        return "Worth turning on for some of these networks."
    return "Not worth turning on here."


def _sentence(factors: VaryingFactors, cells: Sequence[CellResult], opening: str) -> str:
    """Row by row; of more than ROWS_IN_WORDS rows: how many of each outcome, and the range of the gains."""
    of_outcome = {key: [cell for cell in cells if outcome(cell) == key] for key in SENTENCES}
    if len(cells) > ROWS_IN_WORDS:
        counts = [
            SENTENCES[key].format(f"in {len(found)} of {len(cells)} rows")
            for key, found in of_outcome.items()
            if found
        ]
        gains = [cell.improvement_percent for cell in cells if cell.improvement_percent is not None]
        ends = [f"{round(end, 1) or 0.0:+.1f} %" for end in (min(gains), max(gains))] if gains else []
        return f"{opening} {listed(counts)}" + (f" (saves {' to '.join(ends)})." if ends else ".")
    rows = [
        SENTENCES[key].format(_rows(factors, found, with_gains=key in ("sooner", "later")))
        for key, found in of_outcome.items()
        if found
    ]
    return f"{opening} {', and '.join(rows)}."


def _rows(factors: VaryingFactors, cells: Sequence[CellResult], *, with_gains: bool) -> str:
    """`by 4.0 % at 20 ms and 5.0 % at 100 ms`, `at 20 ms`."""
    rows = [f"at {factors.name(cell.cell)}".replace(" ms", f"{NBSP}ms", 1) for cell in cells]
    if not with_gains:
        return listed(rows)
    gains = [abs(cell.improvement_percent or 0.0) for cell in cells]
    return f"by {listed([f'{gain:.1f} % {row}' for gain, row in zip(gains, rows, strict=True)])}"
