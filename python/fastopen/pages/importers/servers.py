"""The time that servers took to think and to send, as far as the network does not explain it."""

from collections.abc import Sequence
from typing import Final

from fastopen.pages.importers.exchange import Exchange
from fastopen.pages.rates import achieved_bit_per_s, link_bit_per_s, slow_start_rounds
from fastopen.pages.recording import RecordedExchange

# Over which time the highest rate of a recording is taken.
_WINDOW_MS: Final = 200.0
# A body that comes for less than this is not told from what a network does.
_SLOW_MS: Final = 500.0
# A server sends slowly if its body leaves so much of the time unexplained, and of the link unused.
_UNEXPLAINED: Final = 0.5


class Servers:
    """The link of a recording, and what of each exchange it explains. Times in ms."""

    def __init__(
        self, entries: Sequence[Exchange], exchanges: Sequence[RecordedExchange], *, known: bool = False
    ) -> None:
        """If the network is `known`, calibration over it replaces the bound by the link."""
        self._hosts = [one.host for one in entries]
        self._exchanges = exchanges
        self._filled = None if known else link_bit_per_s(exchanges, _WINDOW_MS)
        self._reached = achieved_bit_per_s(exchanges, _WINDOW_MS)

    def thinking(self, index: int, wait_ms: float, round_trip_ms: float) -> float:
        """Return how long the server of an exchange thought: its wait without a round trip, and without the
        time in which its connection carried other answers over a link that they filled.

        Requests that wait together on one connection cannot each think while the others' bodies come.
        """
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
        """Return over how long the server sent its body; 0 where slow start and the link explain the time."""
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
    """Return the share of an answer that came between two moments, as if it had come evenly."""
    lasted = exchange.end - exchange.first_byte
    if lasted <= 0:
        return float(begin <= exchange.first_byte <= end)
    return max(0.0, min(exchange.end, end) - max(exchange.first_byte, begin)) / lasted
