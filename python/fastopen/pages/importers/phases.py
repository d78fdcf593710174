"""Find the requests that the load event waited for, from their times and `onLoad`."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from fastopen.pages.importers import chains
from fastopen.pages.importers.exchange import Exchange
from fastopen.pages.model import Phase

_CLOCK_SLACK_MS: Final = 1.0
# The load event fires at most this long after the last request that it waits for has ended.
_PROCESSED_MS: Final = 2000.0
_LATER: Final[dict[Phase, int]] = {"load": 0, "async": 1, "after": 2}


class Phases:
    """Find the phases of a page's entries. A chain of redirects counts as one fetch, and so do a preflight
    and its request. Browsers set `onLoad` after the handlers of the load event have run, so requests by these
    handlers begin before `onLoad`."""

    def __init__(self, entries: Sequence[Exchange], load_at: float | None) -> None:
        self._ends = chains.ends(entries)
        self._fired_at = self._last_needed(entries) if load_at is None else self._fired(entries, load_at)

    def __call__(self, entry: Exchange, least: Phase) -> Phase:
        """Return the entry's phase. It is `after` if its initiator's phase, `least`, is `after`."""
        phase: Phase = "load" if entry.delays_load_event else "async"
        if chains.head(entry).at.start >= self._fired_at:
            phase = "after"
        elif self._ends[entry] > self._fired_at + _CLOCK_SLACK_MS:
            phase = "async"
        return least if least == "after" and _LATER[phase] < _LATER[least] else phase

    def _last_needed(self, entries: Sequence[Exchange]) -> float:
        """Return the latest time of an unrecorded load event: 2 s after the last request that delays it."""
        needed = [entry for entry in entries if entry.delays_load_event]
        return max(self._ends[entry] for entry in needed or entries) + _PROCESSED_MS

    def _fired(self, entries: Sequence[Exchange], load_at: float) -> float:
        """Return the latest possible time of the load event: `load_at` or the start of an earlier request.

        Choose the time that the fewest requests of elements contradict. A request contradicts a time if it
        was under way then, because the load event would have waited for it; or if it began then or later and
        ended before `load_at`, because only a handler of the load event could have made it. Of several such
        times, choose the last. The root does not count, because the load event always waits for it.
        """
        spans = [
            (entry.at.start, self._ends[entry])
            for entry in entries[1:]
            if entry.delays_load_event and entry.before is None and entry.at.start <= load_at
        ]
        starts = sorted(start for start, _ in spans)
        ends = sorted(max(start, end - _CLOCK_SLACK_MS) for start, end in spans)
        before = sorted(start for start, end in spans if end <= load_at + _CLOCK_SLACK_MS)

        def against(moment: float) -> int:
            under_way = bisect_left(starts, moment) - bisect_left(ends, moment)
            return under_way + len(before) - bisect_left(before, moment)

        return max({*starts, load_at}, key=lambda moment: (-against(moment), moment))
