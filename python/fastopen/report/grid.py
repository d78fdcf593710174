"""A table as data: typed cells, which terminal, HTML, Markdown, LaTeX and CSV show each in its own way."""

from dataclasses import dataclass, replace
from typing import Literal

from fastopen.experiments import Factor, Point

Tone = Literal["", "good", "bad", "quiet", "notable"]
Kind = Literal["key", "factor", "figure", "words"]
Value = str | float | bool | None


@dataclass(frozen=True)
class Entry:
    """The content of a cell. `tone`: good where page load time is surely reduced, bad where increased."""

    text: str
    tone: Tone = ""
    aside: str = ""
    """What goes with a figure, such as its interval: where room is short it goes below."""
    mark: str = ""
    """Behind a figure, for a note."""
    short: str = ""
    """In place of the text where room is short."""
    phrase: str = ""
    """In place of the text where columns of factors are put together into one of words."""
    value: Value = None
    """For programs: not rounded."""

    def __str__(self) -> str:
        return f"{self.text}{self.mark} {self.aside}".rstrip()


def of_factor(factor: Factor, point: Point) -> Entry:
    """The value of a factor, in a column of its own or in the words that stand in place of one."""
    return Entry(factor.text_at(point) or "none", phrase=factor.full_phrase_at(point))


@dataclass(frozen=True)
class Column:
    """`kind`: what a row is about (key), which of its factors (factor), a figure, or words."""

    header: str
    """In lines, which only a terminal keeps apart."""
    kind: Kind = "figure"
    short: str = ""
    """In place of the header where room is short."""
    answer: bool = False
    """Whether it is what readers look for first."""
    long: bool = False
    """Whether its words are sentences, which go on several lines."""
    proof: bool = False
    """Whether it proves or explains the figures, and is left out where there is no room."""

    @property
    def heading(self) -> str:
        """In one line."""
        return self.header.replace("-\n", "").replace("\n", " ")

    @property
    def is_head(self) -> bool:
        """Whether it says what its row is about."""
        return self.kind in ("key", "factor")


@dataclass(frozen=True)
class Grid:
    """A table."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    note: str = ""
    subtitle: str = ""
    """What all rows have in common."""
    grouped: bool = False
    """Whether rows with the same first entry belong together."""

    def answer_first(self) -> "Grid":
        """The same with what readers look for right behind what a row is about."""
        ranks = [0 if column.is_head else 1 if column.answer else 2 for column in self.columns]
        order = sorted(range(len(ranks)), key=ranks.__getitem__)
        rows = (tuple(row[index] for index in order) for row in self.rows)
        return replace(self, columns=tuple(self.columns[index] for index in order), rows=tuple(rows))

    def hoist_common_factors(self) -> "Grid":
        """The same with the factors that all rows have in common above it; rows keep one head."""
        heads = [number for number, column in enumerate(self.columns) if column.is_head]
        common = [
            number
            for number in heads
            if self.columns[number].kind == "factor" and len({row[number].text for row in self.rows}) == 1
        ]
        if common == heads:
            common = common[:-1]
        if not common:
            return self
        kept = [number for number in range(len(self.columns)) if number not in common]
        words = ", ".join(self.rows[0][number].phrase for number in common)
        return replace(
            self,
            columns=tuple(self.columns[number] for number in kept),
            rows=tuple(tuple(row[number] for number in kept) for row in self.rows),
            subtitle="; ".join(filter(None, (words, self.subtitle))),
        )

    @property
    def in_words(self) -> bool:
        """Whether it has no figures."""
        return all(column.kind != "figure" for column in self.columns)
