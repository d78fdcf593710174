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
    """The upper bound on the time that TFO can save (`ms`), and the page load time without TFO (`plt_ms`).
    Both are medians over the loads without TFO."""

    ms: float
    plt_ms: float

    @property
    def percent(self) -> float:
        """Return the upper bound on the saving as a percentage of the page load time without TFO."""
        return 100 * self.ms / self.plt_ms

    def beaten_by(self, improvement_percent: float | None) -> bool:
        """Return True if the saving exceeds the upper bound by more than the tolerances SLACK_SHARE and
        SLACK_MS. In this case, something other than handshakes also became faster."""
        most_ms = self.ms * (1 + SLACK_SHARE) + SLACK_MS
        return improvement_percent is not None and improvement_percent * self.plt_ms > 100 * most_ms


def savings_bound(baseline: Sequence[tuple[int, int | None]]) -> Bound | None:
    """Return the upper bound on the time that TFO can save on a page; None if no load has a page load time.

    `baseline` contains a pair of times in ns for each valid load without TFO. The first is the largest sum of
    handshake times along any chain of events of the load. The second is the page load time, or None if the
    load did not finish. If losses or queues also change, the saving can exceed the bound."""
    # Proof: docs/decisions/bound.md.
    handshakes_ns = [handshakes for handshakes, plt_ns in baseline if plt_ns]
    plts_ns = [plt_ns for _, plt_ns in baseline if plt_ns]
    if not plts_ns:
        return None
    return Bound(median(handshakes_ns) / 1e6, median(plts_ns) / 1e6)
