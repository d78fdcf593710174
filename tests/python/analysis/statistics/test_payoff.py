"""The percentage of broken paths at which TFO stops paying off."""

import json
import math
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any, cast

import pytest

from command_line import fastopen
from fastopen.analysis.statistics import CellResult, Payoff, Reason, by_cost, collect, payoffs
from fastopen.experiments import networks_asked
from fastopen.report.findings import broken_paths as broken
from fastopen.report.findings.broken_paths import findings as broken_paths
from fastopen.runs import RunStore
from made_up_run import made_up_page, made_up_plan, made_up_run


def of(saved_ms: float, cost_ms: float, rtt_ms: float = 100.0) -> Payoff:
    return Payoff("p", rtt_ms, "warm", "drop-syn-data", saved_ms, cost_ms)


def test_at_the_share_savings_and_costs_are_equal() -> None:
    share = of(100.0, 900.0).break_even_share()
    assert share is not None
    assert share == pytest.approx(0.1)
    assert (1 - share) * 100.0 == pytest.approx(share * 900.0)


def test_visits_share_the_cost_of_a_negative_cache() -> None:
    assert of(100.0, 900.0).break_even_share(visits=9) == pytest.approx(0.5)


def test_what_saves_nothing_never_pays_and_what_costs_nothing_always_does() -> None:
    assert of(-1.0, 900.0).break_even_share() == 0
    assert of(-1.0, -2.0).break_even_share() == 0
    assert of(1.0, -2.0).break_even_share() is None


def test_one_handshake_is_arithmetic() -> None:
    assert [round(of(1, 1, rtt).one_handshake_share, 3) for rtt in (20, 100, 200)] == [0.02, 0.091, 0.167]


def test_each_broken_path_is_held_against_the_open_one_of_its_network(tmp_path: Path) -> None:
    networks = networks_asked(rtt="20ms,100ms", path="none,drop-syn-data")
    folder = made_up_run(
        tmp_path / "run", made_up_plan([made_up_page("p")], networks=[one.model_dump() for one in networks])
    )
    with RunStore.open(folder) as store:
        results = collect(store)
    found = [*payoffs(results)]
    assert {(one.rtt_ms, one.path) for one in found} == {(20, "drop-syn-data"), (100, "drop-syn-data")}
    saved = {(one.cell.network, one.cell.arm.name): one.saved_ms for one in results.cells}
    opened = [number for number, network in enumerate(networks) if network.path == "none"]
    assert {one.saved_ms for one in found} == {
        saved[number, name] for number in opened for name in ("cold", "warm")
    }
    assert "pays" in fastopen("payoff", folder).stdout
    copy = tmp_path / "copy"
    copytree(folder, copy)
    rows = json.loads(fastopen("payoff", folder, copy, "--json").stdout)["payoffs"]
    assert [row["run"] for row in rows] == [str(folder)] * 4 + [str(copy)] * 4
    assert fastopen("payoff", folder, copy).stdout.count(f"{copy}, p: ") == 1


def test_the_mean_saving_is_none_where_it_stops_paying() -> None:
    payoff = of(100.0, 900.0)
    for visits in (1, 10):
        share = payoff.break_even_share(visits)
        assert share is not None
        assert payoff.mean_saving_ms(share, visits) == pytest.approx(0.0)
    assert payoff.mean_saving_ms(0.0) == 100.0


