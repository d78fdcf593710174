"""Settings that `--quick` leaves out to fit a run into a minute, and settings that it always keeps."""

import os

import pytest

from fastopen.contract import Client, Tcp
from fastopen.experiments import DRAWS, Experiment, Setup, Variation, default_draws
from fastopen.experiments.variation import DRAWS_AT_LEAST, LOADS_OF_DRAWS
from fastopen.pages import ImportedPage
from fastopen.workflows import quick
from fastopen.workflows.quick import REDUCIBLE, quickened
from made_up_run import made_up_page, made_up_plan

CHROMIUM = Client(kind="chromium", connections_per_host=6, connections_total=256, keep_alive=True)
PAGE = ImportedPage(made_up_page("one"))


def asked(**changes: object) -> Experiment:
    return made_up_plan([PAGE.page], rtts_ms=(20, 100, 200)).experiment.model_copy(update=changes)


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))


def test_what_fits_into_a_minute_is_left_as_it_is() -> None:
    experiment = asked()
    assert quickened(experiment, [PAGE], (), None, 2) == (experiment, [])


def test_a_browser_gets_one_rtt_and_warm_cookies_so_that_enough_repeats_fit() -> None:
    experiment = asked(setups=[Setup(client=CHROMIUM)])
    shorter, left_out = quickened(experiment, [PAGE], (), None, 1)
    assert [network.rtt_us for network in shorter.networks] == [100_000]
    assert shorter.arms == ["off", "warm"]
    assert left_out == ["without cold cookies (--transports)", "only RTT 100 ms (--rtt)"]


def test_a_busy_machine_has_time_for_less_in_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "auto_engine", lambda _: "virtual")
    experiment = asked(repeats=200, vary=Variation())
    pages = [ImportedPage(made_up_page("one", requests=100)) for _ in range(3)]
    idle = quickened(experiment, pages, (), None, 2)
    monkeypatch.setattr("os.getloadavg", lambda: (100.0, 100.0, 100.0))
    assert len(quickened(experiment, pages, (), None, 2)[1]) > len(idle[1])


def test_a_report_of_a_large_sweep_has_fewer_draws_but_enough_for_a_range() -> None:
    experiment = asked()
    setups = [Setup(tcp=Tcp(initial_window_segments=window)) for window in range(1, 13)]
    assert default_draws(experiment, 1, "virtual") == DRAWS
    assert default_draws(experiment, 6, "virtual") == LOADS_OF_DRAWS // (6 * 3 * len(experiment.arms))
    assert default_draws(experiment.model_copy(update={"setups": setups}), 6, "virtual") == DRAWS_AT_LEAST


def test_what_somebody_asked_for_stays() -> None:
    experiment = asked(setups=[Setup(client=CHROMIUM)])
    assert quickened(experiment, [PAGE], REDUCIBLE, None, 1) == (experiment, [])


def test_a_browser_is_loaded_by_the_engine_that_gives_the_first_pair_sooner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quick, "auto_engine", lambda _: "virtual")
    large = ImportedPage(made_up_page("large", requests=250))
    shorter, left_out = quickened(asked(setups=[Setup(client=CHROMIUM)]), [large], (), None, 2)
    assert shorter.engines == ["host"]
    assert left_out[-1].startswith("on the engine host")


@pytest.mark.parametrize(("requests", "in_real_time"), [(10, False), (250, True)])
def test_on_a_busy_machine_real_time_is_for_what_virtual_time_cannot_load_once(
    monkeypatch: pytest.MonkeyPatch, requests: int, in_real_time: bool
) -> None:
    monkeypatch.setattr(quick, "auto_engine", lambda _: "virtual")
    cores = len(os.sched_getaffinity(0))
    monkeypatch.setattr("os.getloadavg", lambda: (2.0 * cores, 0.0, 0.0))
    page = ImportedPage(made_up_page("one", requests=requests))
    shorter, left_out = quickened(asked(setups=[Setup(client=CHROMIUM)]), [page], (), None, cores)
    assert (shorter.engines == ["host"]) == in_real_time
    assert ("late loads are invalid" in "".join(left_out)) == in_real_time
