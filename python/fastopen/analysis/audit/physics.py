"""Find impossible or implausible published times of a page over networks that differ only in RTT.

A page load time can be too short for the RTT or the bytes. A saving can exceed the time of the handshakes:
TCP Fast Open and early data (0-RTT) of TLS 1.3 or QUIC each save at most one RTT for each connection that the
load waited for in sequence. The request after each handshake takes at least another RTT that cannot be saved.
No bound is known for savings of QUIC over TCP, because windows and loss recovery differ too.

Load times must also grow with the RTT, but not much faster than it, and similarly with and without TFO."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Final, NamedTuple, Self

from fastopen.analysis.audit.kinds import AuditFinding
from fastopen.analysis.audit.table import FIRST_FLIGHTS, UNITS_S, PrintedCell

# The number of requests of a load, and the source of this number, by (experiment, page). A load opens at most
# one connection for each request.
REQUESTS: Final[dict[tuple[str, str], tuple[int, str]]] = {
    ("meissner", "www.web.mit.edu"): (6, "the report counts six requests in all three tests"),
    ("meissner", "www.admission.gatech.edu"): (30, "the report says about 30 requests"),
    ("cs244-2015", "44 resources over 7 domains"): (44, "the name of the page says so"),
}
# Published times are means of few loads, so a saving is reported only if it exceeds its bound by this factor.
SLACK: Final = Decimal("1.02")
# A larger factor for bounds from a load of the page at another RTT, because such bounds are less certain.
SLACK_OF_ROOM: Final = Decimal("1.1")
# If a load only waits for round trips, its time is proportional to the RTT. Noise may add half of this time.
GROWTH_MAX: Final = Decimal("1.5")
# Published loads are few, so noise can reduce the load time that each ms of RTT adds to this fraction of it.
SLOPE_MIN: Final = Decimal("0.5")


@dataclass(frozen=True)
class MeasuredCell:
    """A row of a published table with its page load times in ms without TFO (`off`) and with TFO, corrected
    if the table prints a wrong unit. `half_digit`: the largest error in ms from rounding a time."""

    cell: PrintedCell
    rtt: Decimal
    off: Decimal
    tfo: Decimal
    half_digit: Decimal

    @classmethod
    def of(cls, cell: PrintedCell, unit_s: Decimal) -> Self:
        """Convert a row of a published table to ms. `unit_s`: the real unit of its times, in seconds."""
        factor = unit_s * 1000
        return cls(cell, cell.rtt_ms, cell.off * factor, cell.tfo * factor, cell.half_digit * factor)

    @property
    def unit_is_right(self) -> bool:
        """Return True if the times are in the unit that the table prints."""
        return self.off == self.cell.off * (UNITS_S[self.cell.unit] * 1000)

    @property
    def saved(self) -> Decimal:
        """Return the smallest saving in ms that agrees with the two times, which are rounded."""
        return self.off - self.tfo - 2 * self.half_digit

    @property
    def trips_off(self) -> int:
        """Return the fewest round trips from opening a connection to the first response byte, without TFO."""
        return FIRST_FLIGHTS[self.cell.flight_off]

    @property
    def trips_saved(self) -> int:
        """Return the number of round trips that TFO or early data saves on each connection."""
        return self.trips_off - FIRST_FLIGHTS[self.cell.flight_tfo]

    @property
    def room(self) -> Decimal:
        """Return the maximum number of handshakes that a load without TFO can wait for in sequence. A request
        and its response follow each handshake, and all must fit into the page load time."""
        return (self.off + self.half_digit) / (self.trips_off * self.rtt)


def physics_findings(series: Sequence[MeasuredCell]) -> Iterator[AuditFinding]:
    """Yield findings on page load times that are too short for the RTT or the rate, and on savings that are
    too large. `series`: rows of a published table for one page over networks that differ only in RTT."""
    tightest = _tightest_below(series)
    for one in series:
        yield from _too_soon(one)
        same_transport = one.cell.flight_off.startswith("quic") == one.cell.flight_tfo.startswith("quic")
        if one.rtt <= 0 or one.saved <= 0 or one.trips_saved <= 0 or not same_transport:
            continue
        if reasons := list(_beyond_bounds(one, tightest[one.rtt])):
            detail = f"saves {_ms(one.off - one.tfo)}, {one.saved / one.rtt:.1f} RTTs, but "
            yield AuditFinding(one.cell, "bound", detail + "; ".join(reasons))


def _too_soon(one: MeasuredCell) -> Iterator[AuditFinding]:
    for name, time, flight in (
        ("without TFO", one.off, one.cell.flight_off),
        ("with TFO", one.tfo, one.cell.flight_tfo),
    ):
        least = FIRST_FLIGHTS[flight]
        if time + one.half_digit < least * one.rtt:
            needed = "a request needs one" if least == 1 else f"handshakes and a request need {least}"
            detail = f"{_ms(time)} {name} is {time / one.rtt:.2f} RTTs, but {needed}"
            yield AuditFinding(one.cell, "below_rtt", detail)
        if one.cell.bytes is not None and one.cell.down_mbit is not None:
            needed_ms = one.cell.bytes * 8 / (one.cell.down_mbit * 1000)
            if time + one.half_digit < needed_ms:
                detail = f"{_ms(time)} {name}, but {one.cell.bytes} bytes need {_ms(needed_ms)} at this rate"
                yield AuditFinding(one.cell, "below_rate", detail)


def _tightest_below(series: Sequence[MeasuredCell]) -> dict[Decimal, MeasuredCell | None]:
    """Map each RTT to the row with the smallest `room` for handshakes among the rows with a shorter RTT,
    ignoring rows with an RTT of 0. RTTs without such a row map to None."""
    found: dict[Decimal, MeasuredCell | None] = {}
    tightest: MeasuredCell | None = None
    for rtt, cells in groupby(sorted(series, key=attrgetter("rtt")), attrgetter("rtt")):
        found[rtt] = tightest
        if rtt > 0:
            tightest = min((one for one in (tightest, *cells) if one is not None), key=attrgetter("room"))
    return found


def _beyond_bounds(one: MeasuredCell, least: MeasuredCell | None) -> Iterator[str]:
    requests, source = one.cell.requests, "the table says how many"
    if requests is None:
        requests, source = REQUESTS.get((one.cell.experiment, one.cell.page), (None, ""))
    if requests is not None and one.saved > requests * one.trips_saved * one.rtt * SLACK:
        yield f"{requests} requests can open {requests} connections in a row at most ({source})"
    most = one.off * one.trips_saved / one.trips_off
    if one.saved > most * SLACK:
        if one.trips_off == 2:
            why = "half of a load", "each is followed by a request that takes as long"
        else:
            part = f"{one.trips_saved} of {one.trips_off} round trips"
            why = f"{part} of a load", "no more of them precede a connection's first response"
        yield f"handshakes take no more than {why[0]}, {_ms(most)} of {_ms(one.off)}: {why[1]}"
    if least is not None and one.saved > least.room * one.trips_saved * one.rtt * SLACK_OF_ROOM:
        yield (
            f"the same page at {least.rtt} ms, {_ms(least.off)}, has room for {least.room:.1f}"
            " handshakes and requests in a row at most"
        )


def _ms(milliseconds: Decimal) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds >= 100 else f"{milliseconds.normalize():.3g} ms"


def series_findings(series: Sequence[MeasuredCell]) -> Iterator[AuditFinding]:
    """Yield findings on implausible changes of the page load time between published rows, such as a shorter
    time over a longer RTT. `series`: the rows for one page over networks that differ only in RTT."""
    of_rtt: dict[Decimal, MeasuredCell] = {}
    for one in series:
        first = of_rtt.setdefault(one.rtt, one)
        if (first.off, first.tfo) != (one.off, one.tfo):
            there = f"line {first.cell.line}: {first.cell.off} and {first.cell.tfo} {first.cell.unit}"
            yield AuditFinding(one.cell, "duplicate", f"other times than in {there}")
    in_order = sorted(of_rtt.values(), key=lambda one: one.rtt)
    steps = [finding for lower, higher in pairwise(in_order) for finding in _step(lower, higher)]
    # A wrong time also changes the slopes next to it, so do not question these slopes as well.
    explained = {finding.cell.line for finding in steps}
    explained |= {one.cell.line for one in in_order if not one.unit_is_right}
    yield from steps
    for three in zip(in_order, in_order[1:], in_order[2:], strict=False):
        if explained.isdisjoint(one.cell.line for one in three):
            yield from _question(*three)


def _step(lower: MeasuredCell, higher: MeasuredCell) -> Iterator[AuditFinding]:
    slack = lower.half_digit + higher.half_digit
    sooner, faster = list[str](), list[str]()
    longer, shorter = (f"over {one.rtt.normalize():f} ms" for one in (higher, lower))
    for name, before, after in (("without TFO", lower.off, higher.off), ("with TFO", lower.tfo, higher.tfo)):
        if after + slack < before:
            sooner.append(f"{name} {_plain_ms(after)} {longer}, {_plain_ms(before)} {shorter}")
        elif lower.rtt > 0 and after - slack > before * higher.rtt / lower.rtt * GROWTH_MAX:
            step = f"{name} from {_plain_ms(before)} at {lower.rtt} ms to {_plain_ms(after)}"
            faster.append(f"{step}, {after / before:.1f} times")
    if sooner:
        yield AuditFinding(higher.cell, "monotony", "loads sooner over the longer RTT: " + "; ".join(sooner))
    if faster:
        rtts = f"the RTT grows {higher.rtt / lower.rtt:.3g} times, but the time "
        why = ": something other than round trips, such as a time-out"
        yield AuditFinding(higher.cell, "growth", rtts + "; ".join(faster) + why)


def _question(*cells: MeasuredCell) -> Iterator[AuditFinding]:
    """Compare three published rows, sorted by RTT. Yield a finding that questions the last row if its time
    without TFO grows too slowly but its time with TFO does not, or vice versa. A time grows too slowly if
    each ms of RTT adds less than half as much time between the last two rows as between the first two."""
    without = _bend("without TFO", cells, [one.off for one in cells])
    with_tfo = _bend("with TFO", cells, [one.tfo for one in cells])
    near, at, far = (f"{one.rtt.normalize():f}" for one in cells)
    for falls, other in ((without, with_tfo), (with_tfo, without)):
        if falls.kept < 0 < other.kept:
            detail = (
                f"{falls.name} each ms of RTT adds {_slope(falls.before)} ms from {near} to {at} ms"
                f" and {_slope(falls.after)} ms from {at} to {far} ms,"
                f" {other.name} {_slope(other.before)} and {_slope(other.after)}:"
                " is this cell the measured time?"
            )
            yield AuditFinding(cells[-1].cell, "slope", detail)


class _Bend(NamedTuple):
    """Two slopes of the load time, in ms per ms of RTT: from the first of three rows to the second
    (`before`), and from the second to the third (`after`)."""

    name: str
    before: Decimal
    after: Decimal
    kept: int
    """1 if the second slope exceeds half of the first, otherwise -1; 0 if rounded times leave this open."""


def _bend(name: str, cells: Sequence[MeasuredCell], times: Sequence[Decimal]) -> _Bend:
    first, second = cells[1].rtt - cells[0].rtt, cells[2].rtt - cells[1].rtt
    near, at, far = (one.half_digit for one in cells)
    before, after = (times[1] - times[0]) / first, (times[2] - times[1]) / second
    # An error of the middle time changes both slopes, in opposite directions.
    slack = (at + far) / second + SLOPE_MIN * (near + at) / first
    kept = after - SLOPE_MIN * before
    clear = times[1] - at > times[0] + near and abs(kept) > slack
    return _Bend(name, before, after, (1 if kept > 0 else -1) if clear else 0)


def _slope(slope: Decimal) -> str:
    return f"{slope:.1f}" if abs(slope) >= 1 else f"{slope:.2g}"


def _plain_ms(milliseconds: Decimal) -> str:
    return f"{milliseconds.normalize():f} ms"
