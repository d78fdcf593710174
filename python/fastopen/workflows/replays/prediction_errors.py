"""Why a prediction errs: the step of the foretold load that differs most from the load that it foretold."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fastopen.contract import LoadRecord
from fastopen.contract.load_record import Request
from fastopen.pages import Page
from fastopen.workflows.replays.causes import Cause, largest, way_to_the_load_event

ErrorKind = Literal["discovery", "connection", "think", "queue", "transfer"]


@dataclass(frozen=True)
class PredictionError(Cause):
    """One step: `recorded_ms` as measured, `replayed_ms` as foretold."""

    kind: ErrorKind
    """Whose error it is: asking too late or too soon, waiting for a connection, the page's think time, the
    queues that the request and its answer went through, or the body."""


class _Moments(NamedTuple):
    """The moments of one request, in ms since the load began."""

    asked: float
    sent: float
    first_byte: float
    end: float


_Timed = Mapping[int, _Moments]


def error_of(
    page: Page, foretold: LoadRecord, original: Page, measured: LoadRecord
) -> PredictionError | None:
    """`page` is the import by which a load of `original` was foretold; None where nothing differs."""
    same = _same_resources(page, original)
    of_original = _timed(measured)
    thinks_longer_ms = {
        index: (page.resources[index].server_think_us - original.resources[other].server_think_us) / 1000
        for index, other in same.items()
    }
    loads = ({i: of_original[j] for i, j in same.items() if j in of_original}, _timed(foretold))
    way = way_to_the_load_event(page, {request.resource: request for request in foretold.requests})
    return largest(
        step for index in way for step in _steps(page, index, loads, thinks_longer_ms.get(index, 0.0))
    )


def _same_resources(page: Page, other: Page) -> dict[int, int]:
    """By resource of the page, the one of the other: the first of the same name that is none's yet."""
    of_name: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for index, resource in enumerate(other.resources):
        of_name[resource.method, resource.url].append(index)
    found: dict[int, int] = {}
    for index, resource in enumerate(page.resources):
        if left := of_name[resource.method, resource.url]:
            found[index] = left.pop(0)
    return found


def _timed(record: LoadRecord) -> dict[int, _Moments]:
    """The requests of which every moment is known."""
    every = ((request.resource, _moments(request)) for request in record.requests)
    return {resource: moments for resource, moments in every if moments is not None}


def _moments(request: Request) -> _Moments | None:
    moments = (request.queued_ns, request.sent_ns, request.first_byte_ns, request.end_ns)
    known = [at / 1e6 for at in moments if at is not None]
    return _Moments(*known) if len(known) == len(moments) else None


def _steps(
    page: Page, index: int, loads: tuple[_Timed, _Timed], thinks_longer_ms: float
) -> Iterator[PredictionError]:
    """Asked for, sent, answered, received: measured and foretold."""
    if any(index not in load for load in loads):
        return
    resource = page.resources[index]
    was, foretold = (load[index] for load in loads)

    def step(name: str, kind: ErrorKind, measured_ms: float, foretold_ms: float) -> PredictionError:
        return PredictionError(resource.url, name, measured_ms, foretold_ms, kind)

    parent = resource.initiator
    if parent is not None and all(parent in load for load in loads):
        by_bytes = resource.initiator_at_bytes is not None
        revealed = (load[parent].first_byte if by_bytes else load[parent].end for load in loads)
        asking = (one.asked - at for one, at in zip((was, foretold), revealed, strict=True))
        yield step("asking for", "discovery", *asking)
    yield step("a connection for", "connection", was.sent - was.asked, foretold.sent - foretold.asked)
    waits = (was.first_byte - was.sent, foretold.first_byte - foretold.sent)
    longer = waits[1] - waits[0]
    thinking = abs(thinks_longer_ms) > abs(longer - thinks_longer_ms)
    yield step("the answer to", "think" if thinking else "queue", *waits)
    yield step("receiving", "transfer", was.end - was.first_byte, foretold.end - foretold.first_byte)
