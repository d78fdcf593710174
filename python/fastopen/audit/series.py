"""One page over networks that differ in their RTT: its time grows with the RTT, and not faster."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Final

from fastopen.audit.findings import Finding
from fastopen.audit.physics import MeasuredCell

# A load that is nothing but round trips grows as the RTT does; what grows faster has other causes. The half
# on top is for the noise of few loads.
GROWTH_MAX: Final = Decimal("1.5")


def series_findings(series: Sequence[MeasuredCell]) -> list[Finding]:
    """What does not go together in a series. A finding is on the cell of the longer RTT."""
    found: list[Finding] = []
    of_rtt: dict[Decimal, MeasuredCell] = {}
    for one in series:
        first = of_rtt.setdefault(one.rtt, one)
        if (first.off, first.tfo) != (one.off, one.tfo):
            there = f"line {first.cell.line}: {first.cell.off} and {first.cell.tfo} {first.cell.unit}"
            found.append(Finding(one.cell, "duplicate", f"other times than in {there}"))
    for lower, higher in pairwise(sorted(of_rtt.values(), key=lambda one: one.rtt)):
        found += _step(lower, higher)
    return found


def _step(lower: MeasuredCell, higher: MeasuredCell) -> Iterator[Finding]:
    slack = lower.half_digit + higher.half_digit
    sooner: list[str] = []
    faster: list[str] = []
    longer, shorter = (f"over {one.rtt.normalize():f} ms" for one in (higher, lower))
    for name, before, after in (
        ("without TFO", lower.off, higher.off),
        ("with TFO", lower.tfo, higher.tfo),
    ):
        step = f"{name} from {_ms(before)} at {lower.rtt} ms to {_ms(after)}"
        if after + slack < before:
            sooner.append(f"{name} {_ms(after)} {longer}, {_ms(before)} {shorter}")
        elif lower.rtt > 0 and after - slack > before * higher.rtt / lower.rtt * GROWTH_MAX:
            faster.append(f"{step}, {after / before:.1f} times")
    if sooner:
        yield Finding(higher.cell, "monotony", "loads sooner over the longer RTT: " + "; ".join(sooner))
    if faster:
        rtts = f"the RTT grows {higher.rtt / lower.rtt:.3g} times, but the time "
        why = ": something other than round trips, such as a time-out"
        yield Finding(higher.cell, "growth", rtts + "; ".join(faster) + why)


def _ms(milliseconds: Decimal) -> str:
    return f"{milliseconds.normalize():f} ms"
