"""Estimate server think and send times: the parts of recorded times that the network does not explain."""

from collections.abc import Sequence
from typing import Final

from fastopen.pages.importers.exchange import Exchange
from fastopen.pages.rates import achieved_bit_per_s, link_bit_per_s, slow_start_rounds
from fastopen.pages.recording import RecordedExchange

# The window for the highest rate of a recording.
_WINDOW_MS: Final = 200.0
# If a body arrives in less time than this, the network may be the only reason for the time.
_SLOW_MS: Final = 500.0
# The network explains a time if it accounts for at least this fraction of the time.
_UNEXPLAINED: Final = 0.5


class Servers:
    """Estimates server think and send times in ms from the rate of the recording's link."""

    def __init__(
        self, entries: Sequence[Exchange], exchanges: Sequence[RecordedExchange], *, known: bool = False
    ) -> None:
        """Estimate the link's rate. If the network is `known`, `thinking` does not subtract time on the link,
        because calibration over that network subtracts it."""
        self._hosts = [one.host for one in entries]
        self._exchanges = exchanges
        self._filled = None if known else link_bit_per_s(exchanges, _WINDOW_MS)
        self._reached = achieved_bit_per_s(exchanges, _WINDOW_MS)

    def thinking(self, index: int, wait_ms: float, round_trip_ms: float) -> float:
        """Return the server think time of an exchange: its wait minus a round trip. On a multiplexed
        connection over a full link, the response may have waited for other responses from its host. The time
        that the link needed to carry them is also subtracted if it is at least half of the remaining wait."""
        thought = max(0.0, wait_ms - round_trip_ms)
        one = self._exchanges[index]
        if self._filled is None or not one.multiplexed:
            return thought
        others = (
            _overlap(other, one.sent, one.first_byte) * other.received_bytes
            for number, other in enumerate(self._exchanges)
            if number != index and self._hosts[number] == self._hosts[index] and other.multiplexed
        )
        carried_ms = sum(others) * 8000 / self._filled
        return max(0.0, thought - carried_ms) if carried_ms >= _UNEXPLAINED * thought else thought

    def sending(self, index: int, round_trip_ms: float) -> float:
        """Return the time in ms in which the server sent the body; 0 if it is short or due to the network."""
        one = self._exchanges[index]
        received_ms = one.end - one.first_byte
        if received_ms < _SLOW_MS or self._reached is None:
            return 0.0
        rounds = slow_start_rounds(one.received_bytes)
        arrived = sum(
            _overlap(each, one.first_byte, one.end) * each.received_bytes for each in self._exchanges
        )
        explained_ms = rounds * round_trip_ms + arrived * 8000 / self._reached
        return received_ms if explained_ms < _UNEXPLAINED * received_ms else 0.0


def _overlap(exchange: RecordedExchange, begin: float, end: float) -> float:
    """Return the fraction of a response that arrived between two moments, if all of it arrived evenly."""
    lasted = exchange.end - exchange.first_byte
    if lasted <= 0:
        return float(begin <= exchange.first_byte <= end)
    return max(0.0, min(exchange.end, end) - max(exchange.first_byte, begin)) / lasted
