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

    def rounds(self, jobs: Iterable[PlannedJob]) -> Iterator[Sequence[PlannedJob]]:
        """The jobs repeat by repeat: the first, and each for which there is time."""
        last_s = 0.0
        for _, of_repeat in groupby(sorted(jobs, key=_repeat), key=_repeat):
            started = self._elapsed_s()
            if started + SLACK * last_s > self.seconds:
                return
            yield list(of_repeat)
            last_s = self._elapsed_s() - started

    def check(self) -> None:
        """Raises OutOfTimeError where the time is over."""
        if self._elapsed_s() > self.seconds:
            raise OutOfTimeError

    def _elapsed_s(self) -> float:
        return self._clock() - self._began


def _repeat(planned: PlannedJob) -> int:
    return planned.repeat
