"""Find misprints: improvements that contradict the two times in their row, and times in the wrong unit.

A unit is impossible if the page would load before its first response can arrive. It is absurd if the page
would take longer than any person or program waits. If the printed unit (s or ms) is impossible or absurd and
the other is neither, the times are in the other unit."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from statistics import median
from typing import Final

from fastopen.analysis.audit.kinds import AuditFinding
from fastopen.analysis.audit.table import FIRST_FLIGHTS, UNITS_S, PrintedCell, decimals

Pair = tuple[Decimal, Decimal]

# The most by which a value may lie below and above its printed figure, in units of the last printed digit.
NEAREST: Final = (Decimal("0.5"), Decimal("0.5"))
UP: Final = (Decimal("0.999999"), Decimal(0))
DOWN: Final = (Decimal(0), Decimal("0.999999"))
WAYS: Final = (NEAREST, UP, DOWN)
# Longer page loads are absurd: Chromium gives up on a connection after four minutes, and servers earlier.
PLAUSIBLE_S: Final = Decimal(300)
# On slow links, a load may take the time to transfer ten megabytes. Nearly all pages are smaller.
LARGE_PAGE_BITS: Final = Decimal(80_000_000)
NAMES: Final = {"s": "seconds", "ms": "milliseconds"}


def improvement_of_times(cell: PrintedCell, *, swapped: bool = False) -> Pair:
    """Return the smallest and the largest improvement, in percent, that agree with the two printed times,
    which were rounded. `swapped`: exchange the two times first."""
    off, tfo = (cell.tfo, cell.off) if swapped else (cell.off, cell.tfo)
    half = cell.half_digit
    low_off = max(off - half, half / 1000)
    return 100 * (1 - (tfo + half) / low_off), 100 * (1 - (tfo - half) / (off + half))


def _rounds_to(printed: Decimal, values: Pair, way: Pair) -> bool:
    """Return True if a number between the two `values` rounds to `printed`. `way`: NEAREST, UP or DOWN."""
    digit = Decimal(1).scaleb(-decimals(printed))
    return printed - way[0] * digit <= values[1] and values[0] <= printed + way[1] * digit


def improvement_findings(table: Sequence[PrintedCell]) -> Iterator[AuditFinding]:
    """Yield findings on printed improvements (in percent) that do not follow from the two times in their
    row, or are rounded wrongly. A table may round to the nearest digit, or all improvements up, or all down.
    Leave out improvements that are medians over pairs of loads, which do not follow from the two times."""
    printed = [cell for cell in table if cell.improvement_is_computed]
    fine = [cell for cell in printed if any(_fits(cell, way) for way in WAYS)]
    wrong = [cell for cell in printed if not any(_fits(cell, way) for way in WAYS)]
    one_way = any(all(_fits(cell, way) for cell in fine) for way in WAYS)
    swapped = bool(wrong) and all(_fits(cell, NEAREST, swapped=True) for cell in wrong)
    for cell in wrong:
        yield from _contradiction(cell, table_is_swapped=swapped)
    for cell in fine:
        if not (one_way or _fits(cell, NEAREST)):
            detail = f"{_computed(cell)}, which does not round to {cell.improvement} %"
            yield AuditFinding(cell, "rounding", detail)


def _fits(cell: PrintedCell, way: Pair, *, swapped: bool = False) -> bool:
    assert cell.improvement is not None
    return _rounds_to(cell.improvement, improvement_of_times(cell, swapped=swapped), way)


def _contradiction(cell: PrintedCell, *, table_is_swapped: bool) -> Iterator[AuditFinding]:
    printed = cell.improvement
    assert printed is not None
    values = improvement_of_times(cell)
    yield AuditFinding(cell, "improvement", f"{_computed(cell)}, but {printed} % is printed")
    other_sign = printed > 0 > values[1] or printed < 0 < values[0]
    without_sign = other_sign and _rounds_to(-printed, values, NEAREST)
    if _fits(cell, NEAREST, swapped=True) and (table_is_swapped or not without_sign):
        swapped = _between(improvement_of_times(cell, swapped=True))
        detail = f"with the two times exchanged they come to {swapped} %, as printed"
        yield AuditFinding(cell, "swapped_columns", detail)
    elif other_sign:
        what = "a slowdown is printed as a gain" if printed > 0 else "a gain is printed as a slowdown"
        why = ": the difference is printed without its sign" if without_sign else ""
        with_tfo = (cell.off * (1 - printed / 100)).quantize(Decimal(1).scaleb(-decimals(cell.off)))
        needed = f"; {printed} % would need {with_tfo} {cell.unit} with TFO"
        yield AuditFinding(cell, "sign", what + (why or needed))


def _computed(cell: PrintedCell) -> str:
    return f"{cell.off} and {cell.tfo} {cell.unit} come to {_between(improvement_of_times(cell))} %"


def _between(values: Pair) -> str:
    low, high = (f"{value:.2f}" for value in values)
    return low if low == high else f"{low} to {high}"


def true_units(table: Sequence[PrintedCell]) -> tuple[dict[int, Decimal], list[AuditFinding]]:
    """Find the rows of a table whose times are in another unit than the printed one. Return the true unit of
    every row as its length in seconds (1 or 0.001) by line number, and the findings on wrong units."""
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
            detail = f"the times are {NAMES[other]}, not {NAMES[cell.unit]}: {cell.off} {cell.unit}"
            if too_long:
                minutes = int(cell.off / 60)
                hours = f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
                detail += f" would be {hours}"
            else:
                detail += f" is less than {FIRST_FLIGHTS[cell.flight_off]} RTTs of {cell.rtt_ms} ms"
            rest = "" if absurd or impossible else ", unlike the rest of the table"
            findings.append(AuditFinding(cell, "units", detail + rest))
    return seconds, findings


def _longest(cell: PrintedCell, unit: str) -> Decimal:
    return max(cell.off, cell.tfo) * UNITS_S[unit]


def _plausible_s(cell: PrintedCell) -> Decimal:
    if cell.down_mbit is None:
        return PLAUSIBLE_S
    return max(PLAUSIBLE_S, LARGE_PAGE_BITS / (cell.down_mbit * 1_000_000))


def _impossible(cell: PrintedCell, unit: str) -> bool:
    """Return True if the time without TFO, read in `unit`, is too short for the first response to arrive."""
    least = FIRST_FLIGHTS[cell.flight_off] * cell.rtt_ms / 1000
    return (cell.off + cell.half_digit) * UNITS_S[unit] < least
