"""Explain why one load of a page took longer than another: a busy link, a slow request, or lost segments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, get_args

from fastopen.analysis.attribution.breakdown import median_repeat
from fastopen.analysis.attribution.critical_path import CriticalPath, critical_path
from fastopen.analysis.statistics import CellResult, Results, slower_in_the_median
from fastopen.common.grouping import grouped
from fastopen.common.phrases import NBSP, plural, share, size, time
from fastopen.contract import LoadRecord, Network
from fastopen.contract.load_record import Request
from fastopen.contract.origins import Http, SessionStart
from fastopen.experiments import Role, baseline_of, loaded_with, treatments_of
from fastopen.pages import Page
from fastopen.runs import RunStore

# A request explains a slower load if it took longer by at least this fraction of the additional load time.
SHARE_MIN: Final = 0.25
# A request's connection has a small congestion window if it had carried less than this fraction of the bytes
# that the connection of the same request had carried in the faster load.
LESS_CARRIED: Final = 0.5
# The value of tcpi_fastopen_client_fail after a lost SYN (Linux's include/uapi/linux/tcp.h).
TFO_SYN_RETRANSMITTED: Final = 3
# A segment that is retransmitted after a timeout is late by at least this time (Linux's TCP_RTO_MIN).
TIMEOUT_MIN_NS: Final = 200_000_000
# Bytes in an initial window of 10 segments (RFC 6928). Congestion control does not delay smaller responses.
WINDOW_BYTES: Final = 10 * 1448
# A reason must account for at least this fraction of the time by which the load or the request took longer.
EXPLAINS_MIN: Final = 0.5
# Losses explain a slower load if its retransmitted segments exceed this multiple of the faster load's.
MORE_LOST: Final = 1.25
# If a direction of the link is busy for less than this fraction of a load, more bytes do not explain a delay.
BUSY_MIN: Final = 0.75
# Datagrams with QUIC Initial packets are padded to at least this size (RFC 9000 section 14.1).
PADDED_BYTES: Final = 1200
# The maximum length of a request's name in sentences (NAME_LENGTH), and in figures and tables (LABEL_LENGTH).
NAME_LENGTH: Final = 32
LABEL_LENGTH: Final = 26


@dataclass(frozen=True)
class _RequestFacts:
    """Facts that may explain the delay of a request."""

    took_ns: int
    """The time from sending the request to the last byte of its response."""
    waited_ns: int
    """The time for which the request was queued before the client sent it."""
    early: bool
    """True if the request was sent as TLS early data."""
    without_session: bool
    """True if the request was the first on a TLS connection that resumed no session."""
    syn_data: bool
    """True if the SYN of the request's connection carried data that the origin acknowledged."""
    before_bytes: int
    """The body bytes of all responses that the connection had fully delivered when the request was sent."""
    syn_retransmitted: bool
    """True if the request was its connection's first, and the SYN was retransmitted without data."""
    reused: bool
    transfer_ns: int
    """The time from the response's first byte to its last."""
    retransmitted: tuple[int, int]
    """The numbers of segments that the client and the origin retransmitted on the request's connection."""

    def later_ns(self, before: "_RequestFacts") -> int:
        """Return how much longer, in ns, the request took than in the faster load, from queueing to the last
        byte. `before`: the facts about the same request in the faster load."""
        return self.waited_ns + self.took_ns - before.waited_ns - before.took_ns

    def longer_ns(self, before: "_RequestFacts") -> int:
        """Return how much longer, in ns, the request took than in the faster load (`before`), from sending to
        the last byte, but at most `later_ns`: a request sent earlier may take longer but end no later."""
        return min(self.took_ns - before.took_ns, self.later_ns(before))


