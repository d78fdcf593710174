"""The rate of the recorder's access link: the most bytes that arrived within a short time, if it lasted."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from fastopen.pages.recording import RecordedExchange

# Long enough that a millisecond of a recorder's clock is little, short enough to catch a burst. Of 20 to
# 200 ms any does about as well (docs/measurements/replays.md).
WINDOW_MS: Final = 50.0
# A link that is full goes on at its rate for so much longer than the window; a burst does not.
SUSTAINED_WINDOWS: Final = 8
SUSTAINED_SHARE: Final = 0.8
# Bytes of a response in one packet of 1500.
SEGMENT_BYTES: Final = 1448
# What Linux and browsers' servers begin with at least (RFC 6928).
WINDOW_SEGMENTS: Final = 10


def slow_start_rounds(size: float, window_segments: int = WINDOW_SEGMENTS) -> int:
    """Return the number of rounds that `size` bytes need after the initial window, which doubles in each."""
    windows = size / (window_segments * SEGMENT_BYTES)
    return max(0, math.ceil(math.log2(windows + 1)) - 1)


def link_bit_per_s(exchanges: Sequence[RecordedExchange], window_ms: float = WINDOW_MS) -> int | None:
    """The highest rate over any window, if nearly the same was kept up; None: nothing filled the link."""
    highest = achieved_bit_per_s(exchanges, window_ms)
    sustained = achieved_bit_per_s(exchanges, window_ms * SUSTAINED_WINDOWS)
    if highest is None or sustained is None or sustained < SUSTAINED_SHARE * highest:
        return None
    return highest


def achieved_bit_per_s(exchanges: Sequence[RecordedExchange], window_ms: float) -> int | None:
    """The highest rate over any window; None where nothing was received.

    The bytes of a response are taken to have come evenly between its first and its last. It is a lower bound
    of what the link can do.
    """
    arrivals = [(x.first_byte, max(x.end, x.first_byte), x.received_bytes) for x in exchanges]
    total = _Arrived(arrivals)
    edges = sorted({moment for first, end, _ in arrivals for moment in (first, end)})
    # The bytes in a window grow and shrink linearly between these places: the most is at one of them.
    begins = [*edges, *(edge - window_ms for edge in edges)]
    most = max((total.by(begin + window_ms) - total.before(begin) for begin in begins), default=0.0)
    return round(most * 8000 / window_ms) or None


class _Arrived:
    """The bytes that had arrived by a moment: a sum of ramps and steps, looked up in order of time."""

    def __init__(self, arrivals: Sequence[tuple[float, float, int]]) -> None:
        ramps = [(first, end, size) for first, end, size in arrivals if end > first]
        self._steps = _Sums([(first, float(size)) for first, end, size in arrivals if end == first])
        slopes = [(first, end, size / (end - first)) for first, end, size in ramps]
        # A ramp is a slope that begins at its first byte, less one that begins at its end.
        changes = [(first, slope) for first, _, slope in slopes] + [(end, -slope) for _, end, slope in slopes]
        self._slopes = _Sums(changes)
        self._offsets = _Sums([(moment, slope * moment) for moment, slope in changes])

    def by(self, moment: float) -> float:
        """Bytes up to and including what came at this moment at once."""
        return self._steps.by(moment, inclusive=True) + self._sloped(moment)

    def before(self, moment: float) -> float:
        return self._steps.by(moment, inclusive=False) + self._sloped(moment)

    def _sloped(self, moment: float) -> float:
        return moment * self._slopes.by(moment, inclusive=True) - self._offsets.by(moment, inclusive=True)


class _Sums:
    """Sums of what has happened by a moment."""

    def __init__(self, events: Sequence[tuple[float, float]]) -> None:
        ordered = sorted(events)
        self._moments = [moment for moment, _ in ordered]
        self._sums = [0.0, *accumulate(amount for _, amount in ordered)]

    def by(self, moment: float, *, inclusive: bool) -> float:
        find = bisect_right if inclusive else bisect_left
        return self._sums[find(self._moments, moment)]
