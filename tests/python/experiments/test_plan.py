"""The plan: cells, jobs, their order and their seeds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastopen.common.errors import InputError
from fastopen.contract import Job
from fastopen.experiments import EngineName, Experiment, Plan, derive_seed, make_plan, with_drawn_seed
from fastopen.experiments.plan import load_timeout_us
from fastopen.pages import Page
from places import GOLDEN

PAGE = Job.model_validate_json((GOLDEN / "job-minimal.json").read_text()).page
NETWORK = {
    "rtt_us": 20_000,
    "down": {"rate_bit_per_s": 4_000_000, "queue_bytes": 96_000},
    "up": {"rate_bit_per_s": 256_000, "queue_bytes": 96_000},
}


def experiment(seed: int = 1, repeats: int = 3, rtts: tuple[int, ...] = (20_000, 100_000)) -> Experiment:
    networks = [{**NETWORK, "rtt_us": rtt} for rtt in rtts]
    data = {"name": "x", "pages": ["p"], "networks": networks, "repeats": repeats, "seed": seed}
    return Experiment.model_validate_json(json.dumps(data))


def plan(*pages: Page, seed: int = 1, repeats: int = 3) -> Plan:
    return make_plan(experiment(seed, repeats), pages or (PAGE,))


def test_each_page_network_and_arm_is_a_cell_in_the_order_of_the_table() -> None:
    cells = plan().cells
    assert [(cell.index, cell.network, cell.arm.name) for cell in cells] == [
        (0, 0, "off"),
        (1, 0, "cold"),
        (2, 0, "warm"),
        (3, 1, "off"),
        (4, 1, "cold"),
        (5, 1, "warm"),
    ]
    assert {(cell.page, cell.setup, cell.engine) for cell in cells} == {("small", 0, "host")}


def test_each_job_is_one_world_with_every_arm_once() -> None:
    jobs = plan().jobs
    assert len(jobs) == 2 * 3
    assert len({planned.job.id for planned in jobs}) == len(jobs)
    for planned in jobs:
        assert sorted(load.id for load in planned.job.loads) == ["tcp", "tfo-cold", "tfo-warm"]
        assert planned.job.network.rtt_us == [20_000, 100_000][planned.comparison.network]


@given(st.integers(0, 2**63 - 1))
def test_the_same_seed_gives_the_same_plan(seed: int) -> None:
    assert plan(seed=seed) == plan(seed=seed)


def test_another_seed_gives_another_order_of_arms_and_jobs() -> None:
    def orders(seed: int) -> list[list[str]]:
        return [
            [planned.job.id, *(load.id for load in planned.job.loads)] for planned in plan(seed=seed).jobs
        ]

    assert orders(1) != orders(2)


def test_every_order_of_the_arms_is_used_about_equally_often() -> None:
    jobs = plan(repeats=300).jobs
    orders = [tuple(load.id for load in planned.job.loads) for planned in jobs]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert min(counts) > 60  # 100 for each order on average


def test_all_jobs_of_a_repeat_come_before_the_next_repeat() -> None:
    repeats = [planned.repeat for planned in plan(repeats=4).jobs]
    assert repeats == sorted(repeats)


def test_seeds_of_worlds_differ_and_fit_the_contract() -> None:
    seeds = [planned.job.seed for planned in plan(repeats=50).jobs]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_seed_is_drawn_only_where_something_is_left_to_chance() -> None:
    asked = experiment(seed=0)
    lossy = asked.networks[0].model_copy(
        update={"up": asked.networks[0].up.model_copy(update={"loss": 0.01})}
    )
    assert with_drawn_seed(asked, "virtual").seed == 0
    on_the_host = asked.model_copy(update={"engines": ["virtual", "host"]})
    with_loss = asked.model_copy(update={"networks": [*asked.networks, lossy]})
    partly_behind = asked.networks[0].model_copy(update={"path": "strip-both", "path_share": 0.1})
    with_share = asked.model_copy(update={"networks": [partly_behind]})
    random: list[tuple[Experiment, EngineName]] = [
        *((asked, "host"), (on_the_host, "virtual"), (with_loss, "virtual"), (with_share, "virtual"))
    ]
    drawn = [with_drawn_seed(one, auto).seed for one, auto in random for _ in range(3)]
    assert len(set(drawn)) == len(drawn)


def test_seeds_never_change_from_version_to_version() -> None:
    assert derive_seed(1, "world", "a@20ms#0") == 441396003207260761


def test_a_page_of_a_taken_name_gets_a_number() -> None:
    assert [page.name for page in plan(PAGE, PAGE, PAGE).pages] == ["small", "small (2)", "small (3)"]


def test_networks_of_one_rtt_still_give_different_jobs() -> None:
    same = make_plan(experiment(rtts=(20_000, 20_000)), [PAGE])
    assert len({planned.job.id for planned in same.jobs}) == len(same.jobs)


def test_a_large_page_on_a_slow_link_may_take_longer() -> None:
    job = plan().jobs[0].job
    assert 120_000_000 <= load_timeout_us(PAGE, job.network) < 121_000_000
    large = PAGE.model_copy(
        update={"resources": (PAGE.resources[0].model_copy(update={"body_bytes": 10**8}),)}
    )
    assert load_timeout_us(large, job.network) > 4 * 200_000_000
    distant = job.network.model_copy(update={"rtt_us": 200_000})
    many = PAGE.model_copy(update={"resources": (PAGE.resources[0],) * 500})
    assert load_timeout_us(many, distant) > 8 * 500 * 200_000


def test_a_job_names_extra_rtts_of_the_hosts_of_its_page_alone() -> None:
    asked = experiment()
    extra = {"a.test": 5_000, "elsewhere.test": 7_000}
    networks = [network.model_copy(update={"host_extra_rtt_us": extra}) for network in asked.networks]
    jobs = make_plan(asked.model_copy(update={"networks": networks}), [PAGE]).jobs
    assert {tuple(planned.job.network.host_extra_rtt_us.items()) for planned in jobs} == {
        (("a.test", 5_000),)
    }


def test_a_page_that_cannot_be_sent_is_refused_by_name() -> None:
    root = PAGE.resources[0].model_copy(update={"response_header_bytes": 300_000})
    with pytest.raises(InputError, match=r"page small: .*resources\[0\]: a head is longer"):
        plan(PAGE.model_copy(update={"resources": (root,)}))
