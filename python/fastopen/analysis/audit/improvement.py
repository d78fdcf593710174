"""Compare the printed improvement with the two times: find contradictions, wrong signs, swapped columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from fastopen.analysis.audit.findings import AuditFinding
from fastopen.analysis.audit.table import PrintedCell, decimals

HALF = Decimal("0.5")


@dataclass(frozen=True)
class Range:
    """All values from `low` to `high`, both included."""

    low: Decimal
    high: Decimal

    def meets(self, other: "Range") -> bool:
        """Return True if one value is in both ranges."""
        return self.low <= other.high and other.low <= self.high


def improvement_of_times(cell: PrintedCell, *, swapped: bool = False) -> Range:
    """Return the range of (off - TFO) / off in percent over all times that round to the two printed times.
    The value grows with the time without TFO and falls with the time with TFO, so extreme times bound it."""
    off, tfo = (cell.tfo, cell.off) if swapped else (cell.off, cell.tfo)
    half = cell.half_digit
    low_off = max(off - half, half / 1000)
    return Range(100 * (1 - (tfo + half) / low_off), 100 * (1 - (tfo - half) / (off + half)))


@dataclass(frozen=True)
class Rounding:
    """The distances that a value may lie below and above its printed figure, in units of the last digit."""

    below: Decimal
    above: Decimal

    def allows(self, printed: Decimal, values: Range) -> bool:
        """Return True if one of `values` can have been printed as `printed`."""
        digit = Decimal(1).scaleb(-decimals(printed))
        return Range(printed - self.below * digit, printed + self.above * digit).meets(values)


NEAREST = Rounding(HALF, HALF)
DOWN = Rounding(Decimal(0), Decimal("0.999999"))
UP = Rounding(Decimal("0.999999"), Decimal(0))


WAYS: Final = (NEAREST, UP, DOWN)


def improvement_findings(table: Sequence[PrintedCell]) -> list[AuditFinding]:
    """Return a finding for each printed improvement that contradicts its two printed times. If the rest is
    not rounded one way, also for each that is not rounded to nearest. Medians over pairs are not checked."""
    printed = [cell for cell in table if cell.is_of_its_times]
    wrong = [cell for cell in printed if not any(_fits(cell, way) for way in WAYS)]
    fine = [cell for cell in printed if any(_fits(cell, way) for way in WAYS)]
    # A table may round up or down instead of to the nearest digit, but must do so in every row.
    one_way = any(all(_fits(cell, way) for cell in fine) for way in WAYS)
    swapped = bool(wrong) and all(_fits(cell, NEAREST, swapped=True) for cell in wrong)
    found = [finding for cell in wrong for finding in _contradiction(cell, table_is_swapped=swapped)]
    if not one_way:
        found += [_rounding(cell) for cell in fine if not _fits(cell, NEAREST)]
    return found


def _fits(cell: PrintedCell, way: Rounding, *, swapped: bool = False) -> bool:
    assert cell.improvement is not None
    return way.allows(cell.improvement, improvement_of_times(cell, swapped=swapped))


def _contradiction(cell: PrintedCell, *, table_is_swapped: bool) -> Iterator[AuditFinding]:
    printed = cell.improvement
    assert printed is not None
    values = improvement_of_times(cell)
    detail = f"{cell.off} and {cell.tfo} {cell.unit} come to {_between(values)} %, but {printed} % is printed"
    yield AuditFinding(cell, "improvement", detail)
    other_sign = printed > 0 > values.high or printed < 0 < values.low
    without_sign = other_sign and NEAREST.allows(-printed, values)
    if _fits(cell, NEAREST, swapped=True) and (table_is_swapped or not without_sign):
        swapped = _between(improvement_of_times(cell, swapped=True))
        detail = f"with the two times exchanged they come to {swapped} %, as printed"
        yield AuditFinding(cell, "swapped_columns", detail)
    elif other_sign:
        what = "a slowdown is printed as a gain" if printed > 0 else "a gain is printed as a slowdown"
        why = ": the difference is printed without its sign" if without_sign else ""
        needed = f"; {printed} % would need {_needed(cell, printed)} {cell.unit} with TFO"
        yield AuditFinding(cell, "sign", what + (why or needed))


def _rounding(cell: PrintedCell) -> AuditFinding:
    values = _between(improvement_of_times(cell))
    times = f"{cell.off} and {cell.tfo} {cell.unit}"
    detail = f"{times} come to {values} %, which does not round to {cell.improvement} %"
    return AuditFinding(cell, "rounding", detail)


def _needed(cell: PrintedCell, printed: Decimal) -> str:
    digit = Decimal(1).scaleb(-decimals(cell.off))
    return str((cell.off * (1 - printed / 100)).quantize(digit))


def _between(values: Range) -> str:
    low, high = (f"{value:.2f}" for value in (values.low, values.high))
    return low if low == high else f"{low} to {high}"
