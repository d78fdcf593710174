"""A recording's page, told from the queues of the network that it was recorded over.

A recorded wait is a round trip, what the queues of both directions held, and the server's thinking. Of a
body only its first and last byte are recorded, not how many had come when the next resource was asked for.
Where the network is known, loading the page over it tells these apart: what such a load waits for without
any thinking is the network's, and when it asks shows where in the body the reference stands.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Final

from fastopen.contract import LoadRecord
from fastopen.pages import Page, Resource
from fastopen.pages.recording import RecordedExchange

_NS_PER_US: Final = 1000


@dataclass(frozen=True)
class Misfit:
    """How far a load of the page is from the recording, by resource of which the load knows it."""

    waits_us: dict[int, float]
    """How much longer the recorded wait for the answer was."""
    asks_bytes: dict[int, float]
    """By how many bytes of its initiator the recorded request came later."""
    asks_us: dict[int, float]
    """The same in time."""

    @property
    def total_us(self) -> float:
        """Of all resources, without signs."""
        return sum(map(abs, (*self.waits_us.values(), *self.asks_us.values())))


def without_thinking(page: Page) -> Page:
    """The page as if all servers answered at once."""
    return _changed(page, {index: {"server_think_us": 0} for index in range(len(page.resources))})


def misfit(page: Page, exchanges: Sequence[RecordedExchange], record: LoadRecord) -> Misfit:
    """`record` is of a load of the page over the recorder's network."""
    waits: dict[int, float] = {}
    asks: dict[int, float] = {}
    asks_bytes: dict[int, float] = {}
    requests = {request.resource: request for request in record.requests}
    for index, request in requests.items():
        if request.sent_ns is not None and request.first_byte_ns is not None:
            waited = (request.first_byte_ns - request.sent_ns) / _NS_PER_US
            waits[index] = 1000 * (exchanges[index].first_byte - exchanges[index].sent) - waited
        resource = page.resources[index]
        parent = None if resource.initiator is None else requests.get(resource.initiator)
        if resource.initiator_at_bytes is None or parent is None or request.queued_ns is None:
            continue
        if parent.first_byte_ns is not None and parent.end_ns is not None:
            revealed = 1000 * (exchanges[index].asked - exchanges[parent.resource].first_byte)
            asks[index] = revealed - (request.queued_ns - parent.first_byte_ns) / _NS_PER_US
            receiving = (parent.end_ns - parent.first_byte_ns) / _NS_PER_US
            body = page.resources[parent.resource].body_bytes
            asks_bytes[index] = asks[index] * body / receiving if receiving > 0 else 0.0
    return Misfit(waits, asks_bytes, asks)


def alone(exchanges: Sequence[RecordedExchange]) -> frozenset[int]:
    """Whose answer nothing could delay but its server: no other request or response was on the network."""
    sent, ended = sorted(one.sent for one in exchanges), sorted(one.end for one in exchanges)
    return frozenset(
        index
        for index, one in enumerate(exchanges)
        if bisect_left(sent, one.first_byte) - bisect_right(ended, one.sent) <= 1
    )


def nearer(page: Page, found: Misfit) -> Page:
    """The page whose next load comes nearer to the recording than the one of which `found` was found.

    Where a server does not think and its answer was awaited longer than recorded, no think time is the
    reason: two requests changed places in a queue, or the browser is not quite as the loader. The median of
    these is what a wait is wrong by without any thinking; only what is missing beyond it is thinking.
    """
    resources = page.resources
    surplus = [-us for index, us in found.waits_us.items() if us < 0 and not resources[index].server_think_us]
    doubt = median_low(surplus) if surplus else 0.0
    thinking = {i for i, us in found.waits_us.items() if resources[i].server_think_us or us > doubt}
    return corrected(page, found, thinking)


def corrected(page: Page, found: Misfit, thinking: Collection[int]) -> Page:
    """With references in their places, and these think times longer or shorter by what their waits were off.

    References keep the order in which they were asked for, that of the page's resources: those of one packet
    were asked for at one moment, but bytes do not come evenly, and each is corrected by itself.
    """
    resources = page.resources
    changes: dict[int, dict[str, int | None]] = {
        index: {"server_think_us": max(0, round(resources[index].server_think_us + us))}
        for index, us in found.waits_us.items()
        if index in thinking
    }
    reached: dict[int, int] = {}
    for index, count in sorted(found.asks_bytes.items()):
        at_bytes = round((resources[index].initiator_at_bytes or 0) + count)
        initiator = _initiator(resources[index])
        reached[initiator] = at_bytes = max(at_bytes, reached.get(initiator, 0))
        # What the last byte reveals is asked for when the body's connection is free.
        inside = at_bytes < resources[initiator].body_bytes
        changes.setdefault(index, {})["initiator_at_bytes"] = at_bytes if inside else None
    return _changed(page, changes)


def _initiator(resource: Resource) -> int:
    assert resource.initiator is not None
    return resource.initiator


def _changed(page: Page, changes: Mapping[int, Mapping[str, int | None]]) -> Page:
    resources = tuple(
        resource.model_copy(update=changes.get(index, {})) for index, resource in enumerate(page.resources)
    )
    return page.model_copy(update={"resources": resources})