def with_reasons(store: RunStore, results: Results) -> Results:
    """Return `results` with the reasons why some results are unexpectedly slow, for example slower with TFO
    than without. Each reason comes from comparing one slow load with one load of the faster result. Possible
    reasons are more bytes on a busy link, a slower request on the critical path, and retransmissions."""
    wanted = list(_slower(results))
    setups = [pair for page in results.pages for pair in slower_setups(results, page)]
    if not wanted and not setups:
        return results
    rows = {(row.cell, row.repeat): row for row in store.loads() if row.valid and not row.superseded}

    def why(faster: CellResult, slower: CellResult, repeat: int) -> str:
        pair = [rows.get((cell.cell.index, repeat)) for cell in (faster, slower)]
        both = [row for row in pair if row is not None]
        if len(both) < 2:
            return ""
        before, after = (record for _, record in store.load_records(both))
        network, client = loaded_with(results.experiment, slower.cell, repeat)
        if faster.cell.network == slower.cell.network and (busy := fuller_link(network, before, after)):
            return busy
        page = results.pages[slower.cell.page]
        path = critical_path(page, after, client)
        return "" if path is None else reason_between(page, before, after, path, network.down.rate_bit_per_s)

    return replace(
        results,
        reasons={pair[1].cell.index: reason for pair in wanted if (reason := why(*pair))},
        setup_reasons={
            (pair[1].cell.index, pair[0].cell.index): reason for pair in setups if (reason := why(*pair))
        },
    )


def _slower(results: Results) -> Iterator[tuple[CellResult, CellResult, int]]:
    """Yield (faster result, slower result, repeat number) for each result that is unexpectedly slow:
    slower with TFO than without TFO or, without TFO, slower than at the next longer RTT. To find the
    reason, the caller compares the two loads (one of each result) with this repeat number."""
    smallest = results.experiment.smallest_effect
    for page in results.pages:
        rows = results.comparisons(page)
        for arms in rows.values():
            baseline = baseline_of(arms)
            for arm in treatments_of(arms):
                cell = arms[arm.name]
                repeat = median_repeat(cell)
                if baseline is not None and repeat is not None and slower_in_the_median(cell, smallest):
                    yield baseline, cell, repeat
        baselines = [one for arms in rows.values() if (one := baseline_of(arms)) is not None]
        for cells in results.groups_differing_in(baselines, "rtt"):
            cells.sort(key=lambda cell: results.experiment.networks[cell.cell.network].rtt_us)
            for shorter, longer in pairwise(cells):
                repeats = sorted(shorter.plts_ms.keys() & longer.plts_ms.keys())
                if repeats and (longer.plt_ms_median or 0) < (shorter.plt_ms_median or 0):
                    yield longer, shorter, repeats[0]


# Factors whose values are ordered from the simplest to the most advanced. Later values should not be slower.
COMPARED: Final = {"session": get_args(SessionStart), "http": get_args(Http)}


def slower_setups(results: Results, page: str) -> Iterator[tuple[CellResult, CellResult, int]]:
    """Yield (faster result, slower result, a repeat with a valid load in both), all without TFO, for versions
    of HTTP that are slower than the run's oldest version, and for kinds of TLS session (resumed, early data)
    that are slower than its simplest kind. The slower result's shortest load must exceed the faster result's
    longest load by more than the smallest effect. A recording's mix of versions counts as the newest."""
    factors, smallest = results.factors, results.experiment.smallest_effect
    of_page = (cell for cell in results.cells if cell.cell.page == page and cell.plts_ms)
    without = [cell for cell in of_page if cell.cell.arm.role is not Role.TREATMENT]
    for compared in (factor for factor in factors.varying if factor.name in COMPARED):
        order, others = COMPARED[compared.name], factors.besides(compared.name)
        values = {cell.cell.index: compared.values(factors.point(cell.cell))[0] for cell in without}
        # Leave out loads in cleartext, which have no session.
        having = (cell for cell in without if values[cell.cell.index] in order)
        alike = grouped(((cell.cell.arm.name, factors.phrases(cell.cell, others)), cell) for cell in having)
        for cells in alike.values():
            plainest, *later = sorted(cells, key=lambda cell: order.index(values[cell.cell.index]))
            for cell in later:
                repeats = sorted(plainest.plts_ms.keys() & cell.plts_ms.keys())
                least_ms = min(cell.plts_ms.values()) - max(plainest.plts_ms.values())
                matters_ms = max(smallest.ms, smallest.percent / 100 * (plainest.plt_ms_median or 0.0))
                if repeats and least_ms > matters_ms:
                    yield plainest, cell, repeats[0]


