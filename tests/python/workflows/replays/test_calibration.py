"""Calibration: separating a page's think times from the queues of a known network."""

from dataclasses import replace

import pytest

from fastopen.contract import LoadRecord
from fastopen.pages import Page
from fastopen.pages.recording import RecordedExchange
from fastopen.workflows.replays.calibration import (
    Misfit,
    _Tried,
    alone,
    calibrate,
    corrected,
    misfit,
    nearer,
    search_think_times,
    spread,
    unlikelihood,
)
from made_up_loads import load, page, request


def exchange(asked: float, sent: float, first_byte: float, end: float) -> RecordedExchange:
    return RecordedExchange(
        *(asked, sent, first_byte, end), lookup=0, tcp=0, tls=0, carrier="one at a time", received_bytes=1000
    )


def waited(ms: float) -> RecordedExchange:
    return exchange(0, 10, 10 + ms, 20 + ms)


def waits_us(*of_resources: float) -> Misfit:
    return Misfit(dict(enumerate(of_resources)), {}, {})


NO_LIMIT = (10**9,) * 10


def think_ms(found: Page) -> list[float]:
    return [one.server_think_us / 1000 for one in found.resources]


def test_what_a_load_without_thinking_does_not_wait_for_may_be_thinking() -> None:
    empty = page(0, 0, 0)
    record = load(200, *(request(n, 0, 100, 120, 150) for n in range(3)))
    found = misfit(empty, [waited(50), waited(80), waited(20)], record)
    assert found.waits_us == {0: 30_000, 1: 60_000, 2: 0}
    assert sum(found.errors_us) == 90_000
    assert think_ms(nearer(empty, found, 0.25, NO_LIMIT)) == [7.5, 15, 0]


def test_what_the_next_load_waits_for_too_long_is_taken_back() -> None:
    assert think_ms(nearer(page(30, 60, 5), waits_us(-10_000, 4_000, -24_000), 0.25, NO_LIMIT)) == [
        27.5,
        61,
        0,
    ]


def test_a_request_that_had_no_answer_keeps_what_it_has() -> None:
    unanswered = {**request(1, 0, 0, 0, 0), "first_byte_ns": None, "end_ns": None}
    record = load(200, request(0, 0, 0, 20, 30), unanswered)
    found = misfit(page(0, 7), [waited(50), waited(50)], record)
    assert think_ms(nearer(page(0, 7), found, 1, NO_LIMIT)) == [30, 7]


def test_nothing_but_its_server_delays_what_is_alone_on_the_network() -> None:
    # Two exchanges one after another, two at once, one that begins while the previous body still arrives, and
    # one after all others.
    spans = [(0, 10), (30, 40), (60, 90), (61, 80), (85, 120), (200, 230)]
    exchanges = [exchange(sent, sent, sent + 8, end) for sent, end in spans]
    assert alone(exchanges) == {0, 1, 5}


def test_the_think_times_that_are_certain_are_corrected_by_all_that_is_missing() -> None:
    found = corrected(page(0, 0, 0), waits_us(30_000, 12_000, -40_000), {0}, NO_LIMIT)
    assert think_ms(found) == [30, 0, 0]


@pytest.mark.parametrize(("asked_ms", "at_bytes"), [(60, 500), (70, 600), (50, 400), (200, None), (5, 0)])
def test_a_reference_stands_where_the_body_was_when_it_was_asked_for(
    asked_ms: float, at_bytes: int | None
) -> None:
    whole = page(0, 0)
    picture = whole.resources[1].model_copy(update={"initiator_at_bytes": 500})
    half = whole.model_copy(update={"resources": (whole.resources[0], picture)})
    # The 1000 bytes of the body arrive within 100 ms. The load requests the picture after 50 ms.
    record = load(300, request(0, 0, 0, 10, 110), request(1, 60, 60, 80, 90))
    exchanges = [exchange(0, 0, 10, 110), exchange(asked_ms, asked_ms, asked_ms + 20, asked_ms + 30)]
    found = nearer(half, misfit(half, exchanges, record), 1, NO_LIMIT)
    assert found.resources[1].initiator_at_bytes == at_bytes


def test_references_keep_the_order_in_which_they_were_asked_for() -> None:
    whole = page(0, 0, 0, 0)
    places = dict(zip((1, 2, 3), (400, 410, 420), strict=True))
    resources = [
        one.model_copy(update={"initiator_at_bytes": places.get(i)}) for i, one in enumerate(whole.resources)
    ]
    whole = whole.model_copy(update={"resources": tuple(resources)})
    found = nearer(whole, Misfit({}, {3: 30, 1: 100, 2: 20}, {}), 1, NO_LIMIT)
    assert [one.initiator_at_bytes for one in found.resources[1:]] == [500, 500, 500]
    found = nearer(whole, Misfit({}, {1: 600, 2: 20, 3: -20}, {}), 1, NO_LIMIT)
    assert [one.initiator_at_bytes for one in found.resources[1:]] == [None, None, None]


