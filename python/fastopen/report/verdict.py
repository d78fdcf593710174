"""One or two plain sentences on a page: is TCP Fast Open worth turning on, by its own numbers."""

from collections.abc import Sequence
from typing import Final

from fastopen.attribution.phrases import listed
from fastopen.experiments import VaryingFactors, treatments_of
from fastopen.statistics import CellResult, Results

# Less than this is printed as 0.0, and no difference to anybody.
SHOWN_MIN: Final = 0.05
# Of more rows than this a sentence gives counts instead of a list.
ROWS_IN_WORDS: Final = 6


def page_verdict(results: Results, page: str) -> str:
    """The sentences, each with its figures. The intervals decide, not the medians."""
    of_page = [result for result in results.cells if result.cell.page == page]
    if all(result.improvement_ci95 is None for result in of_page):
        return "Too few valid repeats to say what TFO does."
    sentences, subject = [], "TFO"
    for arm in treatments_of(results.experiment.arms):
        cells = [result for result in of_page if result.cell.arm.name == arm.name]
        if subject == "TFO":
            sentences.append(worth(cells))
        sentences.append(_of_arm(results.factors, cells, f"{arm.condition} {subject}"))
        subject = "it"
    return " ".join(sentence for sentence in sentences if sentence)


def worth(cells: Sequence[CellResult]) -> str:
    """What the intervals of the arm that TFO is judged by come to."""
    intervals = [result.improvement_ci95 for result in cells]
    if not intervals or None in intervals:
        return ""
    known = [interval for interval in intervals if interval is not None]
    if all(low > 0 for low, _ in known):
        return "Worth turning on."
    if any(high < 0 for _, high in known):
        return "Not worth turning on everywhere."
    if any(low > 0 for low, _ in known):
        return "Worth turning on for some of these networks."
    return "Not worth turning on here."


def _of_arm(factors: VaryingFactors, cells: Sequence[CellResult], opening: str) -> str:
    if len(cells) > ROWS_IN_WORDS:
        return _of_many(cells, opening)
    groups: dict[str, list[str]] = {"sooner": [], "later": [], "unclear": [], "unknown": []}
    for result in cells:
        where = factors.name(result.cell).replace(" ms", "\N{NO-BREAK SPACE}ms", 1)
        gain, interval = result.improvement_percent, result.improvement_ci95
        if gain is None or interval is None:
            groups["unknown"].append(f"at {where}")
        elif abs(gain) < SHOWN_MIN:
            groups["unclear"].append(f"at {where}")
        elif interval[0] > 0:
            groups["sooner"].append(f"{gain:.1f} % at {where}")
        elif interval[1] < 0:
            groups["later"].append(f"{-gain:.1f} % at {where}")
        else:
            groups["unclear"].append(f"at {where}")
    parts = []
    if groups["sooner"]:
        parts.append(f"loads it sooner by {listed(groups['sooner'])}")
    if groups["later"]:
        parts.append(f"loads it later by {listed(groups['later'])}")
    if groups["unclear"]:
        parts.append(f"makes no difference {listed(groups['unclear'])} that these repeats could tell")
    if groups["unknown"]:
        parts.append(f"has too few valid repeats {listed(groups['unknown'])} to say")
    # A figure and its unit stay on one line.
    return f"{opening} {', and '.join(parts)}.".replace(" %", "\N{NO-BREAK SPACE}%")


def _of_many(cells: Sequence[CellResult], opening: str) -> str:
    """The same of more rows than anybody would read a list of: how many, and from what to what."""
    counts = {"sooner": 0, "later": 0, "unclear": 0, "unknown": 0}
    gains: list[float] = []
    for result in cells:
        gain, interval = result.improvement_percent, result.improvement_ci95
        if gain is None or interval is None:
            counts["unknown"] += 1
            continue
        gains.append(gain)
        sure = abs(gain) >= SHOWN_MIN and not interval[0] <= 0 <= interval[1]
        counts["unclear" if not sure else "sooner" if gain > 0 else "later"] += 1
    words = {
        "sooner": "loads it sooner in",
        "later": "loads it later in",
        "unclear": "makes no difference that these repeats could tell in",
        "unknown": "has too few valid repeats to say in",
    }
    parts = [f"{words[what]} {count} of {len(cells)} rows" for what, count in counts.items() if count]
    spread = f" (saves {_signed(min(gains))} % to {_signed(max(gains))} %)" if gains else ""
    return f"{opening} {listed(parts)}{spread}.".replace(" %", "\N{NO-BREAK SPACE}%")


def _signed(percent: float) -> str:
    """`+4.0`, `-4.0`, but never `-0.0`."""
    return f"{round(percent, 1) or 0.0:+.1f}"