def fuller_link(network: Network, before: LoadRecord, after: LoadRecord) -> str:
    """Return a clause such as `the uplink is busy for 80 % of the load and ...` if more bytes on a busy link
    explain why the load `after` took longer than `before`, else "". `network`: both loads' network."""
    if before.plt_ns is None or after.plt_ns is None:
        return ""
    slower_ns = after.plt_ns - before.plt_ns
    for name, way in (("uplink", "up"), ("downlink", "down")):
        rate = getattr(network, way).rate_bit_per_s
        was, now = (getattr(record.link, way).bytes for record in (before, after))
        if not rate or slower_ns <= 0:
            continue
        busy_ns, more_ns = (8e9 * count / rate for count in (now, now - was))
        if busy_ns >= BUSY_MIN * after.plt_ns and more_ns >= EXPLAINS_MIN * slower_ns:
            # Capped at 100 %, because the last packets may still be queued when the load ends.
            busy = share(min(1.0, busy_ns / after.plt_ns))
            packets = "; ".join(_additional_packets(way, before, after))
            why = f" ({packets})" if packets else ""
            return (
                f"the {name} is busy for {busy} of the load and carries {size(now - was)} more"
                f" ({size(now)}), which costs {time(more_ns / 1e6)}{why}"
            )
    return ""


def _additional_packets(way: str, before: LoadRecord, after: LoadRecord) -> Iterator[str]:
    """Yield phrases on kinds of packet that were sent more often in the load `after` than in the load
    `before`, in the direction `way` (`up` or `down`)."""
    (was, was_resent), (now, now_resent) = _packets(way, before), _packets(way, after)
    if now > was:
        against = f" against {was}" if was else ""
        connections = plural(sum(one.quic is not None for one in after.connections), "connection")
        yield (
            f"{now} Initial packets of QUIC{against}, on {connections}, in datagrams padded to"
            f" {PADDED_BYTES:,}{NBSP}bytes"
        )
    if now_resent > was_resent:
        yield f"{now_resent} TCP segments retransmitted, compared with {was_resent}"


def _packets(way: str, record: LoadRecord) -> tuple[int, int]:
    """Return the numbers of QUIC's Initial packets, and of retransmitted TCP segments, in this direction."""
    quics = (one.quic for one in record.connections if one.quic is not None)
    of_quic = (one.client if way == "up" else one.origin for one in quics)
    of_tcp = (one.client if way == "up" else one.origin for one in record.connections)
    initial = sum(end.sent.initial for end in of_quic if end is not None)
    return initial, sum(end.retransmits for end in of_tcp if end is not None)


def reason_between(
    page: Page, before: LoadRecord, after: LoadRecord, path: CriticalPath, down_bit_per_s: int | None
) -> str:
    """Return a clause on why the load `after` took longer than the load `before`; empty if unknown. `path`:
    the critical path of `after`. `down_bit_per_s`: the downlink's rate; None if it is unlimited."""
    if before.plt_ns is None or after.plt_ns is None:
        return ""
    was, now = _request_facts(page, before), _request_facts(page, after)
    on_path = dict.fromkeys(segment.resource for segment in path.segments)
    facts = {index: (was[index], now[index]) for index in on_path if index in was and index in now}
    slower_ns = after.plt_ns - before.plt_ns
    # Tickets can run out only if there are any. This is certain only if a connection was resumed.
    resumed = any(one.tls is not None and one.tls.resumed for one in after.connections)
    if slower_ns > 0 and resumed and (late := _without_ticket(page, facts, slower_ns)):
        return late
    longer = {index: new.longer_ns(old) for index, (old, new) in facts.items()}
    worst = max(longer, key=lambda index: longer[index], default=None)
    if worst is None or longer[worst] < SHARE_MIN * slower_ns or longer[worst] <= 0:
        return _load_retransmitted(before, after)
    opening = (
        f"{request_name(page, worst)} ({size(page.resources[worst].body_bytes)}), on the critical path, takes"
        f" {time(longer[worst] / 1e6)} longer"
    )
    competing = _competing_response(page, before, after, worst, EXPLAINS_MIN * longer[worst], down_bit_per_s)
    why = _why(*facts[worst], page.resources[worst].body_bytes, competing)
    return f"{opening}: {why}" if why else _load_retransmitted(before, after)


