"""Estimate the rate of the access link over which a page was recorded, from the times of its responses."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from fastopen.pages.recording import RecordedExchange

# The window is long compared with the resolution of recorders' clocks (1 ms), and short enough to see a
# burst. Any value from 20 to 200 ms works about as well (docs/measurements/replays.md).
WINDOW_MS: Final = 50.0
# A full link keeps 80 % of its highest rate for eight windows. A burst does not.
SUSTAINED_WINDOWS: Final = 8
SUSTAINED_SHARE: Final = 0.8
# Bytes of a response in a packet of 1500 bytes.
SEGMENT_BYTES: Final = 1448
# Initial congestion window of Linux, and the least that web servers use (RFC 6928).
WINDOW_SEGMENTS: Final = 10
Bisect = Callable[[list[float], float], int]


def slow_start_rounds(size: float, window_segments: int = WINDOW_SEGMENTS) -> int:
    """Return the number of additional round trips that TCP slow start needs to send `size` bytes. It is 0 if
    they fit into the initial window of `window_segments` segments. The window doubles in each round trip."""
    windows = size / (window_segments * SEGMENT_BYTES)
    return max(0, math.ceil(math.log2(windows + 1)) - 1)


def link_bit_per_s(exchanges: Sequence[RecordedExchange], window_ms: float = WINDOW_MS) -> int | None:
    """Estimate the rate of the recorder's downlink in bit/s: the highest rate at which responses arrived in
    any period of `window_ms`. Return None if nothing arrived, or if the highest rate was only that of a short
    burst: no period eight times as long reached 80 % of the rate."""
    highest = achieved_bit_per_s(exchanges, window_ms)
    sustained = achieved_bit_per_s(exchanges, window_ms * SUSTAINED_WINDOWS)
    if highest is None or sustained is None or sustained < SUSTAINED_SHARE * highest:
        return None
    return highest


def achieved_bit_per_s(exchanges: Sequence[RecordedExchange], window_ms: float) -> int | None:
    """Return the highest rate in bit/s at which responses arrived in any period of `window_ms`; None if
    nothing arrived. Each response is assumed to arrive evenly between its first and its last byte."""
    arrivals = [(x.first_byte, max(x.end, x.first_byte), x.received_bytes) for x in exchanges]
    # A response that arrived at once adds a step to the number of bytes that have arrived. Any other response
    # adds a ramp: a slope in bytes per ms from its first byte to its end.
    steps = _running_sum([(first, float(size)) for first, end, size in arrivals if end == first])
    ramps = [(first, end, size / (end - first)) for first, end, size in arrivals if end > first]
    changes = [(first, slope) for first, _, slope in ramps] + [(end, -slope) for _, end, slope in ramps]
    slopes = _running_sum(changes)
    offsets = _running_sum([(moment, slope * moment) for moment, slope in changes])

    def arrived(moment: float, find: Bisect) -> float:
        return steps(moment, find) + (moment * slopes(moment, bisect_right) - offsets(moment, bisect_right))

    edges = sorted({moment for first, end, _ in arrivals for moment in (first, end)})
    # The bytes in a window change linearly between these start times, so the maximum is at one of them.
    begins = [*edges, *(edge - window_ms for edge in edges)]
    in_window = (arrived(begin + window_ms, bisect_right) - arrived(begin, bisect_left) for begin in begins)
    return round(max(in_window, default=0.0) * 8000 / window_ms) or None


def _running_sum(events: Sequence[tuple[float, float]]) -> Callable[[float, Bisect], float]:
    """Return a function of a time that sums the amounts of all `events` (time, amount) up to this time. The
    function's second argument, bisect_right or bisect_left, includes or excludes events at this time."""
    ordered = sorted(events)
    moments = [moment for moment, _ in ordered]
    sums = [0.0, *accumulate(amount for _, amount in ordered)]
    return lambda moment, find: sums[find(moments, moment)]
