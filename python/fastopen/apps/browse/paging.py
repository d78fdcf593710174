"""Long lists in pieces: which rows a page of a list has, and how many there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

Row = TypeVar("Row")
ROWS: Final = 50


@dataclass(frozen=True)
class Paging:
    """Page `number` (from 1) of a list of `total` rows."""

    number: int
    total: int

    @classmethod
    def within(cls, number: int, total: int) -> "Paging":
        """The page that is asked for, or the last where there are fewer."""
        return cls(max(1, min(number, -(-total // ROWS))), total)

    @property
    def start(self) -> int:
        """The index of its first row."""
        return (self.number - 1) * ROWS

    @property
    def words(self) -> str:
        """`51 to 100 of 5,004`."""
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
