"""Find the cause of a replay's error: the step on its critical path that differs most from the recording."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from fastopen.contract import LoadRecord
from fastopen.contract.load_record import Request
from fastopen.pages import Page
from fastopen.pages.recording import Recording

# Smaller differences may come from the clocks of recorders.
WORTH_SAYING_MS: Final = 5.0
URL_SHOWN: Final = 60


@dataclass(frozen=True)
class Cause:
    """One step of one resource's request, with its recorded and replayed duration in milliseconds."""

    url: str
    step: str
    recorded_ms: float
    replayed_ms: float

    def sentence(self) -> str:
        """Return the cause in words, such as `receiving http://a.test/x: 171 ms instead of 5`."""
        url = self.url if len(self.url) <= URL_SHOWN else self.url[: URL_SHOWN - 1] + "…"
        return f"{self.step} {url}: {self.replayed_ms:.0f} ms instead of {self.recorded_ms:.0f}"


AnyCause = TypeVar("AnyCause", bound=Cause)


class Moments(NamedTuple):
    """The times of one request, in milliseconds since the start of the load."""

    asked: float
    sent: float
    first_byte: float
    end: float


def cause_of(
    page: Page, recording: Recording, held_ms: tuple[float, ...], record: LoadRecord
) -> Cause | None:
    """Return the step that differs most on the critical path of the replay; None if none differs enough."""
    # Recordings do not distinguish waiting for a connection from waiting for the response.
    recorded = {
        index: Moments(one.asked, one.asked, one.first_byte, one.end)
        for index, one in enumerate(recording.exchanges)
    }
    replayed: dict[int, Moments] = {}
    requests = {request.resource: request for request in record.requests}
    for index, one in requests.items():
        if one.queued_ns is not None and one.first_byte_ns is not None and one.end_ns is not None:
            # A held request was revealed before it was queued, earlier by the time for which it was held.
            asked = one.queued_ns / 1e6 - held_ms[index]
            replayed[index] = Moments(asked, asked, one.first_byte_ns / 1e6, one.end_ns / 1e6)
    return largest(
        Cause(page.resources[index].url, *step)
        for index in way_to_the_load_event(page, requests)
        for step in steps(page, index, recorded, replayed)
    )


def steps(
    page: Page, index: int, was: Mapping[int, Moments], now: Mapping[int, Moments]
) -> Iterator[tuple[str, float, float]]:
    """Yield the steps from a resource's reveal to its last byte, with both durations, if they are known."""
    if index not in was or index not in now:
        return
    before, after, resource = was[index], now[index], page.resources[index]
    parent = resource.initiator
    if parent is not None and parent in was and parent in now:
        by_bytes = resource.initiator_at_bytes is not None
        since = [load[parent].first_byte if by_bytes else load[parent].end for load in (was, now)]
        yield "asking for", before.asked - since[0], after.asked - since[1]
    yield "a connection for", before.sent - before.asked, after.sent - after.asked
    yield "the answer to", before.first_byte - before.sent, after.first_byte - after.sent
    yield "receiving", before.end - before.first_byte, after.end - after.first_byte


def largest(steps: Iterable[AnyCause]) -> AnyCause | None:
    """Return the step that differs most; None if no step differs by at least WORTH_SAYING_MS."""
    found = max(steps, key=lambda step: abs(step.replayed_ms - step.recorded_ms), default=None)
    return None if found is None or abs(found.replayed_ms - found.recorded_ms) < WORTH_SAYING_MS else found


def way_to_the_load_event(page: Page, requests: Mapping[int, Request]) -> Iterator[int]:
    """Yield the index of the `load` resource that ended last, then of its initiators up to the root."""
    ended = {
        index: request.end_ns
        for index, request in requests.items()
        if request.end_ns is not None and page.resources[index].phase == "load"
    }
    index = max(ended, key=lambda i: (ended[i], -i), default=None)
    while index is not None:
        yield index
        index = page.resources[index].initiator
