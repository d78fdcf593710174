"""Comparison of a load by the loader with a load by a browser: their requests and load times."""

import json
from typing import Any

import pytest

from fastopen.apps.validate.clients import ClientComparison, _compared, _median
from fastopen.contract import LoadRecord
from fastopen.pages import Page, load_pages
from places import GOLDEN


@pytest.fixture(scope="module")
def page() -> Page:
    return load_pages(["example"])[0].page


def record(asked: list[int], plt_ms: float | None, **more: Any) -> LoadRecord:
    """Return a load in which these resources got responses."""
    golden = json.loads((GOLDEN / "load.json").read_text())
    request = {**golden["requests"][0], "status": 200, "error": None}
    requests = [{**request, "resource": one} for one in asked]
    plt_ns = None if plt_ms is None else round(plt_ms * 1e6)
    plain = {**golden, "unknown_requests": 0, "unmatched": [], "invalid": []}
    return LoadRecord.model_validate_json(
        json.dumps({**plain, "requests": requests, "plt_ns": plt_ns, **more})
    )


def test_the_same_requests_are_the_same_and_the_difference_is_of_the_loaders_time(page: Page) -> None:
    one = _compared(page, "off", (record([0, 1, 2], 1000), 0), (record([2, 1, 0], 1100), 3))
    assert (one.same_requests, one.missing, one.extra, one.unlike) == (True, (), 0, 3)
    assert (one.difference_ms, one.difference_percent) == (100, 10)


def test_what_the_browser_left_out_or_requested_in_addition_is_named(page: Page) -> None:
    chromium = record([0, 1, 3], 900, unknown_requests=2)
    one = _compared(page, "warm", (record([0, 1, 2], 1000), 0), (chromium, 0))
    assert not one.same_requests
    assert (one.missing, one.extra) == ((page.resources[2].url,), 3)


def test_a_request_without_an_answer_was_not_asked_for(page: Page) -> None:
    unanswered = record([0, 1], None)
    request = unanswered.requests[1].model_copy(
        update={"status": None, "error": "not requested within the time limit"}
    )
    unanswered = unanswered.model_copy(update={"requests": [unanswered.requests[0], request]})
    one = _compared(page, "off", (record([0, 1], 1000), 0), (unanswered, 0))
    assert one.missing == (page.resources[1].url,)
    assert one.difference_percent is None


def test_a_load_that_never_came_is_no_agreement(page: Page) -> None:
    one = _compared(page, "off", (record([0], 1000), 0), None)
    assert (one.same_requests, one.invalid, one.as_json()["chromium_ms"]) == (
        False,
        ("chromium: no load",),
        None,
    )


def test_loads_that_do_not_count_are_not_compared_whoever_made_them(page: Page) -> None:
    broken = record([0], 1000, valid=False, invalid=[{"kind": "link_late", "detail": "9 us"}])
    for loader, chromium in ((broken, record([0], 900)), (record([0], 900), broken)):
        one = _compared(page, "off", (loader, 0), (chromium, 0))
        whose = "loader" if loader is broken else "chromium"
        assert (one.same_requests, one.invalid) == (True, (f"{whose}: link_late: 9 us",))
        assert one.difference_ms is None


def test_draws_are_compared_by_their_medians_and_say_whatever_differed_in_any_of_them(page: Page) -> None:
    def draw(loader_ms: float, chromium_ms: float, asked: list[int]) -> ClientComparison:
        loader, chromium = record([0, 1], loader_ms), record(asked, chromium_ms)
        return _compared(page, "off", (loader, 0), (chromium, len(asked)))

    one = _median([draw(1000, 2000, [0, 1]), draw(1010, 990, [0]), draw(990, 1000, [0, 1])])
    assert (one.loader_ms, one.chromium_ms, one.difference_percent) == (1000, 1000, 0)
    assert (one.missing, one.requests, one.unlike) == ((page.resources[1].url,), 2, 2)
    unfinished = _compared(page, "off", (record([0], 1000), 0), None)
    assert _median([draw(1000, 1000, [0, 1]), unfinished]).times_ms == (None, None)
