"""Find the cause of a prediction's error: the step that differs most from the measured load."""

from dataclasses import dataclass
from typing import Final, Literal

from fastopen.common.grouping import grouped
from fastopen.contract import LoadRecord
from fastopen.pages import Page
from fastopen.workflows.replays.causes import Cause, Moments, largest, steps, way_to_the_load_event

ErrorKind = Literal["discovery", "connection", "think", "queue", "transfer"]


@dataclass(frozen=True)
class PredictionError(Cause):
    """One step of a request: `recorded_ms` was measured, `replayed_ms` was predicted."""

    kind: ErrorKind
    """The part that was predicted wrongly: the time of the request, the wait for a connection, the page's
    server think time, the queueing of request and response, or the transfer of the body."""


_KINDS: Final[dict[str, ErrorKind]] = {
    "asking for": "discovery",
    "a connection for": "connection",
    "receiving": "transfer",
}


def error_of(
    page: Page, foretold: LoadRecord, original: Page, measured: LoadRecord
) -> PredictionError | None:
    """Return the step that differs most between the prediction for `page` and the measured load, if any."""
    same = _same_resources(page, original)
    of_original = _timed(measured)
    thinks_longer_ms = {
        index: (page.resources[index].server_think_us - original.resources[other].server_think_us) / 1000
        for index, other in same.items()
    }
    loads = ({i: of_original[j] for i, j in same.items() if j in of_original}, _timed(foretold))
    way = way_to_the_load_event(page, {request.resource: request for request in foretold.requests})

    def kind_of(step: str, index: int, longer_ms: float) -> ErrorKind:
        thinks_ms = thinks_longer_ms.get(index, 0.0)
        return _KINDS.get(step) or ("think" if abs(thinks_ms) > abs(longer_ms - thinks_ms) else "queue")

    return largest(
        PredictionError(page.resources[index].url, step, was, now, kind_of(step, index, now - was))
        for index in way
        for step, was, now in steps(page, index, *loads)
    )


def _same_resources(page: Page, other: Page) -> dict[int, int]:
    """Map resources of `page` to resources of `other` with equal method and URL. Use no resource twice."""
    of_name = grouped(((one.method, one.url), index) for index, one in enumerate(other.resources))
    found: dict[int, int] = {}
    for index, resource in enumerate(page.resources):
        if left := of_name.get((resource.method, resource.url)):
            found[index] = left.pop(0)
    return found


def _timed(record: LoadRecord) -> dict[int, Moments]:
    """Return the times of the requests whose times are all known, by resource."""
    found = {}
    for one in record.requests:
        every = (one.queued_ns, one.sent_ns, one.first_byte_ns, one.end_ns)
        known = [at / 1e6 for at in every if at is not None]
        if len(known) == len(every):
            found[one.resource] = Moments(*known)
    return found
