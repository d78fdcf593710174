"""Compute by how much the load times of replays and predictions are wrong, and find the causes.

A cause is the step on the critical path whose duration differs most from the recorded or measured one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, Literal, NamedTuple

from fastopen.common.grouping import grouped
from fastopen.contract import LoadRecord
from fastopen.pages import Page
from fastopen.pages.recording import Recording
from fastopen.workflows.replays.implied import Replay

# Smaller differences are not reported: they may come from the clocks of recorders.
WORTH_SAYING_MS: Final = 5.0
URL_SHOWN: Final = 60

ErrorKind = Literal["discovery", "connection", "think", "queue", "transfer"]
_KINDS: Final[dict[str, ErrorKind]] = {
    "asking for": "discovery",
    "a connection for": "connection",
    "receiving": "transfer",
}


@dataclass(frozen=True)
class Cause:
    """A possible cause of a wrong page load time: one step of the request for `url` (such as `receiving`),
    with its recorded or measured, and its replayed or predicted duration in milliseconds."""

    url: str
    step: str
    recorded_ms: float
    replayed_ms: float
    kind: ErrorKind | None = None
    """The part that was predicted wrongly: the time of the request, the wait for a connection, the page's
    server think time, the queueing of request and response, or the transfer; None without a prediction."""

    def sentence(self) -> str:
        """Return the cause as text, such as `receiving http://a.test/x: 171 ms instead of 5`."""
        url = self.url if len(self.url) <= URL_SHOWN else self.url[: URL_SHOWN - 1] + "…"
        return f"{self.step} {url}: {self.replayed_ms:.0f} ms instead of {self.recorded_ms:.0f}"


class Moments(NamedTuple):
    """The times of one request, in ms since the start of the page load: the client needs the resource
    (`asked`), sends the request (`sent`), and receives the response (`first_byte` to `end`)."""

    asked: float
    sent: float
    first_byte: float
    end: float


def cause_of(
    page: Page, recording: Recording, request_delays_ms: tuple[float, ...], record: LoadRecord
) -> Cause | None:
    """Return the step of a page load, such as `receiving` a resource, whose duration in the replayed load
    `record` differs most from the recording. Only steps on the critical path count. Return None if no step
    differs by at least WORTH_SAYING_MS. `request_delays_ms` lists the replay's delay before each request."""
    # Recordings do not distinguish waiting for a connection from waiting for the response.
    recorded = {
        index: Moments(one.asked, one.asked, one.first_byte, one.end)
        for index, one in enumerate(recording.exchanges)
    }
    # The replay queues a request only after its delay, so the client discovered the resource earlier.
    revealed = ((index, at, at.asked - request_delays_ms[index]) for index, at in _timed(record).items())
    replayed = {index: Moments(asked, asked, at.first_byte, at.end) for index, at, asked in revealed}
    return largest(
        Cause(page.resources[index].url, *step)
        for index in way_to_the_load_event(page, record)
        for step in steps(page, index, recorded, replayed)
    )


def steps(
    page: Page, index: int, was: Mapping[int, Moments], now: Mapping[int, Moments]
) -> Iterator[tuple[str, float, float]]:
    """Yield the name of each step of a request, and its durations in ms in two loads, `was` and `now`. Both
    map the index of a resource to the times of its request. Yield nothing if either lacks `index`."""
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


def largest(steps: Iterable[Cause]) -> Cause | None:
    """Return the step whose durations differ most; None if none differs by at least WORTH_SAYING_MS."""
    found = max(steps, key=lambda step: abs(step.replayed_ms - step.recorded_ms), default=None)
    return None if found is None or abs(found.replayed_ms - found.recorded_ms) < WORTH_SAYING_MS else found


def way_to_the_load_event(page: Page, record: LoadRecord) -> Iterator[int]:
    """Yield the indices of the resources that led to the load event: the resource that ended last before it,
    the initiator of its request, and so on, back to the document."""
    ended = {
        request.resource: request.end_ns
        for request in record.requests
        if request.end_ns is not None and page.resources[request.resource].phase == "load"
    }
    index = max(ended, key=lambda i: (ended[i], -i), default=None)
    while index is not None:
        yield index
        index = page.resources[index].initiator


