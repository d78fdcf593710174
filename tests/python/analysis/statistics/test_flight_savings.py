"""Savings of each first flight compared with a full handshake without TFO, and their upper bounds."""

import json
from typing import Any

import pytest
from rich.text import Text

import made_up_run
from fastopen.analysis.statistics import BEYOND_BOUND, Results, collect
from fastopen.experiments import PlannedJob
from fastopen.report import results_document
from fastopen.report.findings.first_flight import findings
from fastopen.report.printed import results_renderables
from fastopen.report.result_tables import flight_grid
from fastopen.runs import RunStore
from made_up_run import MS, fill, made_up_page, made_up_plan
from places import GOLDEN

RTT_MS = 100
# Duration of the TLS handshake by session. Certificates take 3 ms on the link; early data does not wait.
TLS_MS = {"none": 103, "resumed": 100, "early": 0}


def load_data(planned: PlannedJob, cookies: str | None, _: int) -> dict[str, Any]:
    """Return a load of a document and then a picture from another host, each on its own connection."""
    golden: dict[str, Any] = json.loads((GOLDEN / "load.json").read_text())
    quic = planned.job.origins.http == "3"
    tcp_ns = 0 if quic or cookies == "warm" else RTT_MS * MS
    tls_ns = TLS_MS[planned.job.tls.session] * MS
    tls = {
        "version": "1.3",
        "cipher": "TLS13_AES_128_GCM_SHA256",
        "group": None,
        "alpn": None,
        "resumed": planned.job.tls.session != "none",
        "hello_bytes": 314,
        "sent_bytes": 400,
        "received_bytes": 400,
    }
    requests, connections, now = [], [], 0
    for index, resource in enumerate(planned.job.page.resources):
        connected = now + tcp_ns
        secured = connected + tls_ns
        connections.append(
            {
                **golden["connections"][0],
                "id": index,
                "host": resource.host,
                "opened_ns": now,
                "connected_ns": connected,
                "handshake_us": tcp_ns // 1000 or None,
                "tls": {**tls, "secured_ns": secured},
                "origin_samples": [],
            }
        )
        requests.append(
            {
                **golden["requests"][0],
                "resource": index,
                "connection": index,
                "body_bytes": resource.body_bytes,
                "queued_ns": now,
                "connect_start_ns": now,
                "connected_ns": secured,
                "sent_ns": secured,
                "first_byte_ns": secured + RTT_MS * MS,
                "end_ns": secured + RTT_MS * MS,
            }
        )
        now = secured + RTT_MS * MS
    golden.update(
        job=planned.job.id, valid=True, invalid=[], plt_ns=now, requests=requests, connections=connections
    )
    return golden


def results(monkeypatch: pytest.MonkeyPatch, *flights: tuple[str, str], **tls: Any) -> Results:
    """Return results with a setup for each pair (version of HTTP, TLS session) in `flights`."""
    monkeypatch.setattr(made_up_run, "load_data", load_data)
    setups = [{"origins": {"http": http}, "tls": {"session": session, **tls}} for http, session in flights]
    page = made_up_page("small", 2, ("a.test", "b.test"))
    plan = made_up_plan([page], (RTT_MS,), repeats=1, engines=["virtual"], setups=setups)
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        return collect(store)


ALL = [(http, session) for http in ("2", "3") for session in TLS_MS]


def of_cells(found: Results) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Map (version of HTTP, TLS session, arm) to the saving and its upper bound, both in ms."""
    setups = found.experiment.setups
    said: dict[tuple[str, str, str], tuple[float, float]] = {}
    for one in found.cells:
        saving, tls = found.flight_savings.get(one.cell.index), setups[one.cell.setup].tls
        if saving is not None and tls is not None:
            key = (setups[one.cell.setup].origins.http, tls.session, one.cell.arm.name)
            said[key] = (round(saving.percent * saving.bound.plt_ms / 100, 6), saving.bound.ms)
    return said


def test_each_arm_has_the_bound_of_the_handshakes_that_it_does_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert of_cells(results(monkeypatch, *ALL)) == {
        ("2", "none", "cold"): (0, 200),
        ("2", "none", "warm"): (200, 200),
        ("2", "resumed", "off"): (6, 6),
        ("2", "resumed", "cold"): (6, 206),
        ("2", "resumed", "warm"): (206, 206),
        ("2", "early", "off"): (206, 206),
        ("2", "early", "cold"): (206, 406),
        ("2", "early", "warm"): (406, 406),
        ("3", "none", "off"): (200, 200),
        ("3", "resumed", "off"): (206, 206),
        ("3", "early", "off"): (406, 406),
    }


def test_the_bound_of_tfo_alone_is_that_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    found = results(monkeypatch, *ALL)
    warm = next(one for one in found.cells if one.cell.setup == 0 and one.cell.arm.name == "warm")
    assert found.flight_savings[warm.cell.index].bound == warm.bound


def test_rejected_early_data_can_save_what_a_resumed_session_can(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected = results(monkeypatch, ("2", "resumed"), ("2", "early"), early_data_rejected=True)
    # The made-up loader saves time in spite of the rejection, which exceeds the bound.
    (saving,) = (
        rejected.flight_savings[one.cell.index]
        for one in rejected.cells
        if one.cell.setup == 1 and one.cell.arm.name == "off"
    )
    assert (saving.bound.ms, saving.beats_bound) == (0, True)
    grid = flight_grid(rejected, "small")
    assert grid is not None
    assert BEYOND_BOUND in grid.note
    assert [entry.text for entry in grid.rows[1] if entry.mark] == ["+33.3", "+66.7"]


def test_quic_without_http2_beside_it_is_held_against_its_own_full_handshakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert of_cells(results(monkeypatch, *ALL[3:])) == {
        ("3", "resumed", "off"): (6, 6),
        ("3", "early", "off"): (206, 206),
    }


def test_one_first_flight_alone_is_held_against_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = results(monkeypatch, ("2", "early"))
    assert found.flight_savings == {}
    assert not flight_grid(found, "small").rows


def test_the_bound_of_an_arm_is_the_same_number_in_table_text_and_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = results(monkeypatch, *ALL)
    cell = next(
        one
        for one in results_document(found)["cells"]
        if (one["http"], one["session"], one["arm"]) == ("2", "early", "warm")
    )
    assert cell["first_flight_bound_ms"] == 406
    assert (
        cell["first_flight_bound_percent"]
        == cell["first_flight_saves_percent"]
        == pytest.approx(100 * 406 / 606)
    )
    assert cell["first_flight_beats_bound"] is False
    assert cell["first_flight_over"] == "HTTP/2, full handshakes, off"
    grid = flight_grid(found, "small")
    assert grid is not None
    assert [entry.text for entry in grid.rows[2][-2:]] == ["+67.0", "67.0"]
    text = " ".join(one.sentence for one in findings(found, "small")).replace("\xa0", " ")
    assert "; 67.0 % faster than full handshakes without TFO" in text
    printed = "\n".join(one.plain for one in results_renderables(found, 80) if isinstance(one, Text))
    assert "Saving of each connection setup of small" in printed
