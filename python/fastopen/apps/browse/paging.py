"""Divide long lists into pages of 50 rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

Row = TypeVar("Row")
ROWS: Final = 50


@dataclass(frozen=True)
class Paging:
    """Page `number` (from 1) of a list with `total` rows."""

    number: int
    total: int

    @classmethod
    def within(cls, number: int, total: int) -> "Paging":
        """Return the requested page, or the nearest page that exists."""
        return cls(max(1, min(number, -(-total // ROWS))), total)

    @property
    def start(self) -> int:
        """Return the index of the page's first row."""
        return (self.number - 1) * ROWS

    @property
    def words(self) -> str:
        """Return the range of rows in words: `51 to 100 of 5,004`."""
        if self.total == 0:
            return "none"
        return f"{self.start + 1:,} to {min(self.start + ROWS, self.total):,} of {self.total:,}"

    @property
    def before(self) -> int | None:
        return self.number - 1 if self.number > 1 else None

    @property
    def after(self) -> int | None:
        return self.number + 1 if self.start + ROWS < self.total else None

    def of(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows[self.start : self.start + ROWS]
