"""Compare the printed improvement with the two times: find contradictions, wrong signs, swapped columns."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from fastopen.analysis.audit.findings import AuditFinding
from fastopen.analysis.audit.table import PrintedCell, decimals

Pair = tuple[Decimal, Decimal]

# How far a value may lie below and above its printed figure, in units of the last printed digit.
NEAREST: Final = (Decimal("0.5"), Decimal("0.5"))
UP: Final = (Decimal("0.999999"), Decimal(0))
DOWN: Final = (Decimal(0), Decimal("0.999999"))
WAYS: Final = (NEAREST, UP, DOWN)


def improvement_of_times(cell: PrintedCell, *, swapped: bool = False) -> Pair:
    """Return the smallest and largest (off - TFO) / off in percent of times that round to the printed times.
    The value grows with the time without TFO and falls with the time with TFO, so extreme times bound it."""
    off, tfo = (cell.tfo, cell.off) if swapped else (cell.off, cell.tfo)
    half = cell.half_digit
    low_off = max(off - half, half / 1000)
    return 100 * (1 - (tfo + half) / low_off), 100 * (1 - (tfo - half) / (off + half))


def _rounds_to(printed: Decimal, values: Pair, way: Pair) -> bool:
    """Return True if a value between the two `values` can have been printed as `printed`."""
    digit = Decimal(1).scaleb(-decimals(printed))
    return printed - way[0] * digit <= values[1] and values[0] <= printed + way[1] * digit


def improvement_findings(table: Sequence[PrintedCell]) -> list[AuditFinding]:
    """Return the findings on printed improvements: those that contradict the two printed times, and, unless
    the others are all rounded one way, those that are not rounded to the nearest digit. Improvements that are
    medians over pairs of loads are not checked."""
    printed = [cell for cell in table if cell.is_of_its_times]
    fine = [cell for cell in printed if any(_fits(cell, way) for way in WAYS)]
    wrong = [cell for cell in printed if not any(_fits(cell, way) for way in WAYS)]
    # A table may round up or down instead of to the nearest digit, but must do so in every row.
    one_way = any(all(_fits(cell, way) for cell in fine) for way in WAYS)
    swapped = bool(wrong) and all(_fits(cell, NEAREST, swapped=True) for cell in wrong)
    found = [finding for cell in wrong for finding in _contradiction(cell, table_is_swapped=swapped)]
    if not one_way:
        for cell in fine:
            if not _fits(cell, NEAREST):
                detail = f"{_computed(cell)}, which does not round to {cell.improvement} %"
                found.append(AuditFinding(cell, "rounding", detail))
    return found


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
