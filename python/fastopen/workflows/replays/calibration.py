"""Calibrate a recorded page: separate queueing delay from server think time.

A recorded wait for a response consists of a round trip, queueing delays, and the server think time. If the
recorder's network is known, loading the page over it without think times shows the network's part. It also
shows the positions of references in bodies: the bytes that arrived before the next request."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from fastopen.contract import LoadRecord
from fastopen.pages import Explanation, Page
from fastopen.pages.model import MAX_EXPLANATIONS
from fastopen.pages.recording import RecordedExchange

# The maximum number of rounds that correct the positions of references, and think times of responses that no
# queue delayed. These rounds come first, because positions decide which request meets which queue. Bytes
# arrive in packets, so a correction may require further corrections.
PLACING_ROUNDS: Final = 16
# The share of the error that each step of a search corrects. The first steps correct less, because each think
# time also changes the queues that other requests meet.
STEPS: Final = (0.25,) * 20 + (1.0,) * 4
# The time resolution of recorders. Mean errors below it count as equally small.
RESOLUTION_US: Final = 100
# An explanation fits as well as the best one if it makes the recording at most e times less likely, or if its
# mean error is within the resolution of browser clocks: a millisecond.
AS_LIKELY: Final = 1.0
CLOCK_US: Final = 1000
_NS_PER_US: Final = 1000
FORMAT: Final = "fastopen-calibration/1"

Loads = Generator[Sequence[Page], Sequence[LoadRecord], "Calibration"]
"""A generator that yields pages to load over the recorder's network. After each yield, it receives a record
of each page's load, or a TimeoutError is thrown into it. It returns the calibration."""


class Calibration(BaseModel):
    """The result of a search for a recorded page's server think times, and the content of its cache file.
    `complete` is False if the time limit ended the search."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    format: Literal["fastopen-calibration/1"] = FORMAT
    complete: bool
    explanations: list[Explanation]
    """The explanation that fits the recording best, then others that fit about equally well; empty if no load
    was valid."""

    def applied_to(self, page: Page) -> Page:
        """Return the imported page without queueing delay in think times; unchanged if no load was valid."""
        if not self.explanations:
            return page
        best, *others = self.explanations
        return page.with_explanation(best).model_copy(update={"explanations": tuple(others)})


@dataclass(frozen=True)
class Misfit:
    """The differences between a recorded and an emulated page load: recorded minus emulated, keyed by
    resource index. `waits_us`: differences of the wait from a request to the first byte of its response.
    `discovery_us`: differences of the time from the initiator's first byte to the request. `discovery_bytes`:
    `discovery_us`, converted to the number of bytes of the initiator that arrive in this time."""

    waits_us: dict[int, float]
    discovery_bytes: dict[int, float]
    discovery_us: dict[int, float]

    @property
    def errors_us(self) -> list[float]:
        """Return the absolute values of all `waits_us` and all `discovery_us`."""
        return list(map(abs, (*self.waits_us.values(), *self.discovery_us.values())))


def search_think_times(page: Page, exchanges: Sequence[RecordedExchange]) -> Loads:
    """Search for the fewest server think times with which loads of a page over its recorder's network take
    about the recorded times (`exchanges`). `page` is the page as imported. This generator yields pages to
    load, receives records of the loads, and returns the best result, also if it is sent a TimeoutError."""
    # If a queue delays a response, the think time cannot be seen, and all think times together determine
    # which requests meet in a queue. So approach the recording from two ends: from no think times upwards,
    # and from the longest possible ones downwards.
    search = _Search(exchanges)
    complete = True
    try:
        yield from _search_both_ends(search, page, alone(exchanges))
        yield from _remove_needless(search)
    except TimeoutError:
        complete = False
    return Calibration(complete=complete, explanations=search.explanations())


def calibrate(page: Page, exchanges: Sequence[RecordedExchange], load: Callable[[Page], LoadRecord]) -> Page:
    """Return the page with the server think times that best explain its recording. `exchanges` contains the
    recorded times of each resource. `load` loads a page over the recorder's network."""
    loads = search_think_times(page, exchanges)
    wanted = next(loads)
    try:
        while True:
            wanted = loads.send([load(one) for one in wanted])
    except StopIteration as stopped:
        found: Calibration = stopped.value
        return found.applied_to(page)


