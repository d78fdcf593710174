"""Check the changes between two runs against limits, such as `plt +1%`, so that a CI job can fail."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from fastopen.analysis.comparison.compare import CellChange
from fastopen.common.errors import InputError

Measure = Literal["plt", "saving"]
# The accepted units of the limits on each measure. Only a limit on savings may have no unit.
UNITS: Final[dict[Measure, tuple[str, ...]]] = {"plt": ("%", "ms", "s"), "saving": ("", "points")}
_LIMIT: Final = re.compile(
    r"\s*(plt|saving)\s*([+\-\N{MINUS SIGN}])\s*(\d+(?:\.\d+)?|\.\d+)\s*(%|ms|s|points)?\s*"
)
ACCEPTED: Final = "write 'plt +1%', 'plt +10ms' or 'saving -0.5' (percentage points)"


class LimitVerdict(StrEnum):
    """The verdict on whether the change in one result between two runs is within a limit."""

    HOLDS = "holds"
    FAILS = "fails"
    UNCLEAR = "unclear"
    """The median change exceeds the limit, but its interval is unknown or contains the limit."""
    INVALID = "no valid load"
    """Only the first of the two runs has a valid load."""
    UNKNOWN = "not known"
    """The change is unknown for another reason, such as no valid load in the first run."""


@dataclass(frozen=True)
class Limit:
    """A limit on the change of page load times or savings by TFO between two runs, such as `plt +10ms`."""

    text: str
    measure: Measure
    bound: float
    """The change, with its sign, beyond which the limit is exceeded, in `unit`."""
    rising: bool
    """True if changes above `bound` exceed the limit, False if changes below `bound` do."""
    unit: str
    """The unit of `bound`: `%`, `ms` or `points` (percentage points)."""

    def verdict(self, change: CellChange) -> LimitVerdict:
        """Return the verdict on whether `change` is within the limit."""
        found = change.plt if self.measure == "plt" else change.saving
        if found is None:
            lost = bool(change.before.plts_ms) and not change.after.plts_ms
            return LimitVerdict.INVALID if lost else LimitVerdict.UNKNOWN
        value, interval = found.stated, found.interval
        if self.unit == "ms":
            value = found.difference
            if interval is not None and interval[0] == interval[1]:
                interval = (value, value)
            elif interval is not None:
                interval = (found.before * interval[0] / 100, found.before * interval[1] / 100)
        if not self._beyond(value):
            return LimitVerdict.HOLDS
        sure = interval is not None and all(self._beyond(end) for end in interval)
        return LimitVerdict.FAILS if sure else LimitVerdict.UNCLEAR

    def _beyond(self, value: float) -> bool:
        return value > self.bound if self.rising else value < self.bound


@dataclass(frozen=True)
class LimitCheck:
    """The check of one change between two runs against one limit, with its verdict."""

    limit: Limit
    change: CellChange
    verdict: LimitVerdict

    @property
    def failed(self) -> bool:
        """Return True if the whole interval exceeds the limit, or if only the first run has a valid load."""
        return self.verdict in (LimitVerdict.FAILS, LimitVerdict.INVALID)


def parse_limit(text: str) -> Limit:
    """Parse a limit such as `plt +10ms`. Raises InputError if `text` is not a limit."""
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise InputError(f"invalid limit {text!r}", "--fail-on", ACCEPTED)
    measure: Measure = "plt" if found[1] == "plt" else "saving"
    unit = found[4] or ("" if measure == "saving" else None)
    if unit not in UNITS[measure]:
        raise InputError(f"{text!r} lacks a valid unit for {measure}", "--fail-on", ACCEPTED)
    bound = float(found[3]) * (1000 if unit == "s" else 1)
    return Limit(
        text=" ".join(text.split()),
        measure=measure,
        bound=bound if found[2] == "+" else -bound,
        rising=found[2] == "+",
        unit="ms" if unit == "s" else unit or "points",
    )


def checks_of(limits: Sequence[Limit], cells: Iterable[CellChange]) -> Iterator[LimitCheck]:
    """Yield the checks of all changes between two runs against all limits. Results without TFO have no
    saving, so only limits on the page load time apply to them."""
    for change in cells:
        for limit in limits:
            if limit.measure == "plt" or change.before.cell.arm.role != "baseline":
                yield LimitCheck(limit, change, limit.verdict(change))
