"""Compute the upper bound on the page load time that TCP Fast Open can save. All reports use this bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

# Tolerances for inexact clocks and a busy machine. A saving must exceed the bound by more than their sum.
SLACK_SHARE: Final = 0.02
SLACK_MS: Final = 1.0
# The mark of savings that exceed the bound, in tables and figures.
BEYOND_BOUND: Final = "\N{DAGGER}"
BEYOND_BOUND_NOTE: Final = (
    f"{BEYOND_BOUND}: more than handshakes in a row took; something else took less time as well."
)
# Added to the note on marked savings if a network has random loss.
LOSS_NOTE: Final = (
    "If segments are lost at random, the bound is not a limit. It comes from the baseline's loads, and the"
    " loads of a pair lose different segments, each of which may cost more than a handshake."
)


@dataclass(frozen=True)
class Bound:
    """The upper bound on the time that TFO can save, in ms (`ms`) and in percent of a load's page load time
    (`percent`), and the page load time without TFO (`plt_ms`). All are medians over loads without TFO."""

    ms: float
    plt_ms: float
    percent: float

    def beaten_by(self, improvement_percent: float | None) -> bool:
        """Return True if the saving exceeds `percent` by more than the tolerances SLACK_SHARE and SLACK_MS.
        In this case, something other than handshakes also became faster."""
        # Both percentages are medians over pairs, relative to each pair's own load without TFO. So if no
        # pair saves more than its handshakes took, the median saving does not exceed the bound.
        most = self.percent * (1 + SLACK_SHARE) + 100 * SLACK_MS / self.plt_ms
        return improvement_percent is not None and improvement_percent > most


def savings_bound(baseline: Sequence[tuple[int, int | None]]) -> Bound | None:
    """Return the upper bound on the time that TFO can save on a page; None if no load has a page load time.

    `baseline` contains a pair of times in ns for each valid load without TFO. The first is the largest sum of
    handshake times along any chain of events of the load. The second is the page load time, or None if the
    load did not finish. If losses or queues also change, the saving can exceed the bound."""
    # Proof: docs/decisions/bound.md.
    known = [(handshakes_ns, plt_ns) for handshakes_ns, plt_ns in baseline if plt_ns]
    if not known:
        return None
    ms, plt_ms = (median(times_ns) / 1e6 for times_ns in zip(*known, strict=True))
    return Bound(ms, plt_ms, median(100 * handshakes_ns / plt_ns for handshakes_ns, plt_ns in known))