@dataclass(frozen=True)
class _Tried:
    """A variant of a page that was loaded. `errors` contains the differences between recorded and emulated
    times. `unlikely` is their negative log-likelihood, up to a constant; infinity if the load was invalid."""

    page: Page
    errors: Misfit
    unlikely: float

    @property
    def cost(self) -> float:
        """Return the sum to minimise: the negative log-likelihood plus the number of think times above 0. It
        is half of Akaike's criterion (1974, IEEE Trans. on Automatic Control 19:716)."""
        # So a think time must explain more of the recording than chance would.
        return self.unlikely + sum(us > 0 for us in _think_times(self.page).values())


class _Search:
    """The variants of a page that were tried in the search for server think times that fit its recording."""

    def __init__(self, exchanges: Sequence[RecordedExchange]) -> None:
        self._exchanges = exchanges
        self.tried: list[_Tried] = []

    def load(self, *pages: Page) -> Generator[Sequence[Page], Sequence[LoadRecord], list[_Tried]]:
        records = yield pages
        tried = []
        for page, record in zip(pages, records, strict=True):
            found = misfit(page, self._exchanges, record)
            tried.append(_Tried(page, found, unlikelihood(found) if record.valid else inf))
        self.tried += tried
        return tried

    @property
    def best(self) -> _Tried:
        return min(self.tried, key=lambda one: one.cost)

    def explanations(self) -> list[Explanation]:
        """Return the explanation that fits the recording best, then alternatives that fit about equally well;
        an empty list if no load was valid."""
        if not self.tried or self.best.unlikely == inf:
            return []
        best = self.best
        as_likely = {
            one.page.explanation: sum(_think_times(one.page).values())
            for one in self.tried
            if one.unlikely <= max(best.unlikely + AS_LIKELY, unlikelihood(best.errors, CLOCK_US))
        }
        as_likely.pop(best.page.explanation, None)
        ordered = sorted(as_likely, key=lambda one: as_likely[one])
        chosen = [ordered[at] for at in spread(len(ordered), MAX_EXPLANATIONS - 1)]
        return [best.page.explanation, *chosen]


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` evenly spaced indices from 0 to `count` - 1, including the first and last."""
    if count <= most:
        return list(range(count))
    return [round(at * (count - 1) / (most - 1)) for at in range(most)]


_Steps = Generator[Sequence[Page], Sequence[LoadRecord], None]


def _search_both_ends(search: _Search, page: Page, certain: Collection[int]) -> _Steps:
    """Correct the positions in bodies at which the client discovers resources. Then search for server think
    times in two directions: upwards from 0, and downwards from the imported think times. `certain` contains
    the indices of resources whose responses were not delayed by a queue."""
    (imported,) = yield from search.load(page)
    most = [one.server_think_us for one in page.resources]
    known = imported.errors.waits_us.keys()
    (tried,) = yield from search.load(_with_think_times(page, dict.fromkeys(known, 0)))
    for _ in range(PLACING_ROUNDS):
        placed = corrected(tried.page, tried.errors, certain, most)
        if placed == tried.page:
            break
        (tried,) = yield from search.load(placed)
    ends = [tried]
    ends += yield from search.load(_with_think_times(tried.page, _think_times(imported.page)))
    for part in STEPS:
        steps = [(one.page, nearer(one.page, one.errors, part, most)) for one in ends]
        moved = [step for page, step in steps if step != page]
        if not moved:
            return
        ends = yield from search.load(*moved)


def _remove_needless(search: _Search) -> _Steps:
    """Set server think times of the best page to 0 if this does not raise the cost (`_Tried.cost`). First try
    all at once. If the cost rises, try each half, and so on."""
    best = search.best
    think_times = _think_times(best.page)
    thinking = [index for index in best.errors.waits_us if think_times[index]]
    thinking.sort(key=lambda index: think_times[index])
    waiting = [thinking] if thinking else []
    while waiting:
        part = waiting.pop()
        (without,) = yield from search.load(_with_think_times(best.page, dict.fromkeys(part, 0)))
        if without.cost <= best.cost:
            best = without
        elif len(part) > 1:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]


def unlikelihood(found: Misfit, error_us: float | None = None) -> float:
    """Return the negative log-likelihood of the recording, up to a constant, given the errors in `found`. The
    errors are assumed to be Laplace-distributed with mean absolute value `error_us`, by default their own."""
    # A few errors are large, as when two requests change places in a queue, or when a packet is lost.
    errors = found.errors_us
    mean_us = sum(errors) / max(1, len(errors)) if error_us is None else error_us
    return len(errors) * log(max(RESOLUTION_US, mean_us))


def _think_times(page: Page) -> dict[int, int]:
    return {index: resource.server_think_us for index, resource in enumerate(page.resources)}


def _with_think_times(page: Page, think_times: Mapping[int, int]) -> Page:
    return page.changed({index: {"server_think_us": us} for index, us in think_times.items()})


def misfit(page: Page, exchanges: Sequence[RecordedExchange], record: LoadRecord) -> Misfit:
    """Return the differences between recorded times and a load of the page over the recorder's network.
    `exchanges` lists the recorded times of the page's resources, in order. `record` is the load."""
    waits: dict[int, float] = {}
    discovery: dict[int, float] = {}
    discovery_bytes: dict[int, float] = {}
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
            discovery[index] = revealed - (request.queued_ns - parent.first_byte_ns) / _NS_PER_US
            receiving = (parent.end_ns - parent.first_byte_ns) / _NS_PER_US
            body = page.resources[parent.resource].body_bytes
            discovery_bytes[index] = discovery[index] * body / receiving if receiving > 0 else 0.0
    return Misfit(waits, discovery_bytes, discovery)


def alone(exchanges: Sequence[RecordedExchange]) -> frozenset[int]:
    """Return the indices of requests that waited for their response while no other request was open. No queue
    can have delayed these responses."""
    sent, ended = sorted(one.sent for one in exchanges), sorted(one.end for one in exchanges)
    return frozenset(
        index
        for index, one in enumerate(exchanges)
        if bisect_left(sent, one.first_byte) - bisect_right(ended, one.sent) <= 1
    )


def nearer(page: Page, found: Misfit, part: float, most: Sequence[int]) -> Page:
    """Return the page, changed to fit its recording better. `found` contains the differences between the
    recording and a load of the page. Each server think time changes by the share `part` (0 to 1) of the error
    of its wait, up to its maximum in `most` (µs). Positions of references are corrected in full."""
    waits_us = {index: part * us for index, us in found.waits_us.items()}
    return corrected(page, replace(found, waits_us=waits_us), waits_us, most)


def corrected(page: Page, found: Misfit, thinking: Collection[int], most: Sequence[int]) -> Page:
    """Return the page with server think times and positions of references corrected by the errors in `found`.
    Only the think times of resources in `thinking` (indices) change. They stay between 0 and their maximum in
    `most` (µs). References stay in the order of their requests."""
    # Without this order, corrections could swap references in the same packet: bytes do not arrive evenly.
    resources = page.resources
    changes: dict[int, dict[str, int | None]] = {
        index: {"server_think_us": min(most[index], max(0, round(resources[index].server_think_us + us)))}
        for index, us in found.waits_us.items()
        if index in thinking
    }
    reached: dict[int, int] = {}
    for index, count in sorted(found.discovery_bytes.items()):
        at_bytes = round((resources[index].initiator_at_bytes or 0) + count)
        initiator = resources[index].initiator
        assert initiator is not None, "it has discovery_bytes"
        reached[initiator] = at_bytes = max(at_bytes, reached.get(initiator, 0))
        # None means that the end of the body reveals the resource, after the connection is free again.
        inside = at_bytes < resources[initiator].body_bytes
        changes.setdefault(index, {})["initiator_at_bytes"] = at_bytes if inside else None
    return page.changed(changes)
