"""A recording's page, told from the queues of the network that it was recorded over.

A recorded wait is a round trip, what the queues of both directions held, and the server's thinking. Of a
body only its first and last byte are recorded, not how many had come when the next resource was asked for.
Where the network is known, loading the page over it tells these apart: what such a load waits for without
any thinking is the network's, and when it asks shows where in the body the reference stands.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Final

from fastopen.contract import LoadRecord
from fastopen.pages import Page, Resource
from fastopen.pages.recording import RecordedExchange

# How often, at most, the places of references are corrected first, since they decide which request meets
# which queue, and the think times that are certain. Bytes come by the packet, so that a correction may need
# others before all are settled.
PLACING_ROUNDS: Final = 16
# What part of what is missing each step corrects, from either end of what servers may have thought: all of
# it at once overshoots, since every think time moves the queues of the others, until little is missing.
STEPS: Final = (0.25,) * 20 + (1.0,) * 4
# No recorder is more exact; nearer than that is not nearer.
RESOLUTION_US: Final = 100
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
    def errors_us(self) -> list[float]:
        """All of them, without signs."""
        return list(map(abs, (*self.waits_us.values(), *self.asks_us.values())))


def told_from_queues(
    page: Page, exchanges: Sequence[RecordedExchange], load: Callable[[Page], LoadRecord]
) -> Page:
    """The page with think times that hold no queue: of those tried, the simplest that explain the recording.

    `page` is as it was imported; `load` loads a page over the recorder's network. Behind a queue a server
    that thinks and one that answers at once look alike, and which requests meet in a queue follows from all
    think times together. So they are sought from none upwards and from all that was recorded downwards, and
    what need not be there is left out.
    """

    def missing(candidate: Page) -> Misfit:
        return misfit(candidate, exchanges, load(candidate))

    certain = alone(exchanges)
    placed = without_thinking(page)
    for _ in range(PLACING_ROUNDS):
        before, placed = placed, corrected(placed, missing(placed), certain)
        if placed == before:
            break
    tried: list[tuple[float, Page]] = []
    for candidate in (placed, _with_think_times(placed, _think_times(page))):
        for part in STEPS:
            found = missing(candidate)
            tried.append((information_loss(candidate, found), candidate))
            candidate = nearer(candidate, found, part)
    loss, best = min(tried, key=lambda one: one[0])
    return _without_needless(best, loss, lambda candidate: information_loss(candidate, missing(candidate)))


def information_loss(page: Page, found: Misfit) -> float:
    """Half of Akaike's criterion (1974, IEEE Transactions on Automatic Control 19:716) of an explanation.

    Errors are taken to have a Laplace distribution, since a few are large: where two requests changed places
    in a queue, or a packet was lost. Each server that thinks is a parameter; so it has to explain more of the
    recording than chance would, and the more, the worse the rest is explained.
    """
    errors = found.errors_us
    scale_us = max(RESOLUTION_US, sum(errors) / max(1, len(errors)))
    return len(errors) * log(scale_us) + sum(us > 0 for us in _think_times(page).values())


def _without_needless(page: Page, loss: float, loss_of: Callable[[Page], float]) -> Page:
    """Without the think times that explain too little, the shortest first, in halves and halves."""
    think_times = _think_times(page)
    thinking = sorted(filter(think_times.__getitem__, think_times), key=think_times.__getitem__)
    waiting = [thinking] if thinking else []
    while waiting:
        part = waiting.pop()
        without = _with_think_times(page, dict.fromkeys(part, 0))
        if (new_loss := loss_of(without)) <= loss:
            page, loss = without, new_loss
        elif len(part) > 1:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]
    return page


def _think_times(page: Page) -> dict[int, int]:
    return {index: resource.server_think_us for index, resource in enumerate(page.resources)}


def _with_think_times(page: Page, think_times: Mapping[int, int]) -> Page:
    return _changed(page, {index: {"server_think_us": us} for index, us in think_times.items()})


def without_thinking(page: Page) -> Page:
    """The page as if all servers answered at once."""
    return _with_think_times(page, dict.fromkeys(range(len(page.resources)), 0))


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


def nearer(page: Page, found: Misfit, part: float) -> Page:
    """The page whose next load comes nearer to the recording, by this part of what waits were off."""
    waits_us = {index: part * us for index, us in found.waits_us.items()}
    return corrected(page, replace(found, waits_us=waits_us), waits_us)


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
