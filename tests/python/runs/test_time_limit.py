"""Runs with a time limit: as many repeats as fit, and no repeat without a finished load."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fastopen.analysis.statistics import collect
from fastopen.engines import HostEngine
from fastopen.experiments import Plan, PlannedJob
from fastopen.runs import RunStore, TimeLimit, execute
from made_up_run import made_up_page, made_up_plan

FakeWorld = Callable[..., Path]
MakePlan = Callable[..., Plan]


class Clock:
    """A clock that advances by a step each time it is read."""

    def __init__(self, step_s: float) -> None:
        self.now = 0.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now += self.step_s
        return self.now


def test_repeats_are_begun_while_the_last_one_would_fit_again() -> None:
    plan = made_up_plan([made_up_page("one")], rtts_ms=(20, 100), repeats=10)
    clock = Clock(0)
    limit = TimeLimit(50, clock)
    rounds: list[Sequence[PlannedJob]] = []
    for jobs in limit.rounds(plan.jobs):
        assert {planned.repeat for planned in jobs} == {len(rounds)}
        rounds.append(jobs)
        clock.now += 15
    assert len(rounds) == 3


def test_after_the_first_repeat_as_many_are_a_round_as_keep_all_worlds_busy() -> None:
    plan = made_up_plan([made_up_page("one")], rtts_ms=(20, 100), repeats=10)
    rounds = [{one.repeat for one in jobs} for jobs in TimeLimit(50, Clock(0)).rounds(plan.jobs, at_once=7)]
    assert rounds == [{0}, {1, 2, 3}, {4, 5, 6}, {7, 8, 9}]


def test_what_there_was_no_time_for_is_no_part_of_the_run(
    small_plan: MakePlan, fake_world: FakeWorld
) -> None:
    plan = small_plan((20, 100), repeats=10)
    clock = Clock(0)
    with RunStore.create(None, plan, {}) as store:

        def later(_: object) -> None:
            clock.now += 1

        execute(plan, HostEngine(fake_world(), 1), {}, store, later, limit=TimeLimit(40, clock))
        assert store.status == "finished"
        assert 0 < store.loads_asked() == store.loads_done() < plan.loads()
        results = collect(store)
    assert all(cell.loads == cell.asked > 0 for cell in results.cells)


def test_what_was_never_loaded_is_still_owed(small_plan: MakePlan, fake_world: FakeWorld) -> None:
    plan = small_plan((20, 100), repeats=10)
    with RunStore.create(None, plan, {}) as store:
        execute(plan, HostEngine(fake_world(), 1), {}, store, lambda _: None, limit=TimeLimit(1, Clock(0.3)))
        assert store.status == "out of time"
        assert 0 < len(store.pending()) <= 2
