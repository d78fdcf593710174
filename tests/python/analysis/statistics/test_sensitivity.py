"""The uncertain input that changes a result most."""

from dataclasses import replace

from fastopen.analysis.statistics import CellResult, Results, collect, sensitivity
from fastopen.experiments import UNKNOWNS, draw_of
from fastopen.runs import RunStore
from made_up_run import fill, made_up_page, made_up_plan


def varied_run(repeats: int = 30) -> Results:
    plan = made_up_plan([made_up_page("small", 6)], (20,), repeats=repeats, engines=["virtual"], vary={})
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        return collect(store)


def saving(results: Results, of: dict[str, float]) -> CellResult:
    """Return a cell whose saving is a weighted sum of the drawn values. `of` maps their names to weights."""
    cell = results.cells[-1]
    draws = {repeat: draw_of(results.experiment, cell.cell.comparison, repeat) for repeat in cell.plts_ms}
    saved = {
        repeat: sum(weight * getattr(draw, name) for name, weight in of.items())
        for repeat, draw in draws.items()
    }
    return replace(cell, improvements_percent=saved)


def test_an_unknown_that_alone_moves_the_saving_is_named() -> None:
    results = varied_run()
    found = sensitivity(results.experiment, saving(results, {"rtt": 10.0, "down": 0.5}))
    assert found is not None
    assert found.most == "rtt"
    assert found.correlations["rtt"] > 0.95
    assert found.rest < 0.1
    slower = sensitivity(results.experiment, saving(results, {"think": -1.0}))
    assert slower is not None
    assert (slower.most, round(slower.correlations["think"], 6)) == ("think", -1.0)


def test_no_unknown_is_named_where_none_explains_more_than_the_rest() -> None:
    results = varied_run()
    cell = results.cells[-1]
    by_chance = {repeat: float(hash((repeat, 7)) % 1009) for repeat in cell.plts_ms}
    found = sensitivity(results.experiment, replace(cell, improvements_percent=by_chance))
    assert found is not None
    assert found.most is None
    assert set(found.correlations) <= set(UNKNOWNS)


def test_what_was_not_drawn_says_nothing() -> None:
    results = varied_run(repeats=3)
    assert sensitivity(results.experiment, results.cells[-1]) is None


def test_the_range_holds_nine_draws_of_ten() -> None:
    results = varied_run()
    cell = saving(results, {"rtt": 1.0})
    low, high = cell.interval or (0.0, 0.0)
    inside = sum(low <= value <= high for value in cell.improvements_percent.values())
    assert inside == 26  # of 30; each end lies between the second and the third value
    assert cell.range90 == (low, high)


def test_few_draws_are_no_range_of_what_nobody_knows() -> None:
    two, three, six = (varied_run(repeats).cells[-1] for repeats in (2, 3, 6))
    assert (two.interval, two.confidence) == (None, 0.0)
    assert three.interval == (
        min(three.improvements_percent.values()),
        max(three.improvements_percent.values()),
    )
    assert three.confidence == 0.75
    assert (six.interval, six.confidence) == (six.range90, 1.0)
