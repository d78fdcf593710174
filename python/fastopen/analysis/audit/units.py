"""Detect times printed in the wrong unit: seconds that are milliseconds, and the reverse.

A unit is impossible if the page would load before its first response can arrive. It is absurd if the page
would take longer than any person or program waits. If the printed unit is impossible or absurd and the other
unit is neither, the times are in the other unit.
"""

from collections.abc import Sequence
from decimal import Decimal
from statistics import median
from typing import Final

from fastopen.analysis.audit.findings import AuditFinding
from fastopen.analysis.audit.table import UNITS_S, PrintedCell

# Longer page loads are absurd: Chromium gives up on a connection after four minutes, and servers earlier.
PLAUSIBLE_S: Final = Decimal(300)
# On slow links, the time for ten megabytes is the limit. Nearly all pages have less.
LARGE_PAGE_BITS: Final = Decimal(80_000_000)
NAMES: Final = {"s": "seconds", "ms": "milliseconds"}


def true_units(table: Sequence[PrintedCell]) -> tuple[dict[int, Decimal], list[AuditFinding]]:
    """Return the length in seconds of each line's true unit of time, by line number, and the findings on
    wrong units. The table is judged as a whole first, then single cells that differ from it."""
    seconds: dict[int, Decimal] = {}
    findings: list[AuditFinding] = []
    # Take the median, so that a single odd cell cannot decide on the unit of the whole table.
    absurd = median(_longest(cell, cell.unit) / _plausible_s(cell) for cell in table) > 1
    impossible = 2 * sum(_impossible(cell, cell.unit) for cell in table) > len(table)
    for cell in table:
        other = "ms" if cell.unit == "s" else "s"
        too_long = cell.unit == "s" and (absurd or _longest(cell, "s") > _plausible_s(cell))
        too_short = cell.unit == "ms" and impossible
        wrong = (too_long or too_short) and not _impossible(cell, other)
        wrong = wrong and _longest(cell, other) <= _plausible_s(cell)
        seconds[cell.line] = UNITS_S[other if wrong else cell.unit]
        if wrong:
            findings.append(_finding(cell, other, whole_table=absurd or impossible))
    return seconds, findings


def _longest(cell: PrintedCell, unit: str) -> Decimal:
    """Return the longer of the two times, read in `unit`, in seconds."""
    return max(cell.off, cell.tfo) * UNITS_S[unit]


def _plausible_s(cell: PrintedCell) -> Decimal:
    if cell.down_mbit is None:
        return PLAUSIBLE_S
    return max(PLAUSIBLE_S, LARGE_PAGE_BITS / (cell.down_mbit * 1_000_000))


def _impossible(cell: PrintedCell, unit: str) -> bool:
    """Return True if the time without TFO, in `unit`, is shorter than the round trips of a first response."""
    least = cell.flight_off.round_trips * cell.rtt_ms / 1000
    return (cell.off + cell.half_digit) * UNITS_S[unit] < least


def _finding(cell: PrintedCell, other: str, *, whole_table: bool) -> AuditFinding:
    detail = f"the times are {NAMES[other]}, not {NAMES[cell.unit]}: {cell.off} {cell.unit}"
    if cell.unit == "s":
        minutes = int(cell.off / 60)
        hours = f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
        detail += f" would be {hours}"
    else:
        detail += f" is less than {cell.flight_off.round_trips} RTTs of {cell.rtt_ms} ms"
    if not whole_table:
        detail += ", unlike the rest of the table"
    return AuditFinding(cell, "units", detail)
