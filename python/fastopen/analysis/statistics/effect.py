"""The matched-pairs rank-biserial correlation: how consistently one arm beats the other."""

from collections.abc import Sequence


def rank_biserial(differences: Sequence[float]) -> float | None:
    """From -1 (every pair got slower) over 0 to 1 (every pair got faster); None without pairs.

    Kerby 2014: the share of the rank sum of Wilcoxon's signed-rank test that favours one side, less the share
    that favours the other. Pairs without a difference favour neither. Page load times are skewed, and their
    spread in an emulated network is tiny: Cohen's d, a difference in units of that spread, would be huge and
    mean little, while ranks are not moved by outliers.
    """
    moved = [difference for difference in differences if difference != 0]
    if not moved:
        return 0.0 if differences else None
    if len(moved) == 1:
        return 1.0 if moved[0] > 0 else -1.0
    # A tenth of a second to import, and a run without noise has but one pair a cell.
    import numpy as np

    values = np.asarray(moved, dtype=float)
    _, place, times = np.unique(np.abs(values), return_inverse=True, return_counts=True)
    # Equal ones share the mean of their ranks.
    ranks = (np.cumsum(times) - (times - 1) / 2)[place]
    return float((ranks * np.sign(values)).sum() / ranks.sum())
