"""Why a replay differs from its recording: the largest difference on the way to its load event."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from fastopen.contract import LoadRecord
from fastopen.contract.load_record import Request
from fastopen.pages import Page
from fastopen.pages.recording import Recording

# Differences below this are the recorders' clocks.
WORTH_SAYING_MS: Final = 5.0
URL_SHOWN: Final = 60


@dataclass(frozen=True)
class Cause:
    """One step of one resource that took longer or shorter. Times in ms."""

    url: str
    step: str
    recorded_ms: float
    replayed_ms: float

    def sentence(self) -> str:
        """`receiving http://a.test/x: 171 ms instead of 5`."""
        url = self.url if len(self.url) <= URL_SHOWN else self.url[: URL_SHOWN - 1] + "…"
        return f"{self.step} {url}: {self.replayed_ms:.0f} ms instead of {self.recorded_ms:.0f}"


AnyCause = TypeVar("AnyCause", bound=Cause)


def cause_of(
    page: Page, recording: Recording, held_ms: tuple[float, ...], record: LoadRecord
) -> Cause | None:
    """The step that differs most, of the resources that led to what the load event waited for last."""
    requests = {request.resource: request for request in record.requests}
    return largest(
        step
        for index in way_to_the_load_event(page, requests)
        for step in _steps(page, recording, held_ms, requests, index)
    )


def largest(steps: Iterable[AnyCause]) -> AnyCause | None:
    """The step that differs most; None where none does by what is worth saying."""
    found = max(steps, key=lambda step: abs(step.replayed_ms - step.recorded_ms), default=None)
    return None if found is None or abs(found.replayed_ms - found.recorded_ms) < WORTH_SAYING_MS else found


def way_to_the_load_event(page: Page, requests: Mapping[int, Request]) -> Iterator[int]:
    """The resource that the load event waited for last, and what led to it."""
    ended = {
        index: request.end_ns
        for index, request in requests.items()
        if request.end_ns is not None and page.resources[index].phase == "load"
    }
    index = max(ended, key=lambda i: (ended[i], -i), default=None)
    while index is not None:
        yield index
        index = page.resources[index].initiator


def _steps(
    page: Page, recording: Recording, held_ms: tuple[float, ...], requests: dict[int, Request], index: int
) -> Iterator[Cause]:
    """Asked for, answered, received: together they lead from what made the client ask to the last byte."""
    resource, exchange = page.resources[index], recording.exchanges[index]
    replayed = _replayed(requests.get(index), held_ms[index])
    if replayed is None:
        return
    asked, first_byte, end = replayed
    if resource.initiator is not None:
        before = _replayed(requests.get(resource.initiator), held_ms[resource.initiator])
        parent = recording.exchanges[resource.initiator]
        if before is not None:
            by_bytes = resource.initiator_at_bytes is not None
            since = (parent.first_byte, before[1]) if by_bytes else (parent.end, before[2])
            yield Cause(resource.url, "asking for", exchange.asked - since[0], asked - since[1])
    answering = exchange.first_byte - exchange.asked
    yield Cause(resource.url, "the answer to", answering, first_byte - asked)
    yield Cause(resource.url, "receiving", exchange.end - exchange.first_byte, end - first_byte)


def _replayed(request: Request | None, held_ms: float) -> tuple[float, float, float] | None:
    """When it was asked for, its first byte and its last; a client that holds it has asked for it before."""
    if request is None or None in (request.queued_ns, request.first_byte_ns, request.end_ns):
        return None
    assert request.queued_ns is not None
    assert request.first_byte_ns is not None
    assert request.end_ns is not None
    return (request.queued_ns / 1e6 - held_ms, request.first_byte_ns / 1e6, request.end_ns / 1e6)
