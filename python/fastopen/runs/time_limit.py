"""A limit on how long a run may take: repeat after repeat is loaded while another one fits."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from fastopen.experiments import PlannedJob

# The next repeat may take so many times what the last one took.
SLACK: Final = 1.15


class OutOfTimeError(Exception):
    """The time is over while loads are running."""


class TimeLimit:
    """Counts from when it is made."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._began = clock()

    def rounds(self, jobs: Iterable[PlannedJob], at_once: int = 1) -> Iterator[Sequence[PlannedJob]]:
        """The jobs repeat by repeat: the first, and as many for which there is time.

        After the first one as many repeats are a round as keep `at_once` worlds busy.
        """
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
        """Seconds until the time is over, not below 0."""
        return max(0.0, self.seconds - self.elapsed_s)

    def check(self) -> None:
        """Raises OutOfTimeError where the time is over."""
        if not self.left_s:
            raise OutOfTimeError

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was made."""
        return self._clock() - self._began


def _repeat(planned: PlannedJob) -> int:
    return planned.repeat
