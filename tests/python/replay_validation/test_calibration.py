"""A page told from the queues of a network that is known."""

from collections.abc import Mapping, Sequence

import pytest

from fastopen.contract import LoadRecord
from fastopen.pages import Page
from fastopen.pages.recording import RecordedExchange
from fastopen.replay_validation import Calibration
from made_up_loads import load, page, request

# Of a made-up network: a full packet and a round trip.
PACKET_MS = 3.0
ROUND_TRIP_MS = 20.0


def exchange(asked: float, sent: float, first_byte: float, end: float) -> RecordedExchange:
    times = {"asked": asked, "sent": sent, "first_byte": first_byte, "end": end}
    handshakes = {"lookup": 0.0, "tcp": 0.0, "tls": 0.0}
    return RecordedExchange(**times, **handshakes, carrier="one at a time", received_bytes=1000)


def in_a_row(page: Page, busy_ms: Mapping[int, int]) -> LoadRecord:
    """A load in which answers come one after another: none before the last has come, each in 10 ms.

    `busy_ms`: what an answer waits besides, in a queue that is not the page's.
    """
    free, document_end, requests = 0, 0, []
    for index, resource in enumerate(page.resources):
        sent = document_end
        ready = sent + 20 + resource.server_think_us // 1000
        first_byte = max(ready, free + busy_ms.get(index, 0))
        free = first_byte + 10
        document_end = document_end or free
        requests.append(request(index, sent, sent, first_byte, free))
    return load(free, *requests)


def recorded(record: LoadRecord, *, shorter_ms: Mapping[int, float] = {}) -> list[RecordedExchange]:
    moments = [
        [(at or 0) / 1e6 for at in (one.queued_ns, one.sent_ns, one.first_byte_ns, one.end_ns)]
        for one in record.requests
    ]
    return [
        exchange(asked, sent, first_byte - shorter_ms.get(index, 0.0), end)
        for index, (asked, sent, first_byte, end) in enumerate(moments)
    ]


def calibrated(
    start: Page, exchanges: Sequence[RecordedExchange], busy_ms: Mapping[int, int] = {}
) -> tuple[Page, int]:
    """The page that is found, and by how many loads."""
    found = Calibration(start, exchanges, PACKET_MS, ROUND_TRIP_MS)
    for loads in range(1, 50):
        if not found.learn(in_a_row(found.page, busy_ms)):
            return found.page, loads
    raise AssertionError("it comes to no end")


def think_ms(found: Page) -> list[float]:
    return [one.server_think_us / 1000 for one in found.resources]


def test_thinking_is_told_from_waiting_behind_other_answers() -> None:
    # The second thinks for 100 ms, and the third waits behind it.
    original = page(0, 100, 0, 40)
    found, _ = calibrated(page(0, 100, 110, 150), recorded(in_a_row(original, {})))
    assert think_ms(found) == [0, 100, 0, 0]


def test_the_answer_that_was_late_first_explains_those_behind_it() -> None:
    original = page(50, 0, 0, 300, 0)
    found, loads = calibrated(page(0, 0, 0, 0, 0), recorded(in_a_row(original, {})))
    assert think_ms(found) == [50, 0, 0, 300, 0]
    # One load for each, one for what the last had waited behind the others, and one that shows no difference.
    assert loads == 4


def test_thinking_of_which_a_queue_hides_most_is_found() -> None:
    found, _ = calibrated(page(0, 100, 250, 240), recorded(in_a_row(page(0, 60, 200, 0), {})))
    assert think_ms(found) == [0, 60, 200, 0]


def test_between_think_times_that_are_too_short_and_too_long_one_that_fits_is_searched() -> None:
    # With more than 40 ms its answer waits for another 50: recorded was what 30 ms make.
    def load_of(found: Page) -> LoadRecord:
        think = found.resources[0].server_think_us / 1000
        first_byte = round(20 + think + (50 if think > 40 else 0))
        return load(first_byte, request(0, 0, 0, first_byte, first_byte + 10))

    found = Calibration(page(90), [exchange(0, 0, 50, 60)], PACKET_MS, ROUND_TRIP_MS)
    while found.learn(load_of(found.page)):
        pass
    assert think_ms(found.page) == [30]


def test_what_thinking_cannot_explain_is_taken_back() -> None:
    # Recorded 20 ms later than it comes through a long queue: thinking for as long changes nothing.
    exchanges = recorded(in_a_row(page(0, 0), {}))
    exchanges[1] = exchange(30, 30, 90, 100)
    found, _ = calibrated(page(0, 0), exchanges, {1: 200})
    assert think_ms(found) == [0, 0]


def test_a_wait_that_no_server_could_shorten_changes_nothing() -> None:
    exchanges = recorded(in_a_row(page(0, 0, 0), {}), shorter_ms={2: 15.0})
    found, _ = calibrated(page(0, 0, 0), exchanges)
    assert think_ms(found) == [0, 0, 0]


def test_one_packet_more_or_less_before_an_answer_is_no_thinking() -> None:
    exchanges = recorded(in_a_row(page(0, 0, 0), {}), shorter_ms={1: -PACKET_MS})
    found, loads = calibrated(page(0, 0, 0), exchanges)
    assert (think_ms(found), loads) == ([0, 0, 0], 1)


def test_a_request_that_had_no_answer_changes_nothing() -> None:
    unanswered = {**request(1, 0, 0, 0, 0), "first_byte_ns": None, "end_ns": None}
    found = Calibration(page(0, 7), [exchange(0, 0, 20, 30)] * 2, PACKET_MS, ROUND_TRIP_MS)
    assert not found.learn(load(200, request(0, 0, 0, 20, 30), unanswered))
    assert think_ms(found.page) == [0, 7]


@pytest.mark.parametrize(
    ("asked_ms", "at_bytes", "processing_ms"),
    [(60, 500, 0), (70, 600, 0), (50, 400, 0), (200, 1000, 0), (5, 0, 0), (62, 500, 2), (60.2, 500, 0)],
)
def test_a_reference_stands_where_the_body_was_when_it_was_asked_for(
    asked_ms: float, at_bytes: int, processing_ms: int
) -> None:
    whole = page(0, 0)
    picture = whole.resources[1].model_copy(update={"initiator_at_bytes": 500})
    half = whole.model_copy(update={"resources": (whole.resources[0], picture)})
    # Its 1000 bytes come in 100 ms; the load asks after 50 of them.
    record = load(300, request(0, 0, 0, 10, 110), request(1, 60, 60, 80, 90))
    exchanges = [exchange(0, 0, 10, 110), exchange(asked_ms, asked_ms, asked_ms + 20, asked_ms + 30)]
    found = Calibration(half, exchanges, PACKET_MS, ROUND_TRIP_MS)
    assert found.learn(record) == (asked_ms not in (60, 60.2))
    assert found.page.resources[1].initiator_at_bytes == at_bytes
    assert found.page.resources[1].processing_us == 1000 * processing_ms
