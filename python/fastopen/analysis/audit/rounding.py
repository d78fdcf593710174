"""The values that printed digits allow."""

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
        """Return True if one value is in both ranges."""
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
    """The distance of a value above and below its printed figure, in units of the last digit."""

    below: Decimal
    above: Decimal

    def allows(self, printed: Decimal, values: Range) -> bool:
        """Return True if one of the values can have been printed like this."""
        digit = Decimal(1).scaleb(-decimals(printed))
        return Range(printed - self.below * digit, printed + self.above * digit).meets(values)


NEAREST = Rounding(HALF, HALF)
DOWN = Rounding(Decimal(0), Decimal("0.999999"))
UP = Rounding(Decimal("0.999999"), Decimal(0))
