"""One or two plain sentences on a page: is TCP Fast Open worth turning on, by its own numbers."""

from collections.abc import Sequence
from typing import Final

from fastopen.experiments import VaryingFactors
from fastopen.statistics import CellResult, Results

# Less than this is printed as 0.0, and no difference to anybody.
SHOWN_MIN: Final = 0.05
# Why a figure stands alone.
NO_NOISE: Final = (
    "No interval: the virtual engine is deterministic, and nothing was lost at random, so there is no noise"
    " to measure; the same run gives the same figures."
)
# Of more rows than this a sentence gives counts instead of a list.
ROWS_IN_WORDS: Final = 6


def page_verdict(results: Results, page: str) -> str:
    """The sentences, each with its figures. The intervals decide, not the medians."""
    arms = {
        name: [
            result for result in results.cells if result.cell.page == page and result.cell.arm.name == name
        ]
        for name in results.experiment.arms
    }
    if all(result.improvement_ci95 is None for results_of_arm in arms.values() for result in results_of_arm):
        return "Too few valid repeats to say what TFO does."
    said = [worth(arms.get("warm", []))]
    if arms.get("warm"):
        said.append(_of_arm(results.factors, arms["warm"], "With warm cookies TFO"))
    if arms.get("cold"):
        opening = "With cold cookies it" if arms.get("warm") else "With cold cookies TFO"
        said.append(_of_arm(results.factors, arms["cold"], opening))
    return " ".join(sentence for sentence in said if sentence)


def worth(warm: Sequence[CellResult]) -> str:
    """What the intervals of the arm with warm cookies, the one that TFO was made for, come to."""
    intervals = [result.improvement_ci95 for result in warm]
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
        parts.append(f"loads it sooner by {_listed(groups['sooner'])}")
    if groups["later"]:
        parts.append(f"loads it later by {_listed(groups['later'])}")
    if groups["unclear"]:
        parts.append(f"makes no difference {_listed(groups['unclear'])} that these repeats could tell")
    if groups["unknown"]:
        parts.append(f"has too few valid repeats {_listed(groups['unknown'])} to say")
    # A figure and its unit stay on one line.
    return f"{opening} {', and '.join(parts)}.".replace(" %", "\N{NO-BREAK SPACE}%")


def _of_many(cells: Sequence[CellResult], opening: str) -> str:
    """The same of more rows than anybody would read a list of: how many, and from what to what."""
    counts = {"sooner": 0, "later": 0, "unclear": 0, "unknown": 0}
    told: list[float] = []
    for result in cells:
        gain, interval = result.improvement_percent, result.improvement_ci95
        if gain is None or interval is None:
            counts["unknown"] += 1
            continue
        told.append(gain)
        sure = abs(gain) >= SHOWN_MIN and not interval[0] <= 0 <= interval[1]
        counts["unclear" if not sure else "sooner" if gain > 0 else "later"] += 1
    words = {
        "sooner": "loads it sooner in",
        "later": "loads it later in",
        "unclear": "makes no difference that these repeats could tell in",
        "unknown": "has too few valid repeats to say in",
    }
    parts = [f"{words[what]} {count} of {len(cells)} rows" for what, count in counts.items() if count]
    spread = f" (saves {min(told):+.1f} % to {max(told):+.1f} %)" if told else ""
    return f"{opening} {_listed(parts)}{spread}.".replace(" %", "\N{NO-BREAK SPACE}%")


def _listed(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
