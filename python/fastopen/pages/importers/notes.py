"""What an importer left out, guessed or found odd: counted while it reads, and turned into sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar


class ImportNotes:
    """Counts by subject. A subclass has the sentence of each, in the order of the output."""

    SENTENCES: ClassVar[Mapping[str, str]]
    """Subject to sentence; `{n}` in it is how many."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, subject: str, count: int = 1) -> None:
        assert subject in self.SENTENCES, subject
        self._counts[subject] += count

    def merge(self, other: ImportNotes) -> None:
        self._counts.update(other._counts)

    def count(self, subject: str) -> int:
        return self._counts[subject]

    def sentences(self) -> tuple[str, ...]:
        return tuple(text.format(n=self._counts[s]) for s, text in self.SENTENCES.items() if self._counts[s])
