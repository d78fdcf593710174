"""First flights: the best and its saving, the saving that TFO adds to each, round trips to the first byte."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from command_line import fastopen
from fastopen.analysis.attribution import analyse_run
from fastopen.analysis.statistics import CellResult, FirstFlight, Results, collect
from fastopen.common.errors import InputError
from fastopen.common.grid import Value
from fastopen.experiments import COMMAND_LINE, Experiment, load_experiment, read_settings
from fastopen.report import results_document
from fastopen.report.findings import page_findings
from fastopen.report.findings.first_flight import findings
from fastopen.report.method import method_paragraphs
from fastopen.report.result_tables import result_grid
from fastopen.report.summary import summarise_run
from fastopen.runs import RunStore
from made_up_run import fill, made_up_page, made_up_plan

# Page load times in milliseconds by session and arm.
PLT_MS = {
    "none": {"off": 300.0, "cold": 300.0, "warm": 200.0},
    "resumed": {"off": 290.0, "cold": 290.0, "warm": 190.0},
    "early": {"off": 200.0, "cold": 200.0, "warm": 100.0},
}
# Loads in which 16 of 28 connections have no ticket for early data.
TOO_FEW_TICKETS = FirstFlight(
    client_hello_bytes=340,
    secured_connections=28,
    most_to_a_host=6,
    resumed_connections=14,
    early_connections=12,
    first_byte_rtts=2.0,
)


def results(sessions: list[str], repeats: int = 1, engine: str = "virtual", **setup: Any) -> Results:
    setups = [{"tls": {"session": session, "key_share": "x25519"}, **setup} for session in sessions]
    plan = made_up_plan([made_up_page("small", 6)], (100,), repeats=repeats, engines=[engine], setups=setups)
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        found = collect(store)

    def timed(result: CellResult) -> CellResult:
        session = sessions[result.cell.setup]
        return replace(result, plt_ms_median=PLT_MS[session][result.cell.arm.name])

    return replace(found, cells=[timed(one) for one in found.cells], flight_savings={})


def said(found: Results) -> str:
    return " ".join(one.sentence for one in findings(found, "small")).replace("\xa0", " ")


def test_the_order_in_which_loads_end_does_not_change_first_flights() -> None:
    plan = made_up_plan([made_up_page("small", 6)], (100,), repeats=3)
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        loads = store.loads()
        first, last = (collect(store, some).first_flights for some in (loads[:3], loads[6:]))
        assert first != last
        assert collect(store, loads).first_flights == collect(store, loads[::-1]).first_flights == first


def test_the_best_first_flight_is_named_with_what_it_saves_of_the_plainest() -> None:
    text = said(results(["none", "resumed", "early"]))
    assert text.startswith(
        "Fastest: early data with TFO and warm cookies; 66.7 % faster than full handshakes without TFO."
    )


def test_a_plain_first_flight_that_is_best_saves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLT_MS, "none", dict.fromkeys(PLT_MS["none"], 90.0))
    assert said(results(["none", "early"])).startswith("Fastest: full handshakes without TFO.")


def test_medians_that_chance_moves_are_called_that() -> None:
    assert "(medians of loads that are not paired)" in said(results(["none", "early"], 6, "host"))


def test_an_experiment_with_one_session_has_no_best() -> None:
    found = results(["early"])
    assert said(found) == ""
    assert not any("1st byte" in column.heading for column in result_grid(found, "small").columns)


def test_rows_of_several_sessions_say_the_round_trips_to_the_first_byte() -> None:
    found = results(["none", "early"])
    grid = result_grid(found, "small")
    headings = [column.heading.replace("\xa0", " ") for column in grid.columns]
    at = [headings.index(f"1st byte {arm} RTTs") for arm in ("off", "cold", "warm")]
    shown = [str(row[column]) for row in grid.rows for column in at]
    # In made-up loads, a handshake takes one RTT unless there is a cookie, and a response takes one.
    assert [float(rtts) for rtts in shown] == pytest.approx([2, 2, 1] * 2, abs=0.02)
    printed = [cell["first_byte_rtts"] for cell in results_document(found)["cells"]]
    assert [f"{rtts:.3f}" for rtts in printed] == shown


def test_connections_that_tickets_do_not_suffice_for_are_counted() -> None:
    found = results(["none", "early"])

    def without_ticket(early: FirstFlight) -> list[Mapping[str, Value]]:
        flights = dict.fromkeys((one.cell.index for one in found.cells), early)
        shown = page_findings(replace(found, first_flights=flights), "small")
        return [one.figures for one in shown if one.kind == "tickets_run_out"]

    assert without_ticket(TOO_FEW_TICKETS) == [
        {"connections_without": 16, "tickets": 2, "most_to_a_host": 6, "kept_by": "origin"}
    ]
    assert without_ticket(replace(TOO_FEW_TICKETS, early_connections=28)) == []
    assert without_ticket(replace(TOO_FEW_TICKETS, most_to_a_host=2)) == []


def test_tickets_that_a_client_does_not_keep_are_not_the_origins_to_send() -> None:
    chromium = {"kind": "chromium"}
    found = results(["early"], client=chromium, tls={"session": "early", "tickets": 6})
    shown = page_findings(replace(found, first_flights={0: TOO_FEW_TICKETS}), "small")
    (ran_out,) = (one for one in shown if one.kind == "tickets_run_out")
    assert ran_out.figures == {
        "connections_without": 16,
        "tickets": 2,
        "most_to_a_host": 6,
        "kept_by": "client",
    }


def method(client: str) -> str:
    setup = {"client": {"kind": client}, "tls": {"session": "early"}, "origins": {"http": "3"}}
    plan = made_up_plan([made_up_page("small", 6)], (100,), repeats=1, engines=["virtual"], setups=[setup])
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        return " ".join(method_paragraphs(analyse_run(store)))


def test_the_method_says_whose_word_it_is_that_sessions_began_so() -> None:
    ours, browsers = method("loader"), method("chromium")
    assert "one connection to each host over a link without delay" in ours
    assert "both ends" in ours
    assert "the page, loaded by chromium over a link without delay" in browsers
    assert "chromium keeps 2 tickets of a host" in browsers
    assert "both ends" not in browsers
    assert "chromium used its own stack, settings and timers" in browsers
    assert "at the origins' sockets and the client's interface" in browsers
    assert "at both sockets" in ours
    assert "ClientHello in one write" in ours


def test_a_request_that_does_not_fit_into_a_syn_says_why_early_data_saved_nothing() -> None:
    found = results(["none", "early"])
    flight = FirstFlight(
        client_hello_bytes=314,
        secured_connections=7,
        most_to_a_host=6,
        resumed_connections=3,
        early_connections=2,
        first_byte_rtts=2.0,
        early_beyond_syn_bytes=(12_342,),
    )
    warm = {one.cell.index for one in found.cells if one.cell.arm.name == "warm" and one.cell.setup == 1}
    shown = page_findings(replace(found, first_flights=dict.fromkeys(warm, flight)), "small")
    figures = {one.kind: one.figures for one in shown}
    assert figures["early_data_beyond_syn"] == {
        "connections": 1,
        "first_flight_bytes_min": 12342,
        "syn_data_max_bytes": 1420,
    }
    # Data beyond the SYN is not caused by missing tickets, so that connection does not count here.
    assert figures["tickets_run_out"]["connections_without"] == 4


def asked(**written: Any) -> Experiment:
    return read_settings(written, COMMAND_LINE).experiment(name="my", pages=["p"], seed=1)


def flights(experiment: Experiment) -> list[tuple[str, str | None]]:
    sessions = [None if setup.tls is None else setup.tls.session for setup in experiment.setups]
    return [(setup.origins.http, one) for setup, one in zip(experiment.setups, sessions, strict=True)]


def test_all_arms_are_those_of_each_session_and_version_of_http() -> None:
    everything = asked(transport="all")
    assert everything.arms == ["off", "cold", "warm"]
    sessions = ("none", "resumed", "early")
    assert flights(everything) == [(http, session) for http in ("1.1", "2", "3") for session in sessions]
    some = asked(transport="all", session="early,none", http="3")
    assert flights(some) == [("3", "early"), ("3", "none")]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"client": "curl"}, [("1.1", "none"), ("2", "none")]),
        ({"client": "command", "command": "get {url}"}, [("1.1", "none"), ("2", "none")]),
        ({"client": "command", "command": "get {url}", "http": "3"}, [("3", "none")]),
        ({"client": "loader,wget2"}, [("1.1", "none")]),
        ({"client": "chromium"}, [(http, session) for http in ("1.1", "2", "3") for session in PLT_MS]),
        (
            {"client": "chromium", "tls": "1.2"},
            [(http, session) for http in ("1.1", "2") for session in ("none", "resumed")],
        ),
        ({"tls": "1.2"}, [(http, session) for http in ("1.1", "2") for session in ("none", "resumed")]),
        ({"tickets": "0", "congestion_control": "bbr"}, [("1.1", "none"), ("2", "none")]),
        ({"tickets": "0", "origins_keep_alive": "off"}, [("1.1", "none")]),
    ],
)
def test_all_arms_are_those_that_clients_and_settings_allow(
    written: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    experiment = asked(transport="all", **written)
    assert list(dict.fromkeys(flights(experiment))) == expected
    assert experiment.arms == ["off", "cold", "warm"]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"session": "early", "tls": "1.2"}, "early data needs TLS 1.3"),
        ({"session": "resumed", "tickets": "0"}, "--session resumed needs session tickets"),
        ({"session": "early", "client": "curl"}, "curl a session of an earlier visit"),
        (
            {"session": "resumed", "client": "wget2"},
            "use --client loader, chromium or command, or --session none",
        ),
        ({"transport": "all", "session": "early", "client": "curl"}, "use --client loader"),
        (
            {"transport": "all", "http": "3", "client": "wget2"},
            "runs wget2 with HTTP/1.1, not with HTTP/3",
        ),
    ],
)
def test_what_cannot_begin_with_a_session_is_refused_in_words(written: dict[str, str], words: str) -> None:
    with pytest.raises(InputError) as error:
        asked(**written)
    assert words in f"{error.value.message} {error.value.remedy}"


def test_the_packaged_experiment_has_each_session_with_and_without_tfo() -> None:
    experiment = load_experiment("first-flight")
    assert experiment.arms == ["off", "cold", "warm"]
    begins = {(setup.origins.http, setup.tls and setup.tls.session) for setup in experiment.setups}
    assert begins == {(http, session) for http in ("1.1", "2", "3") for session in PLT_MS}


def test_arms_are_asked_for_by_their_name_too() -> None:
    refused = fastopen("run", "example", "--arms", "best")
    assert "unknown value 'best'; use off, cold, warm" in refused.stderr


def test_a_run_without_tfo_says_so_in_place_of_a_verdict() -> None:
    plan = made_up_plan([made_up_page("small", 6)], (100,), repeats=1, arms=["off"])
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        assert summarise_run(collect(store)).headline == "No load used TFO."


def test_the_best_version_of_http_is_named_with_its_first_flight() -> None:
    setups = [
        {"origins": {"http": http}, "tls": {"session": session}}
        for http in ("2", "3")
        for session in ("none", "early")
    ]
    plan = made_up_plan([made_up_page("small", 6)], (100,), repeats=1, engines=["virtual"], setups=setups)
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        found = collect(store)
    plts_ms = [300.0, 200.0, 250.0, 90.0]
    cells = [replace(one, plt_ms_median=plts_ms[one.cell.setup]) for one in found.cells]
    assert said(replace(found, cells=cells, flight_savings={})).endswith(
        "Fastest over all versions of HTTP: HTTP/3 with early data; 70.0 % faster than HTTP/2 with full"
        " handshakes without TFO."
    )
    assert {one.bound is None for one in found.cells if one.cell.setup >= 2} == {True}
    assert {one.bound is None for one in found.cells if one.cell.setup < 2} == {False}
