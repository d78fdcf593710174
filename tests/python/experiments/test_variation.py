"""Draws of uncertain inputs: new for each repeat, the same for all arms of a repeat."""

import json
from pathlib import Path

import pytest

from fastopen.common.errors import InputError
from fastopen.contract import Job
from fastopen.experiments import DRAWS, Experiment, Plan, Variation, make_plan, read_experiment
from fastopen.experiments.variation import TIMER_WHEEL_PERIOD_US
from fastopen.pages import Page
from places import GOLDEN

PAGE = Job.model_validate_json((GOLDEN / "job-minimal.json").read_text()).page
LIMIT = {"rate_bit_per_s": 4_000_000, "queue_bytes": 96_000}
FILE = """
format = "fastopen-experiment/1"
name = "mine"
pages = ["example"]
seed = 1
[network]
rtt = "20ms"
"""


def plan(seed: int = 1, repeats: int = 20, vary: Variation | None = None, engine: str = "virtual") -> Plan:
    networks = [
        {"rtt_us": rtt, "down": LIMIT, "up": {**LIMIT, "rate_bit_per_s": None}} for rtt in (20_000, 100_000)
    ]
    data = {"name": "x", "pages": ["p"], "networks": networks, "repeats": repeats, "seed": seed}
    experiment = Experiment.model_validate_json(json.dumps({**data, "engines": [engine]}))
    return make_plan(experiment.model_copy(update={"vary": vary or Variation()}), [PAGE])


def drawn(job: Job) -> tuple[float, ...]:
    return (
        job.network.rtt_us,
        job.network.down.rate_bit_per_s or 0,
        job.origins.think_scale,
        job.client.processing_scale,
        job.start_phase_us,
    )


def test_each_repeat_is_a_draw_of_its_own_with_all_arms_in_it() -> None:
    jobs = [one.job for one in plan().jobs if one.comparison.network == 0]
    assert len(jobs) == 20
    for value in zip(*map(drawn, jobs), strict=True):
        assert len(set(value)) == 20
    assert all(len(job.loads) == 3 and job.shuffle_equal_requests for job in jobs)


def test_draws_stay_within_their_spreads() -> None:
    for planned in plan(repeats=100, vary=Variation(rtt=0.02, processing=0.5)).jobs:
        rtt_us = (20_000, 100_000)[planned.comparison.network]
        assert abs(planned.job.network.rtt_us / rtt_us - 1) <= 0.02001
        assert abs((planned.job.network.down.rate_bit_per_s or 0) / 4_000_000 - 1) <= 0.05001
        assert planned.job.network.up.rate_bit_per_s is None
        assert 0.5 <= planned.job.client.processing_scale <= 1.5
        assert 0 <= planned.job.start_phase_us < TIMER_WHEEL_PERIOD_US


def test_a_draw_is_the_same_share_on_every_network() -> None:
    shares: dict[int, set[float]] = {}
    for one in plan().jobs:
        share = one.job.network.rtt_us / (20_000, 100_000)[one.comparison.network]
        shares.setdefault(one.repeat, set()).add(round(share, 3))
    assert all(
        len(of_repeat) <= 2 and max(of_repeat) - min(of_repeat) < 0.0011 for of_repeat in shares.values()
    )


def test_the_same_seed_gives_the_same_draws_and_another_seed_others() -> None:
    assert plan(seed=3) == plan(seed=3)
    assert [drawn(one.job) for one in plan(seed=3).jobs] != [drawn(one.job) for one in plan(seed=4).jobs]


def test_what_has_no_spread_stays_as_it_was_asked() -> None:
    still = Variation(rtt=0, down=0, up=0, think=0, processing=0, start_phase=False, order=False)
    for planned in plan(vary=still).jobs:
        assert drawn(planned.job)[1:] == (4_000_000, 1.0, 1.0, 0)
        assert not planned.job.shuffle_equal_requests


def explained() -> Page:
    """Return PAGE with two other sets of think times that explain its recording equally well."""
    others = [PAGE.explanation.model_copy(update={"server_think_us": (think_us,)}) for think_us in (700, 800)]
    return PAGE.model_copy(update={"explanations": tuple(others)})


def think_us(page: Page, vary: Variation | None) -> set[int]:
    limit = {"rate_bit_per_s": None, "queue_bytes": None}
    networks = [{"rtt_us": 20_000, "down": limit, "up": limit}]
    data = {"name": "x", "pages": ["p"], "networks": networks, "repeats": 20, "seed": 1}
    experiment = Experiment.model_validate_json(json.dumps({**data, "engines": ["virtual"]}))
    jobs = make_plan(experiment.model_copy(update={"vary": vary}), [page]).jobs
    assert not any(one.job.page.explanations for one in jobs)
    return {one.job.page.resources[0].server_think_us for one in jobs}


def test_draws_take_each_of_the_explanations_that_fit_a_recording_as_well() -> None:
    own = PAGE.resources[0].server_think_us
    assert think_us(explained(), Variation()) == {own, 700, 800}
    assert think_us(explained(), Variation(explanations=False)) == {own}
    assert think_us(explained(), None) == {own}
    assert think_us(PAGE, Variation()) == {own}


def test_on_the_hosts_clock_the_start_is_left_to_chance_as_it_is() -> None:
    assert {planned.job.start_phase_us for planned in plan(engine="host").jobs} == {0}


def test_a_file_says_the_spreads_in_percent(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE + '[vary]\nrtt = "2%"\norder = false\n')
    experiment = read_experiment(path)
    assert experiment.vary == Variation(rtt=0.02, order=False)
    assert experiment.repeats == DRAWS
    path.write_text("vary = true\nrepeats = 7\n" + FILE)
    experiment = read_experiment(path)
    assert (experiment.vary, experiment.repeats) == (Variation(), 7)


@pytest.mark.parametrize(("line", "place"), [('rtt = "5ms"', "vary.rtt"), ("rates = 0.1", "vary.rates")])
def test_what_is_no_spread_is_refused_with_its_place(tmp_path: Path, line: str, place: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE + f"[vary]\n{line}\n")
    with pytest.raises(InputError, match=place):
        read_experiment(path)
