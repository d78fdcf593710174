"""What no page can do: save more than its handshakes took, or load before its bytes can arrive.

TCP Fast Open saves at most one RTT for each handshake that the load waited for, one after another. Each of
these handshakes is followed by a request and its answer, another RTT at least, which TFO does not save.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Self

from fastopen.audit.findings import Finding
from fastopen.audit.table import PrintedCell

# (experiment, page) to the requests of a load, which bound its connections, and the source of that.
REQUESTS: Final[dict[tuple[str, str], tuple[int, str]]] = {
    ("meissner", "www.web.mit.edu"): (6, "the report counts six requests in all three tests"),
    ("meissner", "www.admission.gatech.edu"): (30, "the report says about 30 requests"),
    ("cs244-2015", "44 resources over 7 domains"): (44, "the name of the page says so"),
}
# Published times are means of few loads; only what is beyond a bound by more than this is held against them.
SLACK: Final = Decimal("1.02")
# The room for handshakes at another RTT is the same page's, but not the same load's.
SLACK_OF_ROOM: Final = Decimal("1.1")


@dataclass(frozen=True)
class MeasuredCell:
    """A cell in milliseconds, in the unit that its times are really in."""

    cell: PrintedCell
    rtt: Decimal
    off: Decimal
    tfo: Decimal
    half_digit: Decimal

    @classmethod
    def of(cls, cell: PrintedCell, unit_s: Decimal) -> Self:
        """`unit_s` is the true unit of the times, in seconds."""
        factor = unit_s * 1000
        return cls(cell, cell.rtt_ms, cell.off * factor, cell.tfo * factor, cell.half_digit * factor)

    @property
    def saved(self) -> Decimal:
        """At least so much, whatever was rounded."""
        return self.off - self.tfo - 2 * self.half_digit

    @property
    def room(self) -> Decimal:
        """How many handshakes, each with its request, at most follow one another in the load without TFO."""
        return (self.off + self.half_digit) / (2 * self.rtt)


def physics_findings(series: Sequence[MeasuredCell]) -> list[Finding]:
    """Of one page over networks that differ in their RTT alone."""
    found: list[Finding] = []
    for one in series:
        found += _too_soon(one)
        if one.rtt > 0 and one.saved > 0:
            reasons = list(_beyond_bounds(one, series))
            if reasons:
                detail = f"saves {_ms(one.off - one.tfo)}, {one.saved / one.rtt:.1f} RTTs, but "
                found.append(Finding(one.cell, "bound", detail + "; ".join(reasons)))
    return found


def _too_soon(one: MeasuredCell) -> Iterator[Finding]:
    for name, time, least in (("without TFO", one.off, 2), ("with TFO", one.tfo, 1)):
        if time + one.half_digit < least * one.rtt:
            needed = "a handshake and a request need two" if least == 2 else "a request needs one"
            detail = f"{_ms(time)} {name} is {time / one.rtt:.2f} RTTs, but {needed}"
            yield Finding(one.cell, "below_rtt", detail)
        if one.cell.bytes is not None and one.cell.down_mbit is not None:
            needed_ms = one.cell.bytes * 8 / (one.cell.down_mbit * 1000)
            if time + one.half_digit < needed_ms:
                detail = f"{_ms(time)} {name}, but {one.cell.bytes} bytes need {_ms(needed_ms)} at this rate"
                yield Finding(one.cell, "below_rate", detail)


def _beyond_bounds(one: MeasuredCell, series: Sequence[MeasuredCell]) -> Iterator[str]:
    requests, source = _requests(one.cell)
    if requests is not None and one.saved > requests * one.rtt * SLACK:
        yield f"{requests} requests can open {requests} connections in a row at most ({source})"
    if one.saved > one.off / 2 * SLACK:
        yield (
            f"handshakes take no more than half of a load, {_ms(one.off / 2)} of {_ms(one.off)}: each is"
            " followed by a request that takes as long"
        )
    others = [other for other in series if 0 < other.rtt < one.rtt]
    if others:
        least = min(others, key=lambda other: other.room)
        if one.saved > least.room * one.rtt * SLACK_OF_ROOM:
            yield (
                f"the same page at {least.rtt} ms, {_ms(least.off)}, has room for {least.room:.1f}"
                " handshakes and requests in a row at most"
            )


def _requests(cell: PrintedCell) -> tuple[int | None, str]:
    if cell.requests is not None:
        return cell.requests, "the table says how many"
    return REQUESTS.get((cell.experiment, cell.page), (None, ""))


def _ms(milliseconds: Decimal) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds >= 100 else f"{milliseconds.normalize():.3g} ms"