def error_of(page: Page, predicted: LoadRecord, original: Page, measured: LoadRecord) -> Cause | None:
    """Return the step on the critical path whose predicted duration differs most from the measured duration;
    None if no step differs by at least WORTH_SAYING_MS. `predicted` is a load of `page`, which was imported
    from a recording of `original`. `measured` is a load of the page `original`."""
    same = _same_resources(page, original)
    of_original = _timed(measured)
    thinks_longer_ms = {
        index: (page.resources[index].server_think_us - original.resources[other].server_think_us) / 1000
        for index, other in same.items()
    }
    loads = ({i: of_original[j] for i, j in same.items() if j in of_original}, _timed(predicted))

    def kind_of(step: str, index: int, longer_ms: float) -> ErrorKind:
        thinks_ms = thinks_longer_ms.get(index, 0.0)
        return _KINDS.get(step) or ("think" if abs(thinks_ms) > abs(longer_ms - thinks_ms) else "queue")

    return largest(
        Cause(page.resources[index].url, step, was, now, kind_of(step, index, now - was))
        for index in way_to_the_load_event(page, predicted)
        for step, was, now in steps(page, index, *loads)
    )


def _same_resources(page: Page, other: Page) -> dict[int, int]:
    """Map the index of each resource of `page` to the index of a resource of `other` with the same method and
    URL. Use each index at most once. Leave out resources without a counterpart."""
    of_name = grouped(((one.method, one.url), index) for index, one in enumerate(other.resources))
    found: dict[int, int] = {}
    for index, resource in enumerate(page.resources):
        if left := of_name.get((resource.method, resource.url)):
            found[index] = left.pop(0)
    return found


def _timed(record: LoadRecord) -> dict[int, Moments]:
    found = {}
    for one in record.requests:
        every = (one.queued_ns, one.sent_ns, one.first_byte_ns, one.end_ns)
        known = [at / 1e6 for at in every if at is not None]
        if len(known) == len(every):
            found[one.resource] = Moments(*known)
    return found


@dataclass(frozen=True)
class ValidatedReplay:
    """A replay of a recorded page, with its load time, to judge its accuracy. `cause` is the step on the
    critical path that differs most from the recording, if by at least WORTH_SAYING_MS. `lookups_ms` lists the
    (recorded, replayed) durations of each name lookup in ms; recorded is 0 if no lookup was recorded."""

    replay: Replay
    replayed_ms: float
    cause: Cause | None
    lookups_ms: tuple[tuple[float, float], ...] = ()

    @property
    def error_percent(self) -> float:
        """Return the replayed page load time minus the recorded one, in percent of the recorded one."""
        recorded_ms = self.replay.recorded_ms
        return 100 * (self.replayed_ms - recorded_ms) / recorded_ms

    def as_json(self) -> dict[str, Any]:
        replay = self.replay
        return {
            "page": replay.page.name,
            "recorded_ms": round(replay.recorded_ms, 3),
            "replayed_ms": round(self.replayed_ms, 3),
            "error_percent": round(self.error_percent, 3),
            "requests": len(replay.page.resources),
            "hosts": len(replay.page.hosts()),
            "rtt_ms": replay.network.rtt_us / 1000,
            "extra_rtt_ms_max": max(replay.network.host_extra_rtt_us.values(), default=0) / 1000,
            "down_bit_per_s": replay.network.down.rate_bit_per_s,
            "initial_window_segments": replay.tcp.initial_window_segments,
            "lookups": [{"recorded_ms": a, "replayed_ms": b} for a, b in self.lookups_ms],
            "cause": None if self.cause is None else self.cause.sentence(),
        }


def median_error_percent(judged: Iterable[ValidatedReplay]) -> float | None:
    """Return the median absolute error of replayed page load times in percent; None without replays."""
    errors = [abs(one.error_percent) for one in judged]
    return round(median(errors), 3) if errors else None
