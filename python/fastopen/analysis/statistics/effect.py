"""Compute the matched-pairs rank-biserial correlation: how consistently one arm is faster than another."""

from collections.abc import Sequence


def rank_biserial(differences: Sequence[float]) -> float | None:
    """Return the correlation, from -1 (every pair got slower) to 1 (every pair faster); None without pairs.

    It is the favourable part of the rank sum of Wilcoxon's signed-rank test minus the unfavourable part
    (Kerby 2014), or 0 if no pair differs. Page load times are skewed, with little spread in an emulated
    network: Cohen's d, in units of this spread, would be huge. Ranks are also insensitive to outliers.
    """
    moved = [difference for difference in differences if difference != 0]
    if not moved:
        return 0.0 if differences else None
    if len(moved) == 1:
        return 1.0 if moved[0] > 0 else -1.0
    # Importing numpy takes a tenth of a second, and a run without noise has only one pair per cell.
    import numpy as np

    values = np.asarray(moved, dtype=float)
    _, place, times = np.unique(np.abs(values), return_inverse=True, return_counts=True)
    # Equal values share the mean of their ranks.
    ranks = (np.cumsum(times) - (times - 1) / 2)[place]
    return float((ranks * np.sign(values)).sum() / ranks.sum())
