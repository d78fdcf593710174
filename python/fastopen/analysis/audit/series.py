"""Check a page over networks that differ only in RTT: load time must grow with the RTT, but not much faster.

The growth per millisecond of RTT must also change similarly with and without TFO.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Final

from fastopen.analysis.audit.findings import AuditFinding
from fastopen.analysis.audit.physics import MeasuredCell

# A load that only waits for round trips grows in proportion to the RTT. The additional half allows for noise.
GROWTH_MAX: Final = Decimal("1.5")
# A slope that keeps more than this part of the previous one may be noise, because published loads are few.
SLOPE_MIN: Final = Decimal("0.5")


def series_findings(series: Sequence[MeasuredCell]) -> list[AuditFinding]:
    """Return the findings on a series. A finding that compares several cells is reported for the cell with
    the longest RTT. If two cells have the same RTT but other times, it is reported for the later one."""
    found: list[AuditFinding] = []
    of_rtt: dict[Decimal, MeasuredCell] = {}
    for one in series:
        first = of_rtt.setdefault(one.rtt, one)
        if (first.off, first.tfo) != (one.off, one.tfo):
            there = f"line {first.cell.line}: {first.cell.off} and {first.cell.tfo} {first.cell.unit}"
            found.append(AuditFinding(one.cell, "duplicate", f"other times than in {there}"))
    in_order = sorted(of_rtt.values(), key=lambda one: one.rtt)
    steps = [finding for lower, higher in pairwise(in_order) for finding in _step(lower, higher)]
    # A wrong cell explains changes of slope next to it, so do not report these.
    explained = {finding.cell.line for finding in steps}
    explained |= {one.cell.line for one in in_order if not one.unit_is_right}
    found += steps
    for three in zip(in_order, in_order[1:], in_order[2:], strict=False):
        if explained.isdisjoint(one.cell.line for one in three):
            found += _question(*three)
    return found


def _step(lower: MeasuredCell, higher: MeasuredCell) -> Iterator[AuditFinding]:
    slack = lower.half_digit + higher.half_digit
    sooner: list[str] = []
    faster: list[str] = []
    longer, shorter = (f"over {one.rtt.normalize():f} ms" for one in (higher, lower))
    for name, before, after in (("without TFO", lower.off, higher.off), ("with TFO", lower.tfo, higher.tfo)):
        step = f"{name} from {_ms(before)} at {lower.rtt} ms to {_ms(after)}"
        if after + slack < before:
            sooner.append(f"{name} {_ms(after)} {longer}, {_ms(before)} {shorter}")
        elif lower.rtt > 0 and after - slack > before * higher.rtt / lower.rtt * GROWTH_MAX:
            faster.append(f"{step}, {after / before:.1f} times")
    if sooner:
        yield AuditFinding(higher.cell, "monotony", "loads sooner over the longer RTT: " + "; ".join(sooner))
    if faster:
        rtts = f"the RTT grows {higher.rtt / lower.rtt:.3g} times, but the time "
        why = ": something other than round trips, such as a time-out"
        yield AuditFinding(higher.cell, "growth", rtts + "; ".join(faster) + why)


@dataclass(frozen=True)
class _Bend:
    """The growth of the time with or without TFO over two steps of RTT, in ms per ms of RTT."""

    name: str
    before: Decimal
    after: Decimal
    slack: Decimal
    """The largest change of `after - SLOPE_MIN * before` that rounding can cause."""
    grows: bool
    """True if the time grows in the first step, regardless of rounding."""

    @property
    def falls(self) -> bool:
        """Return True if the slope falls by more than half, regardless of rounding."""
        return self.grows and self.after - SLOPE_MIN * self.before < -self.slack

    @property
    def holds(self) -> bool:
        """Return True if the slope keeps more than half of its value, regardless of rounding."""
        return self.grows and self.after - SLOPE_MIN * self.before > self.slack


def _question(lower: MeasuredCell, middle: MeasuredCell, higher: MeasuredCell) -> Iterator[AuditFinding]:
    bends = (
        _bend("without TFO", (lower, middle, higher), (lower.off, middle.off, higher.off)),
        _bend("with TFO", (lower, middle, higher), (lower.tfo, middle.tfo, higher.tfo)),
    )
    near, at, far = (f"{one.rtt.normalize():f}" for one in (lower, middle, higher))
    for one, other in (bends, bends[::-1]):
        if one.falls and other.holds:
            detail = (
                f"{one.name} each ms of RTT adds {_slope(one.before)} ms from {near} to {at} ms"
                f" and {_slope(one.after)} ms from {at} to {far} ms,"
                f" {other.name} {_slope(other.before)} and {_slope(other.after)}:"
                " does this cell hold what was measured?"
            )
            yield AuditFinding(higher.cell, "slope", detail)


def _bend(
    name: str, cells: tuple[MeasuredCell, MeasuredCell, MeasuredCell], times: tuple[Decimal, Decimal, Decimal]
) -> _Bend:
    first, second = cells[1].rtt - cells[0].rtt, cells[2].rtt - cells[1].rtt
    near, at, far = (one.half_digit for one in cells)
    return _Bend(
        name,
        before=(times[1] - times[0]) / first,
        after=(times[2] - times[1]) / second,
        # The middle time is in both slopes and moves them in opposite directions.
        slack=(at + far) / second + SLOPE_MIN * (near + at) / first,
        grows=times[1] - at > times[0] + near,
    )


def _slope(slope: Decimal) -> str:
    return f"{slope:.1f}" if abs(slope) >= 1 else f"{slope:.2g}"


def _ms(milliseconds: Decimal) -> str:
    return f"{milliseconds.normalize():f} ms"