def over_a_link(loaded: Page) -> LoadRecord:
    """Return a load that requests all resources at once. The link sends one response after another, 100 ms
    each, in the order of their think times."""
    requests, free = {}, 0
    for index, one in sorted(enumerate(loaded.resources), key=lambda of: of[1].server_think_us):
        first_byte = max(free, round(one.server_think_us / 1000))
        free = first_byte + 100
        requests[index] = request(index, 0, 0, first_byte, free)
    return load(free, *(requests[index] for index in sorted(requests)))


def recorded(of: Page) -> list[RecordedExchange]:
    record = over_a_link(of)
    return [
        exchange(0, 0, (one.first_byte_ns or 0) / 1e6, (one.end_ns or 0) / 1e6) for one in record.requests
    ]


def as_imported(of: Page) -> Page:
    return page(*(round(one.first_byte) for one in recorded(of)))


@pytest.mark.parametrize("think", [(0, 0, 0, 0), (0, 0, 0, 550), (0, 250, 0, 800)], ids=str)
def test_thinking_that_shows_is_found_and_a_queue_is_not_taken_for_it(think: tuple[int, ...]) -> None:
    true = page(*think)
    found = calibrate(as_imported(true), recorded(true), over_a_link)
    assert think_ms(found) == pytest.approx(think, abs=1)


def test_thinking_behind_a_queue_is_no_longer_than_the_queue() -> None:
    # The second response is ready while the first one is sent, so think times of 1 and 99 ms give the same
    # load.
    true = page(0, 60, 180)
    found = calibrate(as_imported(true), recorded(true), over_a_link)
    assert over_a_link(found).requests == over_a_link(true).requests


def test_a_think_time_that_explains_less_than_chance_would_is_left_out() -> None:
    # Only the last server thinks. One other response is 200 ms early, which no think time explains. Compared
    # with that, a delay of 4 ms of another response is noise.
    true = page(0, 0, 0, 0, 0, 900)
    exchanges = recorded(true)
    for index, late_ms in ((1, 4.0), (3, -200.0)):
        first_byte = exchanges[index].first_byte + late_ms
        exchanges[index] = replace(exchanges[index], first_byte=first_byte)
    found = calibrate(as_imported(true), exchanges, over_a_link)
    assert think_ms(found) == pytest.approx([0, 0, 0, 0, 0, 900], abs=1)


def test_no_server_thinks_longer_than_was_waited_for_beyond_a_round_trip() -> None:
    assert think_ms(nearer(page(5, 5), waits_us(90_000, 1_000), 1, (20_000, 20_000))) == [20, 6]


def test_a_resource_that_loads_do_not_know_keeps_its_think_time() -> None:
    true = page(0, 250, 0, 800)

    def without_the_last(loaded: Page) -> LoadRecord:
        record = over_a_link(loaded)
        return record.model_copy(update={"requests": record.requests[:3]})

    found = calibrate(as_imported(true), recorded(true), without_the_last)
    assert found.resources[3].server_think_us == as_imported(true).resources[3].server_think_us


def test_thinking_that_a_queue_hides_is_among_the_explanations() -> None:
    true = page(0, 60, 180)
    found = calibrate(as_imported(true), recorded(true), over_a_link)
    hidden = {one.server_think_us[1] for one in (found.explanation, *found.explanations)}
    assert min(hidden) == 0
    assert max(hidden) > 50_000
    of_true = over_a_link(true).requests
    assert all(over_a_link(found.with_explanation(one)).requests == of_true for one in found.explanations)


def test_what_was_found_counts_where_time_is_over() -> None:
    true = page(0, 0, 0, 550)
    imported = as_imported(true)
    loads = search_think_times(imported, recorded(true))
    next(loads)
    with pytest.raises(StopIteration) as stopped:
        loads.throw(TimeoutError)
    assert stopped.value.value.applied_to(imported) == imported
    assert not stopped.value.value.complete
    loads = search_think_times(imported, recorded(true))
    wanted = next(loads)
    for _ in range(3):
        wanted = loads.send([over_a_link(one) for one in wanted])
    with pytest.raises(StopIteration) as stopped:
        loads.throw(TimeoutError)
    found: Page = stopped.value.value.applied_to(imported)
    assert over_a_link(found).requests == over_a_link(true).requests


def test_a_page_whose_loads_are_invalid_stays_as_it_is() -> None:
    true = page(0, 0, 0, 550)
    imported = as_imported(true)

    def invalid(loaded: Page) -> LoadRecord:
        return over_a_link(loaded).model_copy(update={"valid": False})

    assert calibrate(imported, recorded(true), invalid) == imported


@pytest.mark.parametrize(
    ("count", "places"), [(0, []), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (10, [0, 3, 6, 9])]
)
def test_a_row_is_thinned_out_evenly(count: int, places: list[int]) -> None:
    assert spread(count, 4) == places


def test_of_two_explanations_one_that_supposes_more_has_to_explain_more() -> None:
    def loss(found: Page, missing: Misfit) -> float:
        return _Tried(found, missing, unlikelihood(missing)).cost

    simple, more = page(0, 0, 900), page(0, 4, 900)
    assert loss(simple, waits_us(0, 4_000, 200_000)) < loss(more, waits_us(0, 0, 200_000))
    assert loss(simple, waits_us(0, 4_000, 0)) > loss(more, waits_us(0, 0, 0))