def test_a_path_where_only_loads_without_tfo_finish_is_never_worth_it(tmp_path: Path) -> None:
    networks = [one.model_dump() for one in networks_asked(rtt="20ms", path="none,drop-syn-data")]
    folder = made_up_run(tmp_path / "run", made_up_plan([made_up_page("p")], networks=networks))
    with RunStore.open(folder) as store:
        results = collect(store)

    def stuck(one: CellResult) -> CellResult:
        reasons = (Reason("incomplete", one.loads, "it did not end"),)
        return replace(one, invalid=one.loads, reasons=reasons, plts_ms={}, saved_ms=None)

    def found(*arms: str) -> dict[str, Payoff]:
        broken = [
            stuck(one) if one.cell.network == 1 and one.cell.arm.name in arms else one
            for one in results.cells
        ]
        changed = replace(results, cells=broken)
        assert len(list(broken_paths(changed, "p"))) == (0 if "off" in arms else 1)
        return {one.arm: one for one in payoffs(changed)}

    warm = found("warm")["warm"]
    assert (warm.cost_ms, warm.break_even_share(), warm.as_json(10)["cost_ms"]) == (math.inf, 0.0, None)
    assert warm.mean_saving_ms(0.0) == warm.saved_ms
    assert [paths for paths, _ in by_cost([warm, replace(warm, path="block-ipv6")])] == [
        ["drop-syn-data", "block-ipv6"]
    ]
    assert found("off", "cold", "warm") == {}


def test_where_only_some_networks_never_load_the_others_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sentence(*found: Payoff) -> str:
        monkeypatch.setattr(broken, "payoffs", lambda _: found)
        (only,) = broken_paths(cast("Any", None), "p")
        return only.sentence

    some = sentence(of(100.0, math.inf, 20), of(100.0, 900.0))
    assert "finishes in 1 of 2 rows" in some
    assert "Elsewhere, behind drop-syn-data" in some
    assert "at 100\N{NO-BREAK SPACE}ms, and not at 20\N{NO-BREAK SPACE}ms" in some
    assert "there it never pays." in sentence(of(-5.0, math.inf))
    assert ["average it does not pay." in sentence(of(ms, 900.0)) for ms in (-0.0, 0.3, 0.5)] == [
        True,
        True,
        False,
    ]
    saved = (100.0, 10.0, 10.0, 10.0, 10.0)
    assert "it pays in 1 of 5 rows." in sentence(*(of(one, 900.0) for one in saved))


def test_paths_that_cost_the_same_stand_together() -> None:
    others = [
        Payoff("p", rtt_ms, "warm", path, 100.0, cost_ms)
        for rtt_ms in (20, 100)
        for path, cost_ms in (("drop-option", 900.4), ("strip-both", 5.0))
    ]
    found = by_cost([of(100.0, 900.0, 20), of(100.0, 900.0), *others])
    assert [paths for paths, _ in found] == [["drop-syn-data", "drop-option"], ["strip-both"]]
    assert [one.rtt_ms for one in found[0][1]] == [20, 100]


def test_a_factor_that_makes_no_difference_makes_no_rows_and_one_that_does_is_named(tmp_path: Path) -> None:
    networks = [one.model_dump() for one in networks_asked(rtt="20ms", path="none,drop-syn-data")]
    setups = [{"tcp": {"blackhole_timeout_s": timeout}} for timeout in (0, 3600)]
    plan = made_up_plan([made_up_page("p")], networks=networks, setups=setups)
    with RunStore.open(made_up_run(tmp_path / "run", plan)) as store:
        results = collect(store)
    alike = [replace(one, saved_ms=float(one.cell.network)) for one in results.cells]
    assert {one.otherwise for one in payoffs(replace(results, cells=alike))} == {""}
    differing = [replace(one, saved_ms=float(one.cell.setup)) for one in results.cells]
    assert {one.otherwise for one in payoffs(replace(results, cells=differing))} == {
        "no detection of black holes",
        "a pause of 3600 s after black holes",
    }


@pytest.mark.parametrize(
    "asked", [{}, {"path": "none,drop-syn-data", "path_share": "20%"}, {"path": "none,block-udp"}]
)
def test_a_run_without_the_price_of_a_broken_path_is_refused_with_what_to_do(
    tmp_path: Path, asked: dict[str, str]
) -> None:
    networks = [one.model_dump() for one in networks_asked(rtt="20ms", **asked)]
    folder = made_up_run(tmp_path / "run", made_up_plan([made_up_page("p")], networks=networks))
    done = fastopen("payoff", folder)
    remedy = "fastopen run PAGE --path none,drop-syn-data, without --path-share"
    assert (done.returncode, remedy in " ".join(done.stderr.split())) == (2, True)
