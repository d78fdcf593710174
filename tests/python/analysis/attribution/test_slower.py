"""Reasons why a load took longer than another: the connection that a request used, or other requests."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fastopen.analysis.attribution import place_and_reason, with_reasons
from fastopen.analysis.statistics import Results, collect
from fastopen.common.phrases import NBSP
from fastopen.contract import LoadRecord
from fastopen.pages import Page
from fastopen.report.findings import Finding, page_findings
from fastopen.runs import RunStore
from made_up_run import MS, fill, load_data, made_up_page, made_up_plan

LAST = 11


def shown(results: Results, kind: str = "slower_with_tfo") -> list[Finding]:
    return [one for one in page_findings(results, "one") if one.kind == kind]


def page_with_large(index: int, body_bytes: int) -> Page:
    """Return the page of `made_up_run` with a response of this size at `index`."""
    page = made_up_page("one")
    resources = list(page.resources)
    resources[index] = resources[index].model_copy(update={"body_bytes": body_bytes})
    return page.model_copy(update={"resources": tuple(resources)})


def slower_cold(
    change: Callable[[dict[str, Any]], None],
    interval: tuple[float, float] = (-31.0, -29.0),
    page: Page | None = None,
    without: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Results:
    """Return the results of a run whose load with cold cookies ends 300 ms later than the others. `change`
    changes this load further, and `without` changes the other loads."""
    plan = made_up_plan([page or made_up_page("one")], rtts_ms=(100,), repeats=1)
    with RunStore.create(None, plan, {}) as store:
        (planned,) = plan.jobs
        for number, load in enumerate(planned.job.loads):
            data = load_data(planned, None, number)
            data.update(id=load.id, transport=load.transport, cookies=load.cookies)
            if load.cookies == "cold":
                data["plt_ns"] += 300 * MS
                data["requests"][LAST]["end_ns"] += 300 * MS
                change(data)
            else:
                without(data)
            raw = json.dumps(data)
            store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
        results = collect(store)
        cells = [
            replace(cell, improvement_percent=-30.0, improvement_ci95=interval, pairs=9)
            if cell.cell.arm.cookies == "cold"
            else cell
            for cell in results.cells
        ]
        results = replace(results, cells=cells)
        return with_reasons(store, results)


def test_a_request_that_got_a_connection_with_a_smaller_window_is_named() -> None:
    def other_connection(data: dict[str, Any]) -> None:
        new = {**data["connections"][0], "id": 99, "host": data["connections"][-1]["host"]}
        new["client"] = {**new["client"], "syn_data_acked": True}
        data["connections"].append(new)
        data["requests"][LAST]["connection"] = 99

    # The initial window has room for all of the smaller response.
    assert not slower_cold(other_connection).reasons
    results = slower_cold(other_connection, page=page_with_large(LAST, 40_000))
    (reason,) = results.reasons.values()
    assert reason.startswith(
        "request\N{NO-BREAK SPACE}11 11.png (40\N{NO-BREAK SPACE}kB), on the critical path"
    )
    assert "takes 300\N{NO-BREAK SPACE}ms longer: it used a fresh connection with a small" in reason
    assert shown(results)[0].figures["certain"] is True


@pytest.mark.parametrize(("sent_earlier_ms", "named"), [(0, True), (300, False)])
def test_a_request_that_is_sent_earlier_and_takes_longer_is_named_only_if_it_ends_later(
    sent_earlier_ms: int, named: bool
) -> None:
    def waited(data: dict[str, Any]) -> None:
        for name in ("sent_ns", "first_byte_ns", "end_ns"):
            data["requests"][LAST][name] += sent_earlier_ms * MS

    results = slower_cold(with_sent_again(0, 2), without=waited)
    (reason,) = results.reasons.values()
    assert ("on the critical path" in reason) is named


def test_a_syn_that_was_sent_again_is_named() -> None:
    def sent_again(data: dict[str, Any]) -> None:
        new = {**data["connections"][0], "id": 99, "host": data["connections"][-1]["host"]}
        new["client"] = {**new["client"], "syn_data_acked": False, "fastopen_client_fail": 3}
        data["connections"].append(new)
        data["requests"][LAST]["connection"] = 99

    results = slower_cold(sent_again)
    (reason,) = results.reasons.values()
    assert reason.endswith(
        "longer: the SYN of its connection had no answer and was retransmitted, without data, after a timeout"
    )


def with_sent_again(client: int, origin: int) -> Callable[[dict[str, Any]], None]:
    """Return a function that changes a load: client and origin retransmit these numbers of segments on the
    connection of the last request, and request 10 ends 100 ms later."""

    def sent_again(data: dict[str, Any]) -> None:
        (own,) = [one for one in data["connections"] if one["id"] == data["requests"][LAST]["connection"]]
        own["client"] = {**own["client"], "retransmits": client}
        own["origin"] = {**own["origin"], "retransmits": origin}
        data["requests"][10]["end_ns"] += 100 * MS

    return sent_again


@pytest.mark.parametrize(
    ("client", "origin", "words"),
    [
        (0, 2, "2 segments of its connection had to be retransmitted (by the origin), against 0"),
        (1, 2, "3 segments of its connection had to be retransmitted (1 by the client, 2 by the origin)"),
    ],
)
def test_a_small_response_that_stopped_for_a_timeout_is_said_to_have_been_sent_again(
    client: int, origin: int, words: str
) -> None:
    results = slower_cold(with_sent_again(client, origin))
    (reason,) = results.reasons.values()
    assert f"longer: {words}" in reason


def test_a_request_that_waited_for_its_first_byte_since_it_was_lost_is_said_to_have_been_sent_again() -> None:
    def lost(data: dict[str, Any]) -> None:
        with_sent_again(1, 0)(data)
        data["requests"][LAST]["first_byte_ns"] += 300 * MS

    results = slower_cold(lost)
    (reason,) = results.reasons.values()
    assert reason.endswith("1 segment of its connection had to be retransmitted (by the client), against 0")


def test_as_many_segments_retransmitted_are_said_to_have_delayed_the_other_load_less() -> None:
    def lost(data: dict[str, Any]) -> None:
        (own,) = [one for one in data["connections"] if one["id"] == data["requests"][LAST]["connection"]]
        own["client"] = {**own["client"], "retransmits": 0}
        own["origin"] = {**own["origin"], "retransmits": 1}

    def lost_and_late(data: dict[str, Any]) -> None:
        lost(data)
        data["requests"][LAST]["first_byte_ns"] += 300 * MS

    results = slower_cold(lost_and_late, without=lost)
    (reason,) = results.reasons.values()
    assert reason.endswith("retransmitted (by the origin), against 1 that delayed it less")


def test_a_large_response_that_shares_the_link_for_longer_is_named() -> None:
    results = slower_cold(lambda _: None, page=page_with_large(10, 100_000))
    (reason,) = results.reasons.values()
    assert (
        "request\N{NO-BREAK SPACE}10 10.png (100\N{NO-BREAK SPACE}kB) shares the link with it for" in reason
    )


def test_a_response_that_takes_the_link_for_a_few_milliseconds_explains_nothing() -> None:
    """A response of 2 kB occupies a link of 4 Mbit/s for only 4 ms, but the load is 300 ms slower."""

    def later(data: dict[str, Any]) -> None:
        data["requests"][10]["end_ns"] += 200 * MS

    results = slower_cold(later)
    assert not results.reasons


def test_where_no_request_says_why_the_load_says_what_was_sent_again_in_it() -> None:
    def lost_elsewhere(data: dict[str, Any]) -> None:
        data["requests"][LAST]["end_ns"] -= 300 * MS
        data["connections"][0]["origin"]["retransmits"] = 7

    results = slower_cold(lost_elsewhere)
    (reason,) = results.reasons.values()
    assert reason.endswith(" of the load had to be retransmitted, compared with 0")


@pytest.mark.parametrize(
    ("resumed", "resumes", "explained"),
    [(False, True, True), (True, True, False), (False, False, False)],
)
def test_a_request_that_finds_no_session_ticket_for_early_data_is_named(
    resumed: bool, resumes: bool, explained: bool
) -> None:
    """`resumed`: True if the slow request's connection resumes a TLS session. `resumes`: True if another
    connection of the load does, which shows that the experiment resumes sessions."""

    def over_tls(data: dict[str, Any], early_bytes: int, resumed: bool) -> None:
        secured = {"secured_ns": 0, "version": "1.3", "cipher": "TLS13_AES_128_GCM_SHA256", "group": "X25519"}
        sizes = {"alpn": None, "hello_bytes": 300, "sent_bytes": 700, "received_bytes": 900}
        own = {**data["connections"][-1], "id": 99}
        own["tls"] = {**secured, **sizes, "resumed": resumed, "early_bytes": early_bytes}
        other = {**own, "id": 98, "tls": {**own["tls"], "resumed": resumes}}
        data["connections"] += [own, other]
        data["requests"][LAST]["connection"] = 99

    def late(data: dict[str, Any]) -> None:
        over_tls(data, 0, resumed)
        data["requests"][LAST]["sent_ns"] += 300 * MS

    results = slower_cold(late, without=lambda data: over_tls(data, 400, True))
    reasons = [*results.reasons.values()]
    assert [f"ends 300{NBSP}ms later" in reason and "ticket" in reason for reason in reasons] == [
        True
    ] * explained


def test_a_median_that_is_slower_without_certainty_is_explained_too() -> None:
    page = page_with_large(10, 100_000)
    results = slower_cold(lambda _: None, (-45.0, 5.0), page)
    (found,) = shown(results)
    assert found.sentence.startswith("With cold cookies the median pair ")
    assert found.figures["certain"] is False


def test_where_nothing_is_slower_nothing_is_read() -> None:
    results = slower_cold(lambda _: None)
    same = [replace(cell, improvement_percent=0.0, improvement_ci95=(0.0, 0.0)) for cell in results.cells]
    with RunStore.create(None, made_up_plan([made_up_page("one")]), {}) as empty:
        assert not with_reasons(empty, replace(results, cells=same)).reasons


@pytest.mark.parametrize(
    ("savings", "explained", "words"),
    [
        ((-3.0, -7.0, -1.0), (0, 1, 2), "at 50 ms (the largest increase of 3 rows)"),
        ((-3.0, -7.0, -1.0), (0, 2), "at 20 ms"),
        ((-3.0, -3.01, -3.0), (0, 1, 2), "at 50 ms (the same increase in 3 rows)"),
        ((None, None, None), (0, 1, 2), "at 20 ms"),
    ],
)
def test_the_row_of_a_reason_is_said_to_be_the_worst_where_it_is(
    savings: tuple[float | None, ...], explained: tuple[int, ...], words: str
) -> None:
    """Rows without TFO have no saving (None). They have a reason if slower than over the next longer RTT."""
    plan = made_up_plan([made_up_page("one")], rtts_ms=(20, 50, 100), arms=["off", "warm"])
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        results = collect(store)
    warm = [cell for cell in results.cells if cell.cell.arm.name == "warm"]
    cells = [replace(cell, improvement_percent=one) for cell, one in zip(warm, savings, strict=True)]
    reasons = {cells[number].cell.index: "why" for number in explained}
    assert place_and_reason(replace(results, reasons=reasons), cells) == f" {words}: why"


def with_session_early(change: Callable[[dict[str, Any]], None]) -> Results:
    """Return the results of a run without TFO and with an uplink of 256 kbit/s, in which the load with early
    data is 300 ms slower than the load without. `change` changes the slower load further."""
    setups = [{"tls": {"session": session}} for session in ("none", "early")]
    plan = made_up_plan([made_up_page("one")], rtts_ms=(100,), repeats=1, setups=setups, arms=["off"])
    with RunStore.create(None, plan, {}) as store:
        for planned in plan.jobs:
            (load,) = planned.job.loads
            data = load_data(planned, None, 0)
            data.update(id=load.id, transport=load.transport, cookies=load.cookies)
            data["link"]["up"]["bytes"] = 6_000
            if planned.job.tls is not None and planned.job.tls.session == "early":
                data["plt_ns"] += 300 * MS
                change(data)
            raw = json.dumps(data)
            store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
        results = collect(store)
        return with_reasons(store, results)


def test_what_a_busy_uplink_has_to_carry_in_addition_is_named() -> None:
    def fuller(data: dict[str, Any]) -> None:
        # The uplink carries 32 bytes per millisecond.
        data["link"]["up"]["bytes"] = data["plt_ns"] // MS * 32 * 9 // 10
        data["connections"][0]["client"]["retransmits"] += 7

    results = with_session_early(fuller)
    (found,) = shown(results, "setup_slower")
    line = found.sentence.replace("\N{NO-BREAK SPACE}", " ")
    assert "than with full handshakes, " in line
    assert "the uplink is busy for 90 % of the load and carries " in line
    assert "TCP segments retransmitted, compared with" in line


def test_an_idle_uplink_explains_nothing() -> None:
    def as_full(data: dict[str, Any]) -> None:
        data["link"]["up"]["bytes"] += 100

    results = with_session_early(as_full)
    assert not any("uplink" in reason for reason in results.setup_reasons.values())
