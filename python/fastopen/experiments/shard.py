"""Define a shard: one part of an experiment's jobs, run separately and merged with the other parts."""

import re
from dataclasses import dataclass, replace
from typing import Final, Self

from fastopen.common.errors import InputError
from fastopen.experiments.plan import Plan

OPTION: Final = "--shard"
SHARDS_MAX: Final = 1_000_000


@dataclass(frozen=True, order=True)
class Shard:
    """Shard number `index` of `count` shards. The first shard has number 1."""

    count: int
    index: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text such as `17/200`, shard 17 of 200. Raises InputError if the text is invalid."""
        found = re.fullmatch(r"(\d{1,7})/(\d{1,7})", text.strip(), re.ASCII)
        index, count = map(int, found.groups()) if found else (0, 0)
        if not 1 <= index <= count <= SHARDS_MAX:
            remedy = f"use I/N, such as 17/200; N is at most {SHARDS_MAX:,}"
            raise InputError(f"invalid shard {text!r}", OPTION, remedy)
        return cls(count, index)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def of(self, plan: Plan) -> Plan:
        """Return the plan with only this shard's jobs. Each shard gets a mix of pages and networks. If there
        are fewer jobs than shards, the last shards are empty."""
        # The jobs of a plan are in random order.
        return replace(plan, jobs=plan.jobs[self.index - 1 :: self.count])


def ranges(numbers: list[int]) -> str:
    """Return sorted numbers as text, with consecutive numbers as ranges: `3, 7-9`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)
