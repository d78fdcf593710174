"""A recording's page, told from the queues of the network that it was recorded over.

A recorded wait is a round trip, what the queues of both directions held, and the server's thinking. Of a
body only its first and last byte are recorded, not how many had come when the next resource was asked for.
Where the network is known, loading the page over it tells these apart: what such a load waits for without
any thinking is the network's, and when it asks shows where in the body the reference stands.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from fastopen.contract import LoadRecord
from fastopen.contract.load_record import Request
from fastopen.pages import Page, Resource
from fastopen.pages.recording import RecordedExchange

# A request is recorded some tenths of a millisecond before a browser sends it.
ASK_TOLERANCE_MS: Final = 0.3
ROUNDING_MS: Final = 1.0
# A change that leaves more than this part of a difference has nothing to do with it.
LEFT_AT_MOST: Final = 0.9
# Loads for one moment.
TRIES: Final = 10


class _Moment(NamedTuple):
    """Of one resource: when it was asked for (after its initiator came), or its wait for the answer."""

    kind: Literal["ask", "wait"]
    resource: int


class _Difference(NamedTuple):
    """Of a load from the recording."""

    at_ms: float
    """When the moment was, in the recording."""
    moment: _Moment
    late_ms: float
    """How much later (or longer) it was in the recording."""


@dataclass
class _Wait:
    """Search for the think time by which one answer comes when it did: the longer, the later it comes."""

    think_us: int = 0
    """To try next, and in the end the one that was found."""
    under: tuple[int, float] | None = None
    """The longest by which it still came too soon, and by how much in ms."""
    over: tuple[int, float] | None = None
    """The shortest by which it came too late, and by how much (below 0)."""
    tries: int = 0

    def goes_on(self, late_ms: float) -> bool:
        """Learns what the load with `think_us` shows; whether another one may come nearer."""
        self.tries += 1
        if late_ms > 0:
            if self.under is not None and self.over is None and late_ms > LEFT_AT_MOST * self.under[1]:
                # It waits in a queue meanwhile.
                self.think_us = self.under[0]
                return False
            self.under = (self.think_us, late_ms)
        else:
            self.over = (self.think_us, late_ms)
        if self.under is None:
            # Late without any thinking.
            return False
        if self.over is None:
            self.think_us += round(late_ms * 1000)
        elif self.tries < TRIES and self.over[0] - self.under[0] > 1000 * ROUNDING_MS:
            self.think_us = (self.under[0] + self.over[0]) // 2
        else:
            # A jump lies between: with more thinking another answer goes first.
            self.think_us = min(self.under, self.over, key=lambda tried: abs(tried[1]))[0]
            return False
        return True


@dataclass
class _Ask:
    """What was changed of a request's place or processing, until the next load shows whether it helped."""

    before: Mapping[str, Any] = field(default_factory=dict)
    late_ms: float | None = None
    tries: int = 0


