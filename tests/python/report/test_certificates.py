"""The time that certificates cost, sizes that fit into a SYN, and sizes with equal numbers of round trips."""

from dataclasses import replace
from typing import Any

import pytest

from fastopen.analysis.statistics import CellResult, FirstFlight, Results, collect
from fastopen.experiments import DesignPoint, make_plan
from fastopen.report import results_document
from fastopen.report.findings import page_findings
from fastopen.report.result_tables import level_grid, syn_grid
from fastopen.runs import RunStore
from made_up_run import fill, made_up_page, made_up_plan

PATHS = ("none", "stall-second-segment")
SESSIONS_OF_KINDS: list[dict[str, Any]] = [
    {"certificates": kind, "session": session, "key_share": "x25519"}
    for kind in ("ecdsa", "ml-dsa-44")
    for session in ("none", "resumed")
]


def results(tls: list[dict[str, Any]], tcp: list[dict[str, Any]] | None = None) -> Results:
    setups = [{"tls": one, **({"tcp": tcp[number]} if tcp else {})} for number, one in enumerate(tls)]
    plan = made_up_plan([made_up_page("small", 6)], (100,), repeats=1, engines=["virtual"], setups=setups)
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        return collect(store)


def with_times(found: Results, ms: Any) -> Results:
    def timed(cell: CellResult) -> CellResult:
        return replace(cell, plt_ms_median=ms(found.factors.point(cell.cell)))

    return replace(found, cells=[timed(one) for one in found.cells])


def ms_of(point: DesignPoint) -> float:
    """Return 300 ms, plus 100 for large certificates without resumption, minus 40 with warm cookies."""
    tls, arm = point.setup.tls, point.arm
    assert tls is not None
    assert arm is not None
    large = tls.certificates == "ml-dsa-44" and tls.session == "none"
    return 300 + 100 * large - 40 * (arm.name == "warm")


def test_one_sentence_says_what_certificates_cost_and_what_saves_it_again() -> None:
    found = with_times(results(SESSIONS_OF_KINDS), ms_of)
    (one,) = [one for one in page_findings(found, "small") if one.kind == "certificates_cost"]
    assert one.sentence.replace("\xa0", " ") == (
        "ml-dsa-44 certificates (15,757 bytes) add 100.0 ms (33.3 %) to page load time compared with ecdsa"
        " (1,518 bytes); time is saved by resumed sessions (100.0 ms) and TFO with warm cookies"
        " (40.0 ms)."
    )
    assert one.figures == {"added_ms_min": 100, "added_ms_max": 100}


@pytest.mark.parametrize(
    ("added_ms", "shown"),
    [
        (0.0, "; no time is saved by resumed sessions."),
        (1.4, "; no time is saved by resumed sessions."),
        (12.5, "; time is added by resumed sessions (12.5 ms)."),
    ],
)
def test_a_remedy_that_adds_time_is_not_said_to_save_nothing(added_ms: float, shown: str) -> None:
    def ms(point: DesignPoint) -> float:
        assert point.setup.tls is not None
        return ms_of(point) + (100 + added_ms) * (point.setup.tls.session == "resumed")

    found = with_times(results(SESSIONS_OF_KINDS), ms)
    (one,) = [one for one in page_findings(found, "small") if one.kind == "certificates_cost"]
    assert one.sentence.replace("\xa0", " ").endswith(f"TFO with warm cookies (40.0 ms){shown}")


@pytest.mark.parametrize(
    ("unfinished", "figures", "shown"),
    [
        (
            [],
            {"broken_ms_min": 1020.0, "broken_ms_max": 1100.0},
            (
                "adds 1020.0 to 1100.0 ms to page load time compared with x25519, and 5.0 ms over an open"
                " path. Each percent of such paths costs 10.2 to 10.9 ms on average, and a share of 0.5 %"
                " doubles the cost."
            ),
        ),
        ([20], {"broken_ms_min": 1100.0, "broken_ms_max": 1100.0}, "finishes on 1 of 2 networks."),
        ([20, 100], {}, "finishes."),
    ],
)
def test_a_large_key_share_has_a_price_behind_a_path_that_breaks_its_hello(
    unfinished: list[int], figures: dict[str, float], shown: str
) -> None:
    found = results([{"key_share": share} for share in ("x25519", "x25519mlkem768")])
    changes = [{"path": path, "rtt_us": 1000 * rtt} for path in PATHS for rtt in (20, 100)]
    networks = [one.model_copy(update=change) for one in found.experiment.networks for change in changes]
    plan = make_plan(found.experiment.model_copy(update={"networks": networks}), [*found.pages.values()])
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        loaded = collect(store)

    def timed(cell: CellResult) -> CellResult:
        point = loaded.factors.point(cell.cell)
        assert point.setup.tls is not None
        large, rtt = point.setup.tls.key_share == "x25519mlkem768", point.network.rtt_us // 1000
        is_open = point.network.path == "none"
        if large and not is_open and rtt in unfinished:
            return replace(cell, plt_ms_median=None, improvement_percent=None, invalid=cell.loads)
        return replace(cell, plt_ms_median=300 + large * (5 if is_open else 1000 + rtt))

    of_page = page_findings(replace(loaded, cells=[timed(one) for one in loaded.cells]), "small")
    (one,) = [one for one in of_page if one.kind == "large_hello_price"]
    assert one.figures == figures
    assert one.sentence.replace("\xa0", " ").endswith(f"x25519mlkem768 {shown}")


