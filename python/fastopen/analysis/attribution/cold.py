"""Compute the part of a cold request's duration that it spends waiting for the TCP handshake.

This reproduces Figure 2 of Radhakrishnan et al. (CoNEXT 2011) for the loads of a run. In their Figure 1, the
handshake takes 8 to 28 % of the time of cold requests at Google."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from fastopen.analysis.attribution.curves import RunAnalysis
from fastopen.analysis.statistics import median_interval
from fastopen.contract import LoadRecord
from fastopen.runs.chain import Connections


@dataclass(frozen=True)
class ColdRequests:
    """The durations of requests in one load of each page, without TFO, on one network with one setup
    (`place`, such as `20 ms`). A request is cold if it waited for the TCP handshake of its connection."""

    place: str
    times_ms: list[tuple[float, float]] = field(default_factory=list)
    """(duration, wait for a TCP handshake) of each complete request, in ms. The duration starts when the
    request is queued and its connection opened, or when it is sent on a reused HTTP/1.1 connection. It ends
    with the last byte of the response."""

    @property
    def all_ms(self) -> list[float]:
        """Return the durations of all requests, sorted."""
        return sorted(took for took, _ in self.times_ms)

    @property
    def cold_ms(self) -> list[float]:
        """Return the durations of the cold requests, sorted."""
        return sorted(took for took, waited in self.times_ms if waited)

    @property
    def without_ms(self) -> list[float]:
        """Return each cold request's duration minus its wait for the TCP handshake, sorted."""
        return sorted(took - waited for took, waited in self.times_ms if waited)

    @property
    def shares(self) -> list[float]:
        """Return each cold request's wait for the TCP handshake as a percentage of its duration, sorted."""
        return sorted(100 * waited / took for took, waited in self.times_ms if waited)

    @property
    def share(self) -> float:
        """Return the median share of a cold request's duration that the TCP handshake takes, in percent."""
        return median(self.shares)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % confidence interval of `share`; None for fewer than VALUES_MIN cold requests."""
        return median_interval(self.shares)

    @property
    def share_of_all(self) -> float:
        """Return the total wait for TCP handshakes as a percentage of the total duration of all requests."""
        took, waited = map(sum, zip(*self.times_ms, strict=True))
        return 100 * waited / took


def cold_requests(analysis: RunAnalysis) -> list[ColdRequests]:
    """Return the durations of requests in loads without TFO, for each combination of network and setup. Leave
    out combinations in which no request waited for a handshake."""
    found: dict[str, ColdRequests] = {}
    for _, place in analysis.all_places():
        shown = place.baseline and analysis.attribution.shown.get(place.baseline.cell.index)
        if shown:
            found.setdefault(place.name, ColdRequests(place.name)).times_ms.extend(_times_ms(shown.record))
    return [one for one in found.values() if one.shares]


def _times_ms(record: LoadRecord) -> Iterator[tuple[float, float]]:
    connections = Connections(record)
    for request in record.requests:
        sent_ns, end_ns = request.sent_ns, request.end_ns
        if request.connection is None or request.error is not None or sent_ns is None or end_ns is None:
            continue
        opened_ns = connections.opened_ns(request)
        since_ns = sent_ns if opened_ns is None else min(max(request.queued_ns or 0, opened_ns), sent_ns)
        waited_ns = 0 if opened_ns is None else connections.waited_ns(request.connection, since_ns)
        if end_ns > sent_ns:
            yield (end_ns - since_ns) / 1e6, min(waited_ns, sent_ns - since_ns) / 1e6
