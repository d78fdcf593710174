"""The upper bound of TFO's saving in a load: the handshakes that requests waited for one after another."""

import json
from typing import Any

from fastopen.contract import LoadRecord
from fastopen.pages import Page
from fastopen.runs.chain import handshakes_in_a_row_ns
from places import GOLDEN

LOAD = GOLDEN / "load.json"
MS = 1_000_000


def _page(initiators: list[int | None]) -> Page:
    resources = [
        {"url": f"http://h{number}.test/", "type": "other", "body_bytes": 1, "initiator": initiator}
        for number, initiator in enumerate(initiators)
    ]
    page = {"format": "fastopen-page/1", "name": "p", "url": "http://h0.test/", "source": "made up"}
    return Page.model_validate_json(json.dumps({**page, "initiators": "declared", "resources": resources}))


def _record(requests: list[tuple[int, int, int, int | None, int]], handshakes_us: list[int]) -> LoadRecord:
    """Return a load. A request is (resource, connection, queued, connect start or None, end); times in ms."""
    golden: dict[str, Any] = json.loads(LOAD.read_text())
    request, connection = golden["requests"][0], golden["connections"][0]
    golden["requests"] = [
        {
            **request,
            "resource": resource,
            "connection": used,
            "queued_ns": queued * MS,
            "connect_start_ns": None if begun is None else begun * MS,
            "sent_ns": queued * MS + 1 if begun is None else begun * MS + handshakes_us[used] * 1000,
            "end_ns": end * MS,
        }
        for resource, used, queued, begun, end in requests
    ]
    opened = {used: begun * MS for _, used, _, begun, _ in requests if begun is not None}
    golden["connections"] = [
        {
            **connection,
            "id": number,
            "host": f"h{number}.test",
            "opened_ns": opened[number],
            "handshake_us": took,
        }
        for number, took in enumerate(handshakes_us)
    ]
    return LoadRecord.model_validate_json(json.dumps(golden))


def test_handshakes_of_initiator_and_initiated_add_up() -> None:
    record = _record([(0, 0, 0, 0, 10), (1, 1, 10, 10, 20)], [3000, 4000])
    assert handshakes_in_a_row_ns(_page([None, 0]), record) == 7 * MS


def test_handshakes_side_by_side_do_not_add_up() -> None:
    record = _record([(0, 0, 0, 0, 10), (1, 1, 10, 10, 20), (2, 2, 10, 10, 20)], [3000, 4000, 5000])
    assert handshakes_in_a_row_ns(_page([None, 0, 0]), record) == 8 * MS


def test_a_request_on_a_connection_that_stands_adds_nothing() -> None:
    record = _record([(0, 0, 0, 0, 10), (1, 0, 10, None, 20)], [3000])
    assert handshakes_in_a_row_ns(_page([None, 0]), record) == 3 * MS


def test_a_request_that_waited_for_room_stands_behind_what_made_it() -> None:
    # Without keep-alive, resource 2 is queued at 10 ms and opens a connection when resource 1 ends at 20 ms.
    record = _record([(0, 0, 0, 0, 10), (1, 1, 10, 10, 20), (2, 2, 10, 20, 30)], [3000, 4000, 5000])
    assert handshakes_in_a_row_ns(_page([None, 0, 0]), record) == 12 * MS


def test_a_request_whose_connection_was_given_away_waited_for_that_handshake_too() -> None:
    # Resource 1 is queued at 10 ms and opens a connection. A more urgent request gets that connection when it
    # is established at 14 ms.
    record = _record([(0, 0, 0, 0, 10), (2, 1, 13, 10, 30), (1, 2, 10, 13, 40)], [3000, 4000, 5000])
    one_origin = [{**one.model_dump(), "host": "h1.test"} for one in record.connections[1:]]
    connections = [record.connections[0].model_dump(), *one_origin]
    record = LoadRecord.model_validate(record.model_dump() | {"connections": connections})
    assert handshakes_in_a_row_ns(_page([None, 0, 0]), record) == (3 + 3 + 5) * MS


def test_a_request_that_found_a_free_connection_waited_for_the_handshake_that_was_under_way_as_well() -> None:
    # Resource 2 opens a connection at 13 ms, but resource 1's connection is free at 15 ms and carries it.
    record = _record(
        [(0, 0, 0, 0, 5), (1, 1, 5, 5, 15), (2, 1, 13, None, 30), (3, 2, 20, 13, 40)], [0, 0, 9000]
    )
    connections = [one.model_dump() | {"host": "h1.test"} for one in record.connections]
    requests = [one.model_dump() for one in record.requests]
    requests[2]["sent_ns"] = 15 * MS
    record = LoadRecord.model_validate(
        record.model_dump() | {"connections": connections, "requests": requests[:3]}
    )
    assert handshakes_in_a_row_ns(_page([None, 0, 0, 0]), record) == 2 * MS


def test_of_a_handshake_begun_before_the_request_only_the_rest_counts() -> None:
    record = _record([(0, 0, 0, 0, 10), (1, 1, 12, 10, 20)], [3000, 4000])
    assert handshakes_in_a_row_ns(_page([None, 0]), record) == (3 + 2) * MS


def test_a_load_without_requests_has_none() -> None:
    assert handshakes_in_a_row_ns(_page([None]), _record([], [])) == 0