class Calibration:
    """Finds think times, and places of references in bodies, by loads over the recorder's network.

    One cause at a time, in the order of the recording: whatever differs first has nothing before it that
    explains it, and what comes after waits in queues that are others as soon as it is right. A server whose
    turn has not come thinks for all of the recorded wait, so that its answer is in nobody's way too soon.
    When it comes, the shortest think time is taken by which the answer comes when it did.
    """

    def __init__(
        self, page: Page, exchanges: Sequence[RecordedExchange], packet_ms: float, round_trip_ms: float
    ) -> None:
        """`packet_ms`: what a full packet takes on the link; which of two goes first decides as much."""
        self.page: Page = page
        """As far as it is known."""
        self._exchanges = exchanges
        self._packet_ms = packet_ms
        self._round_trip_ms = round_trip_ms
        self._settled: set[_Moment] = set()
        self._waits: dict[int, _Wait] = {}
        self._asks: dict[int, _Ask] = {}

    def learn(self, record: LoadRecord) -> bool:
        """Changes the page by what a load of it shows; False where nothing is left to change."""
        requests = {request.resource: request for request in record.requests}
        changed_at: float | None = None
        for one in sorted(self._differences(requests)):
            if changed_at is not None and (
                one.moment.kind == "wait" or one.at_ms >= changed_at + self._round_trip_ms
            ):
                # Requests that were sent less than a round trip apart cannot have changed each other.
                break
            if one.moment in self._settled:
                continue
            before = self.page
            done = self._wait(one) if one.moment.kind == "wait" else self._ask(one, requests)
            if done:
                self._settled.add(one.moment)
            if self.page is not before:
                changed_at = one.at_ms if changed_at is None else changed_at
                if one.moment.kind == "wait":
                    break
        return changed_at is not None

    def _differences(self, requests: Mapping[int, Request]) -> Iterator[_Difference]:
        for index, request in requests.items():
            exchange = self._exchanges[index]
            if (asking := self._asked(index, requests)) is not None:
                yield _Difference(exchange.asked, _Moment("ask", index), asking)
            if request.sent_ns is not None and request.first_byte_ns is not None:
                waited = (request.first_byte_ns - request.sent_ns) / 1e6
                late = exchange.first_byte - exchange.sent - waited
                yield _Difference(exchange.first_byte, _Moment("wait", index), late)

    def _asked(self, index: int, requests: Mapping[int, Request]) -> float | None:
        """How much later it was asked for in the recording, counted from what revealed it."""
        resource = self.page.resources[index]
        parent = None if resource.initiator is None else requests.get(resource.initiator)
        queued_ns = requests[index].queued_ns
        if parent is None or queued_ns is None or parent.first_byte_ns is None or parent.end_ns is None:
            return None
        recorded = self._exchanges[parent.resource]
        if resource.initiator_at_bytes is None:
            return self._exchanges[index].asked - recorded.end - (queued_ns - parent.end_ns) / 1e6
        revealed = (queued_ns - parent.first_byte_ns) / 1e6
        return self._exchanges[index].asked - recorded.first_byte - revealed

    def _wait(self, one: _Difference) -> bool:
        """Takes the next step towards a think time; whether it was the last."""
        index = one.moment.resource
        search = self._waits.get(index)
        if search is None:
            search = self._waits[index] = _Wait()
            if self.page.resources[index].server_think_us > 0:
                # What is recorded may be all queue.
                self._change(index, {"server_think_us": 0})
                return False
        if abs(one.late_ms) <= self._packet_ms + ROUNDING_MS:
            return True
        goes_on = search.goes_on(one.late_ms)
        self._change(index, {"server_think_us": search.think_us})
        return not goes_on

    def _ask(self, one: _Difference, requests: Mapping[int, Request]) -> bool:
        """Moves a request nearer to where it was; whether it is there, or comes no nearer."""
        index = one.moment.resource
        ask = self._asks.setdefault(index, _Ask())
        if abs(one.late_ms) <= ASK_TOLERANCE_MS:
            return True
        if ask.late_ms is not None and abs(one.late_ms) > LEFT_AT_MOST * abs(ask.late_ms):
            self._change(index, ask.before)
            return True
        update = self._moved(one.late_ms, self.page.resources[index], requests)
        ask.before = {key: getattr(self.page.resources[index], key) for key in update}
        ask.late_ms = one.late_ms
        ask.tries += 1
        self._change(index, update)
        return ask.tries == TRIES

    def _moved(
        self, late_ms: float, resource: Resource, requests: Mapping[int, Request]
    ) -> Mapping[str, Any]:
        at_bytes, processing_us = resource.initiator_at_bytes, resource.processing_us
        # Bytes come by packets: what is later than one, but not by as much as the next, is processing.
        if at_bytes is None or 0 < late_ms < self._packet_ms or (late_ms < 0 and processing_us > 0):
            return {"processing_us": max(0, processing_us + round(late_ms * 1000))}
        assert resource.initiator is not None
        parent = requests[resource.initiator]
        assert parent.first_byte_ns is not None
        assert parent.end_ns is not None
        body = self.page.resources[resource.initiator].body_bytes
        receiving_ms = (parent.end_ns - parent.first_byte_ns) / 1e6
        moved = round(late_ms * body / receiving_ms) if receiving_ms > 0 else 0
        return {"initiator_at_bytes": min(max(at_bytes + moved, 0), body)}

    def _change(self, index: int, update: Mapping[str, Any]) -> None:
        resources = list(self.page.resources)
        changed = resources[index].model_copy(update=dict(update))
        if changed != resources[index]:
            resources[index] = changed
            self.page = self.page.model_copy(update={"resources": tuple(resources)})