def _without_ticket(
    page: Page, facts: Mapping[int, tuple[_RequestFacts, _RequestFacts]], slower_ns: int
) -> str:
    """Return a clause on a request that was TLS early data in the faster load, but delays the slower load,
    because no session ticket was left for it. Return an empty string if there is no such request. `facts`:
    facts about requests on the slower load's critical path, in the faster and in the slower load."""
    for index, (was, now) in facts.items():
        late_ns = now.later_ns(was)
        if was.early and now.without_session and late_ns >= EXPLAINS_MIN * slower_ns:
            with_tfo = now.syn_data and not was.syn_data
            earlier = ", which TFO made a round trip earlier" if with_tfo else ""
            return (
                f"{request_name(page, index)}, on the critical path, ends {time(late_ns / 1e6)} later: it"
                " could not be early data, because no session ticket was left for the ClientHello of its"
                f" connection{earlier}"
            )
    return ""


def _why(was: _RequestFacts, now: _RequestFacts, body_bytes: int, competing: str) -> str:
    """Return the reason why a request took longer in the slower load (`now`) than in the faster load (`was`),
    or an empty string if it is unknown. `body_bytes`: the size of the response's body. `competing`: a clause
    on another response that shared the link, or an empty string."""
    longer_ns = now.longer_ns(was)
    lost, more = any(now.retransmitted), sum(now.retransmitted) > sum(was.retransmitted)
    late = longer_ns >= TIMEOUT_MIN_NS
    stopped = now.transfer_ns - was.transfer_ns >= max(TIMEOUT_MIN_NS, EXPLAINS_MIN * longer_ns)
    if now.syn_retransmitted and not was.syn_retransmitted:
        # Check this reason first: the timeout of a SYN, 1 s, exceeds most other delays.
        return "the SYN of its connection had no answer and was retransmitted, without data, after a timeout"
    if late and (more or (stopped and lost and body_bytes <= WINDOW_BYTES)):
        # A busy link cannot explain the pause, so the request or its response waited for a timeout.
        return _retransmitted(was, now)
    if body_bytes > WINDOW_BYTES and now.before_bytes < LESS_CARRIED * was.before_bytes:
        carried = f"a connection that had carried only {size(now.before_bytes)}"
        return (
            f"it used {carried if now.reused else 'a fresh connection'} with a small congestion window"
            f" instead of one that had carried {size(was.before_bytes)}"
        )
    return competing or (_retransmitted(was, now) if more or (late and lost) else "")


def _retransmitted(was: _RequestFacts, now: _RequestFacts) -> str:
    """Return a clause such as `1 segment of its connection had to be retransmitted (by the origin), against
    0`. The last number belongs to the faster load (`was`)."""
    ends = zip(now.retransmitted, ("the client", "the origin"), strict=True)
    whose = [f"{count} by {end}" if all(now.retransmitted) else f"by {end}" for count, end in ends if count]
    alike = sum(now.retransmitted) == sum(was.retransmitted)
    against = f", against {sum(was.retransmitted)}{' that delayed it less' if alike else ''}"
    segments = plural(sum(now.retransmitted), "segment")
    return f"{segments} of its connection had to be retransmitted ({', '.join(whose)}){against}"


def _load_retransmitted(before: LoadRecord, after: LoadRecord) -> str:
    was, now = before.retransmitted, after.retransmitted
    if now <= MORE_LOST * was:
        return ""
    return f"{plural(now, 'segment')} of the load had to be retransmitted, compared with {was}"


