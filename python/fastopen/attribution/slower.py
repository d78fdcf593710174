"""Why one load took longer than another of its page: which request met which connection, or which others."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from fastopen.attribution.critical_path import critical_path
from fastopen.attribution.phrases import NBSP, plural, size, time
from fastopen.attribution.segments import CriticalPath
from fastopen.contract import LoadRecord
from fastopen.contract.records import Request
from fastopen.experiments import baseline_of, draw_of, treatments_of
from fastopen.pages import Page
from fastopen.runs import LoadRow, RunStore
from fastopen.statistics import CellResult, Effect, Results, effect_of

# A request explains a slower load if it takes so much of the difference longer itself.
SHARE_MIN: Final = 0.25
# A connection that carried so many times less has a congestion window that grew less.
LESS_CARRIED: Final = 0.5
NAME_LENGTH: Final = 32


@dataclass(frozen=True)
class _Carried:
    """How a request was carried."""

    took_ns: int
    before_bytes: int
    """What its connection had carried when it was sent."""
    syn_data: bool
    """Whether its connection was opened with data in the SYN."""
    reused: bool


def reasons_slower(store: RunStore, results: Results) -> dict[int, str]:
    """Why loads of a cell took longer, by its index: with TFO than without, or over a shorter RTT than over a
    longer one. Of each the pair of loads that stands for the median; cells without a reason are missing.
    """
    found: dict[int, str] = {}
    wanted = list(_slower(results))
    rows: dict[tuple[int, int], LoadRow] = {}
    if wanted:
        rows = {(row.cell, row.repeat): row for row in store.loads() if row.valid and not row.superseded}
    for faster, slower, repeat in wanted:
        pair = [rows.get((cell.cell.index, repeat)) for cell in (faster, slower)]
        both = [row for row in pair if row is not None]
        if len(both) == 2:
            records = [record for _, record in store.load_records(both)]
            reason = _reason(results, slower, repeat, *records)
            if reason:
                found[slower.cell.index] = reason
    return found


def _slower(results: Results) -> Iterator[tuple[CellResult, CellResult, int]]:
    """Pairs of cells, the faster one first, with the repeat that stands for both."""
    smallest = results.experiment.smallest_effect
    for page in results.pages:
        rows = results.comparisons(page)
        for arms in rows.values():
            baseline = baseline_of(arms)
            for arm in treatments_of(arms):
                cell = arms[arm.name]
                median = cell.improvement_percent
                slower = effect_of(cell, smallest) is Effect.INCREASES
                if baseline is not None and median is not None and slower:
                    savings = cell.improvements_percent
                    yield baseline, cell, min(savings, key=lambda n: (abs(savings[n] - median), n))
        of_rows = [baseline_of(arms) for arms in rows.values()]
        yield from _sooner_over_longer_rtt(results, [one for one in of_rows if one is not None])


def _sooner_over_longer_rtt(
    results: Results, baselines: Sequence[CellResult]
) -> Iterator[tuple[CellResult, CellResult, int]]:
    series: dict[tuple[str, ...], list[CellResult]] = {}
    for cell in baselines:
        point = results.factors.point(cell.cell)
        others = [factor for factor in results.factors.varying if factor.name != "rtt"]
        series.setdefault(tuple(factor.phrase_at(point) for factor in others), []).append(cell)
    for cells in series.values():
        ordered = sorted(cells, key=lambda cell: results.experiment.networks[cell.cell.network].rtt_us)
        for shorter, longer in pairwise(ordered):
            repeats = sorted(shorter.plts_ms.keys() & longer.plts_ms.keys())
            if repeats and (longer.plt_ms_median or 0) < (shorter.plt_ms_median or 0):
                yield longer, shorter, repeats[0]


def _reason(results: Results, slower: CellResult, repeat: int, before: LoadRecord, after: LoadRecord) -> str:
    page = results.pages[slower.cell.page]
    client = results.experiment.setups[slower.cell.setup].client
    drawn = draw_of(results.experiment, slower.cell.comparison, repeat)
    path = critical_path(page, after, client if drawn is None else drawn.client(client))
    return "" if path is None else reason_between(page, before, after, path)


def reason_between(page: Page, before: LoadRecord, after: LoadRecord, path: CriticalPath) -> str:
    """Why `after`, whose critical path this is, took longer than `before`; empty where no request says it."""
    if before.plt_ns is None or after.plt_ns is None:
        return ""
    was, now = _carried(page, before), _carried(page, after)
    on_path = dict.fromkeys(segment.resource for segment in path.segments)
    longer = {
        index: now[index].took_ns - was[index].took_ns for index in on_path if index in was and index in now
    }
    worst = max(longer, key=lambda index: longer[index], default=None)
    if worst is None or longer[worst] < SHARE_MIN * (after.plt_ns - before.plt_ns) or longer[worst] <= 0:
        return ""
    opening = (
        f"{request_name(page, worst)} ({size(page.resources[worst].body_bytes)}), on the critical path, takes"
        f" {time(longer[worst] / 1e6)} longer"
    )
    if why := _other_connection(was[worst], now[worst]) or _met(page, before, after, worst):
        return f"{opening}: {why}"
    return ""


def _other_connection(was: _Carried, now: _Carried) -> str:
    """Whether it got a connection whose congestion window had grown less."""
    if now.before_bytes >= LESS_CARRIED * was.before_bytes:
        return ""
    carried = f"a connection that had carried {size(now.before_bytes)}"
    got = carried if now.reused else "a new connection"
    ready = ", opened with data in its SYN and so free sooner" if now.syn_data else ""
    return (
        f"it got {got}{ready}, in place of one that had carried {size(was.before_bytes)} and whose congestion"
        " window had grown"
    )


def _met(page: Page, before: LoadRecord, after: LoadRecord, index: int) -> str:
    """The response that shares the link with it for longer than it did."""
    was, now = _overlaps_ns(before, index), _overlaps_ns(after, index)
    more = {other: overlap - was.get(other, 0) for other, overlap in now.items()}
    other = max(more, key=lambda one: more[one] * page.resources[one].body_bytes, default=None)
    if other is None or more[other] <= 0:
        return ""
    return (
        f"{request_name(page, other)} ({size(page.resources[other].body_bytes)}) shares the link with it for"
        f" {time(more[other] / 1e6)} more"
    )


def _overlaps_ns(record: LoadRecord, index: int) -> dict[int, int]:
    """For how long each other request was under way while this one was."""
    spans = {request.resource: span for request in record.requests if (span := _span(request)) is not None}
    if index not in spans:
        return {}
    start, end = spans[index]
    return {
        other: overlap
        for other, (began, ended) in spans.items()
        if other != index and (overlap := min(end, ended) - max(start, began)) > 0
    }


def _carried(page: Page, record: LoadRecord) -> dict[int, _Carried]:
    """Of each request that was answered in full."""
    with_data = {
        connection.id
        for connection in record.connections
        if connection.client is not None and connection.client.syn_data_acked
    }
    found = {}
    for request in record.requests:
        span = _span(request)
        if span is None or request.connection is None:
            continue
        earlier = list(_earlier(record.requests, request, span[0]))
        found[request.resource] = _Carried(
            took_ns=span[1] - span[0],
            before_bytes=sum(page.resources[one.resource].body_bytes for one in earlier),
            syn_data=request.connection in with_data,
            reused=bool(earlier),
        )
    return found


def _earlier(requests: Iterable[Request], request: Request, sent_ns: int) -> Iterator[Request]:
    """What its connection carried before."""
    for one in requests:
        if one.connection == request.connection and one.end_ns is not None and one.end_ns <= sent_ns:
            yield one


def _span(request: Request) -> tuple[int, int] | None:
    """From when it was sent to its last byte."""
    return None if request.sent_ns is None or request.end_ns is None else (request.sent_ns, request.end_ns)


def request_name(page: Page, index: int) -> str:
    """`request 12 (logo.png)`: as figures number it."""
    resource = page.resources[index]
    path = resource.url.partition("?")[0].rstrip("/").rpartition("/")[2] or resource.host
    shown = path if len(path) <= NAME_LENGTH else f"{path[: NAME_LENGTH - 1]}…"
    return f"request{NBSP}{index} {shown}"


def where_slower(results: Results, cells: Sequence[CellResult], reasons: Mapping[int, str]) -> str:
    """How many of these cells a reason stands for, of which it is the worst; empty where none has one."""
    known = [cell for cell in cells if cell.cell.index in reasons]
    if not known:
        return ""
    worst = min(known, key=lambda cell: cell.improvement_percent or 0.0)
    others = len(cells) - 1
    more = f" (the most of {plural(others + 1, 'row')})" if others else ""
    return f"{results.factors.name_within_question(worst.cell)}{more}: {reasons[worst.cell.index]}"
