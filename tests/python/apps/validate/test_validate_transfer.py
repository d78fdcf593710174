"""Comparison of predicted with measured loads. All loads are made up."""

import pytest

from fastopen.analysis.statistics import range_of_samples
from fastopen.apps.validate.page_load_options import PageLoadOptions
from fastopen.apps.validate.transfer import Loads, Prediction, Transfer, summary
from fastopen.contract import Network
from fastopen.workflows.predicted import CellTimes
from made_up_loads import load, page, request


def network(rtt_ms: int) -> Network:
    limit = {"rate_bit_per_s": 4_000_000, "queue_bytes": 256_000}
    return Network.model_validate({"rtt_us": rtt_ms * 1000, "down": limit, "up": limit})


def loads(plts_ms: dict[tuple[str, str], float | None]) -> Loads:
    return {
        (client, 0, arm): [] if ms is None else [load(ms, request(0, 0, 50, 60, 70))]  # type: ignore[misc]
        for (client, arm), ms in plts_ms.items()
    }


MEASURED = loads({("chromium", "off"): 1000.0, ("chromium", "warm"): 900.0})
PREDICTED = loads(
    {
        ("loader", "off"): 1020.0,
        ("loader", "warm"): 867.0,
        ("chromium", "off"): 990.0,
        ("chromium", "warm"): None,
    }
)


def compared() -> list[Prediction]:
    task = Transfer(network(20), [network(50)], PageLoadOptions(), 1)
    return [*task._compared((page(), MEASURED), (page(), PREDICTED))]


def test_each_client_and_arm_is_held_against_the_browsers_load_of_the_original() -> None:
    off, warm, by_chromium, missing = (one.as_json() for one in compared())
    assert (off["measured_ms"], off["predicted_ms"], off["saving_error_points"]) == (1000.0, 1020.0, None)
    assert off["error_percent"] == pytest.approx(2.0)
    assert (off["from_rtt_ms"], off["to_rtt_ms"], off["client"]) == (20.0, 50.0, "loader")
    assert warm["saving_error_points"] == pytest.approx(15.0 - 10.0)
    assert by_chromium["error_percent"] == pytest.approx(-1.0)
    assert (missing["error_percent"], missing["saving_error_points"]) == (None, None)


def test_the_summary_is_without_signs_and_of_what_is_known() -> None:
    figures = summary(compared())
    assert figures["median_error_percent"] == pytest.approx(2.0)
    assert figures["worst_error_percent"] == pytest.approx(100 * 33 / 900)
    assert figures["median_saving_error_points"] == pytest.approx(5.0)
    assert set(summary([]).values()) == {None}


def test_of_several_draws_the_medians_are_compared_and_the_range_is_said() -> None:
    def draws(off: list[float], warm: list[float], client: str) -> Loads:
        arms = {"off": off, "warm": warm}
        return {
            (client, 0, arm): [load(ms, request(0, 0, 50, 60, 70)) for ms in of_arm]  # type: ignore[misc]
            for arm, of_arm in arms.items()
        }

    task = Transfer(network(20), [network(50)], PageLoadOptions(), 3)
    measured = draws([1000, 1010, 990], [900, 910, 890], "chromium")
    predicted = draws([1020, 1500, 995], [930, 950, 905], "loader")
    off, warm = task._compared((page(), measured), (page(), predicted))
    assert (off.measured_ms, off.predicted_ms, off.predicted_range_ms, off.holds) == (
        1000,
        1020,
        (995, 1500),
        True,
    )
    assert (warm.predicted_range_ms, warm.holds) == ((905, 950), False)
    assert off.as_json()["predicted_range_ms"] == [995, 1500]
    assert summary([off, warm])["in_range_percent"] == pytest.approx(50)


def test_draws_span_what_nine_of_ten_do_and_few_span_all() -> None:
    assert range_of_samples([1.0, 2.0], 0.9) is None
    assert range_of_samples([3.0, 1.0, 2.0], 0.9) == (1.0, 3.0)
    assert range_of_samples([float(n) for n in range(101)], 0.9) == pytest.approx((5.0, 95.0))


def test_a_saving_needs_both_times() -> None:
    assert CellTimes(1000.0, 900.0).saving_percent == pytest.approx(10.0)
    assert CellTimes(None, 900.0).saving_percent is None
    assert CellTimes(1000.0, None).saving_percent is None
