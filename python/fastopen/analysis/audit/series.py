"""Check a page over networks that differ only in RTT: load time must grow with the RTT, but not much faster.

The growth per millisecond of RTT must also change similarly with and without TFO.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Final, NamedTuple

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
    sooner, faster = list[str](), list[str]()
    longer, shorter = (f"over {one.rtt.normalize():f} ms" for one in (higher, lower))
    for name, before, after in (("without TFO", lower.off, higher.off), ("with TFO", lower.tfo, higher.tfo)):
        if after + slack < before:
            sooner.append(f"{name} {_ms(after)} {longer}, {_ms(before)} {shorter}")
        elif lower.rtt > 0 and after - slack > before * higher.rtt / lower.rtt * GROWTH_MAX:
            step = f"{name} from {_ms(before)} at {lower.rtt} ms to {_ms(after)}"
            faster.append(f"{step}, {after / before:.1f} times")
    if sooner:
        yield AuditFinding(higher.cell, "monotony", "loads sooner over the longer RTT: " + "; ".join(sooner))
    if faster:
        rtts = f"the RTT grows {higher.rtt / lower.rtt:.3g} times, but the time "
        why = ": something other than round trips, such as a time-out"
        yield AuditFinding(higher.cell, "growth", rtts + "; ".join(faster) + why)


class _Bend(NamedTuple):
    """The growth of the time with or without TFO over two steps of RTT, in ms per ms of RTT."""

    name: str
    before: Decimal
    after: Decimal
    kept: int
    """1 if the second step keeps more than half of the first step's slope, -1 if it keeps less. 0 if rounding
    can change this answer, or if it can explain the growth in the first step."""


def _question(*cells: MeasuredCell) -> Iterator[AuditFinding]:
    """Ask about the last of three cells if the slope falls by more than half in one of its two times only."""
    without = _bend("without TFO", cells, [one.off for one in cells])
    with_tfo = _bend("with TFO", cells, [one.tfo for one in cells])
    near, at, far = (f"{one.rtt.normalize():f}" for one in cells)
    for one, other in ((without, with_tfo), (with_tfo, without)):
        if one.kept < 0 < other.kept:
            detail = (
                f"{one.name} each ms of RTT adds {_slope(one.before)} ms from {near} to {at} ms"
                f" and {_slope(one.after)} ms from {at} to {far} ms,"
                f" {other.name} {_slope(other.before)} and {_slope(other.after)}:"
                " does this cell hold what was measured?"
            )
            yield AuditFinding(cells[-1].cell, "slope", detail)


def _bend(name: str, cells: Sequence[MeasuredCell], times: Sequence[Decimal]) -> _Bend:
    first, second = cells[1].rtt - cells[0].rtt, cells[2].rtt - cells[1].rtt
    near, at, far = (one.half_digit for one in cells)
    before, after = (times[1] - times[0]) / first, (times[2] - times[1]) / second
    # The middle time is in both slopes and moves them in opposite directions.
    slack = (at + far) / second + SLOPE_MIN * (near + at) / first
    kept = after - SLOPE_MIN * before
    clear = times[1] - at > times[0] + near and abs(kept) > slack
    return _Bend(name, before, after, (1 if kept > 0 else -1) if clear else 0)


def _slope(slope: Decimal) -> str:
    return f"{slope:.1f}" if abs(slope) >= 1 else f"{slope:.2g}"


def _ms(milliseconds: Decimal) -> str:
    return f"{milliseconds.normalize():f} ms"
