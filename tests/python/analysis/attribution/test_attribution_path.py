"""The critical path of a load: handwritten traces, and properties that hold for arbitrary loads."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastopen.analysis.attribution import Kind, critical_path
from fastopen.contract import Client, LoadRecord
from fastopen.contract.load_record import Lookup, TlsSession
from fastopen.pages import Page
from fastopen.runs.chain import handshakes_in_a_row_ns
from places import GOLDEN

LOAD = json.loads((GOLDEN / "load.json").read_text())
MS = 1_000_000
BROWSER = Client.model_validate({})
MGET = Client.model_validate({"profile": "mget"})


def page_of(resources: list[dict[str, Any]], load_event_processing_us: int = 0) -> Page:
    """Return a page of these resources. Missing keys get typical values."""
    usual = {"type": "other", "body_bytes": 1000}
    data = {
        "format": "fastopen-page/1",
        "name": "p",
        "url": "http://h0.test/",
        "source": "made up",
        "initiators": "declared",
        "load_event_processing_us": load_event_processing_us,
        "resources": [
            {"url": f"http://h{number}.test/", **usual, **resource}
            for number, resource in enumerate(resources)
        ],
    }
    return Page.model_validate_json(json.dumps(data))


def request(resource: int, connection: int, times_ms: tuple[float, ...], **others: Any) -> dict[str, Any]:
    """Return the request for a resource. `times_ms`: queued, sent, first byte, end."""
    names = ("queued_ns", "sent_ns", "first_byte_ns", "end_ns")
    times = {name: round(ms * MS) for name, ms in zip(names, times_ms, strict=True)}
    quiet = {"connect_start_ns": None, "connected_ns": None, "error": None}
    usual = {**LOAD["requests"][0], "resource": resource, "connection": connection}
    return {**usual, **quiet, **times, **others}


def opened(start_ms: float, end_ms: float) -> dict[str, int]:
    """Return fields of a request: when it opened its connection, and when the connection became writable."""
    return {"connect_start_ns": round(start_ms * MS), "connected_ns": round(end_ms * MS)}


def record_of(plt_ms: float | None, requests: list[dict[str, Any]], handshakes_us: list[int | None]) -> Any:
    """Return a load with these requests, on connections whose handshakes took these times."""
    usual = LOAD["connections"][0]
    begun = {
        one["connection"]: one["connect_start_ns"] for one in requests if one["connect_start_ns"] is not None
    }
    connections = [
        {**usual, "id": n, "host": f"h{n}.test", "opened_ns": begun.get(n, 0), "handshake_us": took}
        for n, took in enumerate(handshakes_us)
    ]
    plt_ns = None if plt_ms is None else round(plt_ms * MS)
    data = {**LOAD, "plt_ns": plt_ns, "requests": requests, "connections": connections}
    return LoadRecord.model_validate_json(json.dumps(data))


def pieces(page: Page, record: LoadRecord, client: Client = BROWSER) -> list[tuple[Kind, float, int]]:
    """Return the segments of the critical path as (kind, length in milliseconds, resource)."""
    path = critical_path(page, record, client)
    assert path is not None
    return [(piece.kind, piece.length_ns / MS, piece.resource) for piece in path.segments]


def test_a_single_request_is_handshake_wait_transfer_and_processing() -> None:
    record = record_of(95, [request(0, 0, (0, 20, 50, 80), **opened(0, 20))], [20_000])
    assert pieces(page_of([{"initiator": None}], 15_000), record) == [
        (Kind.HANDSHAKE, 20, 0),
        (Kind.WAIT, 30, 0),
        (Kind.TRANSFER, 30, 0),
        (Kind.PROCESSING, 15, 0),
    ]


def test_a_lookup_is_a_piece_and_what_ended_meanwhile_did_not_make_room() -> None:
    page = page_of([{"initiator": None}, {"initiator": 0}, {"initiator": 0, "initiator_at_bytes": 10}])
    root = request(0, 0, (0, 30, 40, 100), **opened(20, 30))
    other = request(1, 1, (100, 110, 120, 125), **opened(100, 110))
    last = request(2, 2, (100, 140, 150, 160), **opened(130, 140))
    record = record_of(160, [root, other, last], [10_000, 10_000, 10_000])

    def lookup(number: int, asked_ms: int, answered_ms: int) -> Lookup:
        golden = {**LOAD["lookups"][0], "host": f"h{number}.test"}
        times = {"asked_ns": asked_ms * MS, "answered_ns": answered_ms * MS}
        return Lookup.model_validate(golden | times)

    lookups = [lookup(0, 0, 20), lookup(1, 50, 100), lookup(2, 90, 130)]
    record = record.model_copy(update={"lookups": lookups})
    assert pieces(page, record) == [
        (Kind.LOOK_UP, 20, 0),
        (Kind.HANDSHAKE, 10, 0),
        (Kind.WAIT, 10, 0),
        (Kind.TRANSFER, 60, 0),
        (Kind.LOOK_UP, 30, 2),
        (Kind.HANDSHAKE, 10, 2),
        (Kind.WAIT, 10, 2),
        (Kind.TRANSFER, 10, 2),
    ]
    assert handshakes_in_a_row_ns(page, record) == 20 * MS


@pytest.mark.parametrize(("port", "tls"), [(53, None), (853, LOAD["connections"][1]["tls"])])
def test_the_handshake_with_the_resolver_is_one_that_fast_open_saves(port: int, tls: Any) -> None:
    page = page_of([{"initiator": None}])
    record = record_of(95, [request(0, 0, (0, 60, 70, 90), **opened(50, 60))], [10_000])
    golden = {**LOAD["lookups"][0], "host": "h0.test", "asked_ns": 0, "answered_ns": 50 * MS}
    session = None if tls is None else TlsSession.model_validate({**tls, "secured_ns": 40 * MS})
    resolver = {"host": "198.19.255.53", "port": port, "opened_ns": 0, "handshake_us": 30_000}
    record = record.model_copy(
        update={
            "lookups": [Lookup.model_validate(golden)],
            "connections": [
                *record.connections,
                record.connections[0].model_copy(update={"id": 1, "tls": session, **resolver}),
            ],
        }
    )
    assert handshakes_in_a_row_ns(page, record) == 40 * MS
    assert pieces(page, record)[0] == (Kind.LOOK_UP, 50, 0)


def test_a_connection_that_sends_in_its_syn_has_no_handshake() -> None:
    record = record_of(50, [request(0, 0, (0, 0.1, 30, 50), **opened(0, 0.1))], [None])
    kinds = [kind for kind, _, _ in pieces(page_of([{"initiator": None}]), record)]
    assert kinds == [Kind.QUEUEING, Kind.WAIT, Kind.TRANSFER]


def test_early_data_waits_for_its_answer_and_not_for_tls() -> None:
    session = {**LOAD["connections"][1]["tls"], "secured_ns": 40 * MS - 1}
    page = page_of([{"initiator": None}])

    def kinds(sent_ms: float) -> list[tuple[Kind, float, int]]:
        record = record_of(60, [request(0, 0, (0, sent_ms, sent_ms + 20, 60), **opened(0, 20))], [20_000])
        connection = record.connections[0].model_copy(
            update={"tls": TlsSession.model_validate(session), "connected_ns": 20 * MS}
        )
        return pieces(page, record.model_copy(update={"connections": [connection]}))

    assert kinds(20) == [(Kind.HANDSHAKE, 20, 0), (Kind.WAIT, 20, 0), (Kind.TRANSFER, 20, 0)]
    later = [kind for kind, _, _ in kinds(40)]
    assert later == [Kind.HANDSHAKE, Kind.TLS, Kind.QUEUEING, Kind.WAIT]


def test_the_path_goes_through_the_initiator_at_the_byte_that_gave_the_resource_away() -> None:
    page = page_of(
        [
            {"initiator": None, "body_bytes": 5000},
            {"initiator": 0, "initiator_at_bytes": 2000, "processing_us": 5000},
        ]
    )
    root = request(0, 0, (0, 10, 20, 100), **opened(0, 10))
    child = request(1, 1, (45, 55, 70, 200), **opened(45, 55))
    assert pieces(page, record_of(200, [root, child], [10_000, 10_000])) == [
        (Kind.HANDSHAKE, 10, 0),
        (Kind.WAIT, 10, 0),
        (Kind.TRANSFER, 20, 0),
        (Kind.PROCESSING, 5, 1),
        (Kind.HANDSHAKE, 10, 1),
        (Kind.WAIT, 15, 1),
        (Kind.TRANSFER, 130, 1),
    ]


def test_a_request_that_waited_for_its_connection_stands_behind_the_one_before_it() -> None:
    page = page_of([{"initiator": None}, {"initiator": 0}, {"initiator": 0}])
    root = request(0, 0, (0, 10, 20, 30), **opened(0, 10))
    first = request(1, 0, (30, 30, 50, 60))
    second = request(2, 0, (30, 61, 80, 90))
    record = record_of(90, [root, first, second], [10_000])
    assert pieces(page, record)[-5:] == [
        (Kind.WAIT, 20, 1),
        (Kind.TRANSFER, 10, 1),
        (Kind.QUEUEING, 1, 2),
        (Kind.WAIT, 19, 2),
        (Kind.TRANSFER, 10, 2),
    ]
    path = critical_path(page, record, BROWSER)
    assert path is not None
    assert path.ready_ns == 31 * MS


def multiplexed(record: LoadRecord) -> LoadRecord:
    """Return a copy of the load in which each connection can carry several requests at once."""
    shared = [
        one.model_copy(
            update={
                "multiplexed": True,
                "connected_ns": one.opened_ns + (one.handshake_us or 0) * 1000,
            }
        )
        for one in record.connections
    ]
    return record.model_copy(update={"connections": shared})


def test_requests_that_share_a_connection_wait_for_its_handshake_and_not_for_each_other() -> None:
    page = page_of([{"initiator": None}, {"initiator": 0}, {"initiator": 0}])
    root = request(0, 0, (0, 10, 20, 30), **opened(0, 10))
    first = request(1, 1, (30, 50, 60, 100), **opened(30, 50))
    second = request(2, 1, (32, 50, 65, 120))
    record = multiplexed(record_of(120, [root, first, second], [10_000, 20_000]))
    assert pieces(page, record)[-4:] == [
        (Kind.PROCESSING, 2, 2),
        (Kind.HANDSHAKE, 18, 2),
        (Kind.WAIT, 15, 2),
        (Kind.TRANSFER, 55, 2),
    ]
    assert handshakes_in_a_row_ns(page, record) == 30 * MS


def test_what_is_asked_for_on_a_shared_connection_that_stands_waits_for_nothing_but_its_initiator() -> None:
    page = page_of([{"initiator": None}, {"initiator": 0, "initiator_at_bytes": 10}, {"initiator": 1}])
    root = request(0, 0, (0, 10, 20, 90), **opened(0, 10))
    script = request(1, 0, (21, 21, 40, 50))
    image = request(2, 0, (50, 50, 70, 100))
    record = multiplexed(record_of(100, [root, script, image], [10_000]))
    assert pieces(page, record) == [
        (Kind.HANDSHAKE, 10, 0),
        (Kind.WAIT, 10, 0),
        (Kind.TRANSFER, 1, 0),
        (Kind.WAIT, 19, 1),
        (Kind.TRANSFER, 10, 1),
        (Kind.WAIT, 20, 2),
        (Kind.TRANSFER, 30, 2),
    ]
    assert handshakes_in_a_row_ns(page, record) == 10 * MS


def test_without_keep_alive_the_path_stands_behind_the_request_that_made_room() -> None:
    page = page_of([{"initiator": None}, {"initiator": 0}, {"initiator": 0}])
    root = request(0, 0, (0, 10, 20, 30), **opened(0, 10))
    first = request(1, 1, (30, 40, 50, 60), **opened(30, 40))
    second = request(2, 2, (30, 70, 80, 90), **opened(60, 70))
    path = critical_path(page, record_of(90, [root, first, second], [10_000] * 3), BROWSER)
    assert path is not None
    assert path.total_ns(Kind.HANDSHAKE) == 30 * MS
    assert path.count(Kind.HANDSHAKE) == 3
    assert path.total_ns(Kind.QUEUEING) == 0


def test_of_a_handshake_begun_before_the_request_only_the_rest_counts() -> None:
    page = page_of([{"initiator": None}, {"initiator": 0}])
    root = request(0, 0, (0, 10, 20, 30), **opened(0, 10))
    late = request(1, 1, (30, 33, 50, 60), **opened(13, 33))
    assert (Kind.HANDSHAKE, 3, 1) in pieces(page, record_of(60, [root, late], [10_000, 20_000]))


def test_a_request_whose_connection_was_given_away_waited_for_that_handshake_too() -> None:
    page = page_of([{"initiator": None}, {"initiator": 0}, {"initiator": 0}])
    root = request(0, 0, (0, 10, 20, 30), **opened(0, 10))
    urgent = request(2, 1, (35, 50, 60, 70), **opened(30, 50))
    late = request(1, 2, (30, 55, 65, 80), **opened(35, 55))
    record = record_of(80, [root, urgent, late], [10_000, 20_000, 20_000])
    one_origin = [{**one.model_dump(), "host": "h1.test"} for one in record.connections]
    record = LoadRecord.model_validate(record.model_dump() | {"connections": one_origin})
    assert pieces(page, record)[3:] == [
        (Kind.HANDSHAKE, 5, 1),
        (Kind.HANDSHAKE, 20, 1),
        (Kind.WAIT, 10, 1),
        (Kind.TRANSFER, 15, 1),
    ]


def test_mget_asks_for_everything_after_the_last_document() -> None:
    page = page_of([{"initiator": None}, {"initiator": 0}, {"initiator": 1, "processing_us": 7000}])
    root = request(0, 0, (0, 10, 20, 30), **opened(0, 10))
    one = request(1, 1, (30, 40, 50, 55), **opened(30, 40))
    two = request(2, 2, (30, 40, 50, 60), **opened(30, 40))
    of_one = pieces(page, record_of(60, [root, one, two], [10_000] * 3), MGET)
    assert {resource for _, _, resource in of_one} == {0, 2}
    assert Kind.PROCESSING not in {kind for kind, _, _ in of_one}


def test_a_load_that_did_not_finish_has_no_path() -> None:
    assert critical_path(page_of([{"initiator": None}]), record_of(None, [], []), BROWSER) is None


@st.composite
def loads(draw: st.DrawFn) -> tuple[Page, LoadRecord]:
    """Draw any load, even one that no client can make: times in any order, requests without an end."""
    count = draw(st.integers(1, 8))
    resources: list[dict[str, Any]] = [{"initiator": None}]
    for number in range(1, count):
        part = draw(st.none() | st.integers(0, 1000))
        processing = draw(st.integers(0, 50_000))
        phase = draw(st.sampled_from(["load", "async"]))
        initiator = draw(st.integers(0, number - 1))
        resources.append(
            {
                "initiator": initiator,
                "initiator_at_bytes": part,
                "processing_us": processing,
                "phase": phase,
            }
        )
    time = st.none() | st.integers(0, 300 * MS)
    names = ("queued_ns", "connect_start_ns", "connected_ns", "sent_ns", "first_byte_ns", "end_ns")
    requests = [
        {
            **request(number, draw(st.integers(0, 3)), (0, 0, 0, 0)),
            **{name: draw(time) for name in names},
        }
        for number in range(count)
    ]
    handshakes = draw(st.lists(st.none() | st.integers(0, 100_000), min_size=4, max_size=4))
    return page_of(resources), record_of(draw(st.integers(0, 400)), requests, handshakes)


@pytest.mark.slow
@given(loads(), st.sampled_from([BROWSER, MGET]))
def test_the_pieces_of_any_load_follow_one_another_and_add_up_exactly(
    load: tuple[Page, LoadRecord], client: Client
) -> None:
    page, record = load
    path = critical_path(page, record, client)
    assert path is not None
    assert sum(piece.length_ns for piece in path.segments) == path.plt_ns == record.plt_ns
    edges = [(piece.start_ns, piece.end_ns) for piece in path.segments]
    assert all(start < end for start, end in edges)
    assert all(before[1] == after[0] for before, after in pairwise(edges))
    assert sum(path.total_ns(kind) for kind in Kind) == path.plt_ns
    assert path.total_ns(Kind.LOOK_UP) == 0
    assert path.ready_ns >= 0


@st.composite
def real_loads(draw: st.DrawFn) -> tuple[Page, LoadRecord]:
    """Draw a load in which causes precede effects. Requests open connections or reuse earlier ones."""
    count = draw(st.integers(1, 8))
    resources: list[dict[str, Any]] = []
    requests: list[dict[str, Any]] = []
    handshakes: list[int | None] = []
    free_ns: list[int] = []
    for number in range(count):
        initiator = None if number == 0 else draw(st.integers(0, number - 1))
        resources.append({"initiator": initiator})
        queued = 0 if initiator is None else requests[initiator]["end_ns"]
        again = draw(st.integers(-1, len(free_ns) - 1))
        if again < 0:
            took = draw(st.integers(0, 100_000))
            handshakes.append(took)
            free_ns.append(0)
            connection, sent = len(free_ns) - 1, queued + took * 1000
            begun = {"connect_start_ns": queued, "connected_ns": sent}
        else:
            connection, sent, begun = again, max(queued, free_ns[again]), {}
        first = sent + draw(st.integers(1, 100)) * MS
        end = first + draw(st.integers(1, 100)) * MS
        free_ns[connection] = end
        times = tuple(ns / MS for ns in (queued, sent, first, end))
        requests.append(request(number, connection, times, **begun))
    plt_ms = max(one["end_ns"] for one in requests) / MS
    return page_of(resources), record_of(plt_ms, requests, handshakes)


@given(real_loads())
def test_the_handshakes_on_the_path_are_never_more_than_the_longest_in_a_row(
    load: tuple[Page, LoadRecord],
) -> None:
    page, record = load
    path = critical_path(page, record, BROWSER)
    assert path is not None
    assert path.total_ns(Kind.HANDSHAKE) <= handshakes_in_a_row_ns(page, record)


@given(real_loads())
def test_a_real_load_is_explained_whole(load: tuple[Page, LoadRecord]) -> None:
    """No time is attributed to queueing or processing, because these loads have none."""
    page, record = load
    path = critical_path(page, record, BROWSER)
    assert path is not None
    kinds = {piece.kind for piece in path.segments}
    assert kinds <= {Kind.HANDSHAKE, Kind.WAIT, Kind.TRANSFER}


@pytest.mark.parametrize("kind", list(Kind))
def test_kinds_are_words_that_a_legend_can_show(kind: Kind) -> None:
    assert kind.value.replace(" ", "").replace("-", "").isalpha()