def test_loads_with_a_share_of_broken_hosts_have_no_price() -> None:
    found = results([{"key_share": share} for share in ("x25519", "x25519mlkem768")])
    changes: list[dict[str, Any]] = [{"path": path, "path_share": 0.5} for path in PATHS]
    networks = [one.model_copy(update=change) for one in found.experiment.networks for change in changes]
    plan = make_plan(found.experiment.model_copy(update={"networks": networks}), [*found.pages.values()])
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        loaded = with_times(
            collect(store), lambda at: 300.0 + len(at.setup.tls.key_share) * len(at.network.path)
        )
    of_page = page_findings(loaded, "small")
    assert "large_hello_price" not in [one.kind for one in of_page]


def test_each_key_share_has_its_sentence_and_one_kind_of_certificates_none() -> None:
    shares = [
        {"certificates": kind, "key_share": share}
        for kind in ("ecdsa", "ml-dsa-44")
        for share in ("x25519", "x25519mlkem768")
    ]
    found = with_times(results(shares), ms_of)
    assert [one.kind for one in page_findings(found, "small")].count("certificates_cost") == 2
    found = with_times(results(shares[:2]), ms_of)
    assert [one.kind for one in page_findings(found, "small")].count("certificates_cost") == 0


def flight(client_bytes: int, rtts: float) -> FirstFlight:
    return FirstFlight(client_bytes, 1, 1, 0, 0, rtts, client_bytes=client_bytes)


def test_what_remains_of_a_first_flight_beyond_a_syn_is_a_table_and_in_json() -> None:
    found = results([{"key_share": "x25519"}, {"key_share": "x25519mlkem768"}])
    sizes = {"x25519": 250, "x25519mlkem768": 1475}
    flights = {}
    for cell in found.cells:
        tls = found.factors.point(cell.cell).setup.tls
        assert tls is not None
        flights[cell.cell.index] = flight(sizes[tls.key_share], 3.0)
    found = replace(found, first_flights=flights)
    grid = syn_grid(found, "small")
    assert grid is not None
    assert [[entry.value for entry in row[1:]] for row in grid.rows] == [[250, 1420, 0], [1475, 1420, 55]]
    cells = results_document(found)["cells"]
    keys = ("first_flight_bytes", "syn_data_max_bytes", "first_flight_beyond_syn_bytes")
    assert {tuple(cell[key] for key in keys) for cell in cells} == {(250, 1420, 0), (1475, 1420, 55)}
    assert not syn_grid(results([{"key_share": "x25519"}]), "small").rows
    versions = [one.model_copy(update={"ip": ip}) for one in found.experiment.networks for ip in ("4", "6")]
    plan = make_plan(found.experiment.model_copy(update={"networks": versions}), [*found.pages.values()])
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        both = collect(store)
    both = replace(both, first_flights={cell.cell.index: flight(250, 3.0) for cell in both.cells})
    grid = syn_grid(both, "small")
    assert grid is not None
    shown = [["4", "250", "1,420"], ["6", "250", "1,400"]]
    assert [[entry.text for entry in row[:3]] for row in grid.rows] == shown


@pytest.mark.parametrize(("size", "shown"), [(2001, "2.000 (2,000)"), (2100, "2.000 (2,000 to 2,099)")])
def test_sizes_with_as_many_round_trips_are_one_level(size: int, shown: str) -> None:
    sizes = [1000, 1500, 2000, size, *range(3000, 7000, 1000)]
    found = results([{"chain_bytes": one} for one in sizes])
    networks = [
        one.model_copy(
            update={way: one.down.model_copy(update={"rate_bit_per_s": None}) for way in ("down", "up")}
        )
        for one in found.experiment.networks
    ]
    free = replace(found, experiment=found.experiment.model_copy(update={"networks": networks}))
    flights = {}
    for cell in found.cells:
        tls = found.factors.point(cell.cell).setup.tls
        assert tls is not None
        flights[cell.cell.index] = flight(250, 2.0 if tls.chain_bytes <= 2000 else 3.0)
    grid = level_grid(replace(free, first_flights=flights), "small")
    assert grid is not None
    (row,) = grid.rows
    assert row[-1].text.replace("\xa0", " ") == f"{shown}, 3.000"
    # If the link has a rate, times grow with each byte, so there are no levels.
    assert not level_grid(replace(found, first_flights=flights), "small").rows
