"""Limit the time of a run: run repeats of all jobs, one after another, while there is time."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from fastopen.experiments import PlannedJob

# The assumed time of the next round of repeats, as a multiple of the time that the last round took.
SLACK: Final = 1.15


class OutOfTimeError(Exception):
    """Raised if the time limit ends while loads run."""


class TimeLimit:
    """A time limit that counts from its creation."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._began = clock()

    def rounds(self, jobs: Iterable[PlannedJob], at_once: int = 1) -> Iterator[Sequence[PlannedJob]]:
        """Yield rounds of jobs while time is left: one repeat, then enough repeats for `at_once` worlds."""
        repeats = [list(of_repeat) for _, of_repeat in groupby(sorted(jobs, key=_repeat), key=_repeat)]
        last_s, size = 0.0, 1
        while repeats:
            started = self.elapsed_s
            if started + SLACK * last_s > self.seconds:
                return
            of_round, repeats = repeats[:size], repeats[size:]
            yield [planned for of_repeat in of_round for planned in of_repeat]
            last_s = self.elapsed_s - started
            size = max(1, at_once // len(of_round[0]))

    @property
    def left_s(self) -> float:
        """Return the number of seconds until the limit; 0 after the limit."""
        return max(0.0, self.seconds - self.elapsed_s)

    def check(self) -> None:
        if not self.left_s:
            raise OutOfTimeError

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began


def _repeat(planned: PlannedJob) -> int:
    return planned.repeat