def _competing_response(
    page: Page, before: LoadRecord, after: LoadRecord, index: int, least_ns: float, down_bit_per_s: int | None
) -> str:
    """Return a clause about the response that delays the request `index` most in the slower load (`after`):
    the response whose overlap with this request grew most, compared with the faster load (`before`).
    Return "" if the delay is below `least_ns`. `down_bit_per_s`: the downlink's rate; None if unlimited."""
    was, now = _overlaps_ns(before, index), _overlaps_ns(after, index)
    more = {other: overlap - was.get(other, 0) for other, overlap in now.items()}

    def delays_ns(other: int) -> float:
        crosses_ns = 8e9 * page.resources[other].body_bytes / (down_bit_per_s or 1)
        return min(more[other], crosses_ns) if down_bit_per_s else more[other]

    other = max(more, key=delays_ns, default=None)
    if other is None or delays_ns(other) < least_ns:
        return ""
    return (
        f"{request_name(page, other)} ({size(page.resources[other].body_bytes)}) shares the link with it for"
        f" {time(more[other] / 1e6)} more"
    )


def _overlaps_ns(record: LoadRecord, index: int) -> dict[int, int]:
    """Return the requests that overlap in time with the request `index`, each with the overlap in ns."""
    spans = {request.resource: span for request in record.requests if (span := _span(request)) is not None}
    if index not in spans:
        return {}
    start, end = spans[index]
    return {
        other: overlap
        for other, (began, ended) in spans.items()
        if other != index and (overlap := min(end, ended) - max(start, began)) > 0
    }


def _request_facts(page: Page, record: LoadRecord) -> dict[int, _RequestFacts]:
    """Return the facts about each request of a page load, keyed by the request's index in the page. Leave out
    requests without a complete response, and responses from the cache."""
    connections = {one.id: one for one in record.connections}
    found = {}
    for request in record.requests:
        span = _span(request)
        if span is None or request.connection is None:
            continue
        on_it = (one for one in record.requests if one.connection == request.connection)
        earlier = [one for one in on_it if one.end_ns is not None and one.end_ns <= span[0]]
        carrier = connections.get(request.connection)
        client, origin = (None, None) if carrier is None else (carrier.client, carrier.origin)
        tls = None if carrier is None else carrier.tls
        found[request.resource] = _RequestFacts(
            took_ns=span[1] - span[0],
            waited_ns=span[0] - (span[0] if request.queued_ns is None else request.queued_ns),
            early=not earlier and tls is not None and tls.early_bytes > 0,
            without_session=not earlier and tls is not None and not tls.resumed,
            syn_data=client is not None and client.syn_data_acked,
            before_bytes=sum(page.resources[one.resource].body_bytes for one in earlier),
            syn_retransmitted=not earlier
            and client is not None
            and client.fastopen_client_fail == TFO_SYN_RETRANSMITTED,
            reused=bool(earlier),
            transfer_ns=span[1] - (span[0] if request.first_byte_ns is None else request.first_byte_ns),
            retransmitted=(client.retransmits if client else 0, origin.retransmits if origin else 0),
        )
    return found


def _span(request: Request) -> tuple[int, int] | None:
    """Return when the request was sent and when its response ended, in ns; None if either is unknown."""
    return None if request.sent_ns is None or request.end_ns is None else (request.sent_ns, request.end_ns)


def request_name(page: Page, index: int) -> str:
    """Return the name of a request for sentences, such as `request 12 logo.png` (see `request_label`)."""
    return f"request{NBSP}{request_label(page, index, NAME_LENGTH)}"


def request_label(page: Page, index: int, length: int = LABEL_LENGTH) -> str:
    """Return a request's index and the last part of its path, cut to `length` characters: `12 logo.png`."""
    resource = page.resources[index]
    path = resource.url.partition("?")[0].rstrip("/").rpartition("/")[2] or resource.host
    return f"{index} {path if len(path) <= length else f'{path[: length - 1]}…'}"


