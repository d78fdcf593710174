"""The requests that the load event waited for, by their times and `onLoad`."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from fastopen.pages.importers import chains
from fastopen.pages.importers.exchange import Exchange
from fastopen.pages.model import Phase

_CLOCK_SLACK_MS: Final = 1.0
# Nothing that the load event waits for takes a browser longer than this.
_PROCESSED_MS: Final = 2000.0
_LATER: Final[dict[Phase, int]] = {"load": 0, "async": 1, "after": 2}


class Phases:
    """The phase of each entry of a page.

    A redirect chain is one fetch, and so are a preflight and its request. Browsers write `onLoad` when the
    handlers of the load event are done, and requests of these begin before it.
    """

    def __init__(self, entries: Sequence[Exchange], load_at: float | None) -> None:
        self._ends = chains.ends(entries)
        self._fired_at = self._last_needed(entries) if load_at is None else self._fired(entries, load_at)

    def __call__(self, entry: Exchange, least: Phase) -> Phase:
        """The phase of the entry, but never `load` or `async` under an initiator that comes `after`."""
        phase: Phase = "load" if entry.delays_load_event else "async"
        if chains.head(entry).at.start >= self._fired_at:
            phase = "after"
        elif self._ends[entry] > self._fired_at + _CLOCK_SLACK_MS:
            phase = "async"
        return least if least == "after" and _LATER[phase] < _LATER[least] else phase

    def _last_needed(self, entries: Sequence[Exchange]) -> float:
        """Return when the load event fired at the latest: all that it waits for had come by then."""
        needed = [entry for entry in entries if entry.delays_load_event]
        return max(self._ends[entry] for entry in needed or entries) + _PROCESSED_MS

    def _fired(self, entries: Sequence[Exchange], load_at: float) -> float:
        """When the load event fired, at the latest: `load_at`, or when a request began before.

        The moment that the fewest requests of elements speak against: those under way then, which it would
        have waited for, and those that began later and ended before `load_at`, so that handlers would have
        asked for them. Of several the last. The root does not count: it is waited for.
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
