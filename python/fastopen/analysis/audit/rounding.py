"""What printed digits allow: every figure stands for all values that are printed like it."""

from dataclasses import dataclass
from decimal import Decimal

from fastopen.analysis.audit.table import PrintedCell, decimals

HALF = Decimal("0.5")


@dataclass(frozen=True)
class Range:
    """All values from `low` to `high`, both included."""

    low: Decimal
    high: Decimal

    def meets(self, other: "Range") -> bool:
        """Whether one value is in both."""
        return self.low <= other.high and other.low <= self.high


def improvement_of_times(cell: PrintedCell, *, swapped: bool = False) -> Range:
    """(off - TFO) / off in percent, over everything that is printed as these two times.

    It grows with the time without TFO and shrinks with the one with it, so the corners are its ends.
    """
    off, tfo = (cell.tfo, cell.off) if swapped else (cell.off, cell.tfo)
    half = cell.half_digit
    low_off = max(off - half, half / 1000)
    return Range(100 * (1 - (tfo + half) / low_off), 100 * (1 - (tfo - half) / (off + half)))


@dataclass(frozen=True)
class Rounding:
    """How values become digits: how far below and above what is printed they may be, in its last digit."""

    below: Decimal
    above: Decimal

    def allows(self, printed: Decimal, values: Range) -> bool:
        """Whether one of the values can have been printed so."""
        digit = Decimal(1).scaleb(-decimals(printed))
        return Range(printed - self.below * digit, printed + self.above * digit).meets(values)


NEAREST = Rounding(HALF, HALF)
DOWN = Rounding(Decimal(0), Decimal("0.999999"))
UP = Rounding(Decimal("0.999999"), Decimal(0))