def place_and_reason(results: Results, cells: Sequence[CellResult]) -> str:
    """Return the end of a sentence on slow results, such as ` at 20 ms: the uplink is busy ...`. It names the
    result that TFO slows down most, and the reason. Return an empty string if no reason is known."""
    known = [cell for cell in cells if cell.cell.index in results.reasons]
    if not known:
        return ""
    worst = min(known, key=lambda cell: cell.improvement_percent or 0.0)
    # Cells without TFO, which are slower than over a longer RTT, have no saving by which to rank them.
    savings = [cell.improvement_percent for cell in (worst, *cells)]
    place = _place(results, worst, *(-saving for saving in savings if saving is not None))
    where = f" {results.factors.preposition} {place}" if place else ""
    return f"{where}: {results.reasons[worst.cell.index]}"


def slower_setup_sentences(results: Results, page: str) -> Iterator[str]:
    """Yield sentences on versions of HTTP that are slower than the oldest version, and on kinds of TLS
    session that are slower than the simplest kind (see `slower_setups`). Each sentence gives the reason."""
    of_values = grouped(
        (_values_compared(results, slower, faster), (slower, faster))
        for faster, slower, _ in slower_setups(results, page)
    )
    for (later, plainer, *others), pairs in of_values.items():
        known = [pair for pair in pairs if (pair[0].cell.index, pair[1].cell.index) in results.setup_reasons]
        if known:
            slower, faster = worst = max(known, key=_longer_ms)
            place = _place(results, slower, _longer_ms(worst), *map(_longer_ms, pairs))
            places = ", ".join(filter(None, [place, *others]))
            where = f" {results.factors.preposition} {places}" if places else ""
            took = f"{time(slower.plt_ms_median or 0.0)} against {time(faster.plt_ms_median or 0.0)}"
            why = results.setup_reasons[slower.cell.index, faster.cell.index]
            yield f"With {later} the page loads more slowly than with {plainer}{where}, {took}: {why}."


def _values_compared(results: Results, slower: CellResult, faster: CellResult) -> tuple[str, ...]:
    """Return the two values of the setting in which the results differ, the slower result's first, such as
    (`HTTP/3`, `HTTP/2`). Then come shared values that sentences have to name, such as the TLS version."""
    of_slower, of_faster = (results.factors.point(cell.cell) for cell in (slower, faster))
    asking = [factor for factor in results.factors.varying if factor.question]
    compared = next(one for one in asking if one.phrase_at(of_slower) != one.phrase_at(of_faster))
    others = (one.phrase_at(of_slower) for one in asking if one is not compared and not one.first_flight)
    return (compared.phrase_at(of_slower), compared.phrase_at(of_faster), *others)


def _longer_ms(pair: tuple[CellResult, CellResult]) -> float:
    slower, faster = pair
    return (slower.plt_ms_median or 0.0) - (faster.plt_ms_median or 0.0)


def _place(results: Results, cell: CellResult, *increases: float) -> str:
    """Return the name of a result's table row, such as `20 ms` or `20 ms (the largest increase of 3 rows)`.
    It is empty if no other row of the page has the same client, HTTP version, TLS version and so on (see
    `Factor.question`). `increases`: the slowdown in this row, then in each row that the sentence is about."""
    question, rows_of_page = results.factors.question, results.comparisons(cell.cell.page)
    if sum(question(row) == question(cell.cell.comparison) for row in rows_of_page) == 1:
        return ""
    telling = [factor for factor in results.factors.varying if not factor.question]
    name = results.factors.name_by(cell.cell, telling)
    own, *all_rows = [round(increase, 1) for increase in increases] or [0.0]
    if len(all_rows) < 2 or own < max(all_rows):
        return name
    rows = plural(len(all_rows), "row")
    alike = len(set(all_rows)) == 1
    return f"{name} (the same increase in {rows})" if alike else f"{name} (the largest increase of {rows})"
