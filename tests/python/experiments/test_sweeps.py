"""Sweeps: lists of settings, on the command line and in TOML, and the cells that they give."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import fastopen
from fastopen.common.errors import InputError
from fastopen.experiments import (
    COMMAND_LINE,
    Experiment,
    Pace,
    estimated_s,
    make_plan,
    networks_asked,
    read_experiment,
    read_settings,
    slowed_down,
    varying_factors,
)
from fastopen.pages import Page

FakeWorld = Callable[..., Path]
TOML = """
format = "fastopen-experiment/1"
name = "sweep"
pages = ["example"]
seed = 1
"""


def experiment(tmp_path: Path, text: str) -> Experiment:
    path = tmp_path / "sweep.toml"
    path.write_text(TOML + text)
    return read_experiment(path)


def varying(asked: Experiment) -> list[str]:
    return [factor.name for factor in varying_factors(asked).varying]


def test_every_list_of_the_command_line_is_crossed_with_every_other(fake_world: FakeWorld) -> None:
    fake_world()
    options = {
        "--rtt": "20ms,100ms",
        "--down": "2mbit,4mbit",
        "--loss": "0%,1%",
        "--profile": "browser,mget",
        "--keep-alive": "on,off",
        "--connections-per-host": "2,5",
        "--transports": "off,warm",
        "--repeats": 1,
    }
    done = fastopen("run", "example", *(part for pair in options.items() for part in pair), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    cells = document["cells"]
    keys = ("rtt_ms", "down_bit_per_s", "loss", "profile", "keep_alive", "connections_per_host", "cookies")
    found = [tuple(cell[key] for key in keys) for cell in cells]
    assert len(found) == len(set(found)) == 2**7
    assert all(cell["loads"] == 1 for cell in cells)
    assert {cell["setup"] for cell in cells} == set(range(len(document["setups"]))) == set(range(8))
    assert (document["client"], document["tcp"]) == (None, None)


def test_rows_are_in_the_order_of_the_columns_and_those_that_do_not_vary_have_none(
    fake_world: FakeWorld,
) -> None:
    fake_world()
    done = fastopen(
        *("run", "example", "--rtt", "20ms,100ms", "--loss", "0%,1%", "--profile", "browser,mget"),
        *("--transports", "off,warm", "-n", "3", "--seed", "1"),
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    header = next(words for words in lines if words[:1] == ["%"])
    assert header[:3] == ["%", "profile", "ms"]
    rows = [words[:3] for words in lines if words[1:2] in (["browser"], ["mget"])]
    assert rows == [
        [loss, profile, rtt] for loss in "01" for profile in ("browser", "mget") for rtt in ("20", "100")
    ]
    assert "on a repeat visit it saves 19.9 to 20.0 % (" in " ".join(done.stdout.split())
    assert "Measured RTT: 20.05 ms instead of 20 ms; 100.05 ms instead of 100 ms." in done.stdout


def test_named_networks_are_called_by_their_names_and_keep_the_ids_of_their_jobs(
    tmp_path: Path, page: Page
) -> None:
    asked = experiment(tmp_path, '[network]\nnamed = ["4g", "dsl"]\n')
    factors = varying_factors(asked)
    assert varying(asked) == ["network", "rtt"]
    plan = make_plan(asked, [page])
    assert [factors.name(cell.comparison) for cell in plan.cells[:1]] == ["4g"]
    assert plan.jobs[0].job.id == "small@170ms,down9mbit,up9mbit#0"
    alone = experiment(tmp_path, '[network]\nnamed = ["4g"]\n[tcp]\ninitial_window_segments = [4, 10]\n')
    assert varying(alone) == ["initial_window", "rtt"]
    mixed = experiment(tmp_path, '[network]\nrtt = ["170ms", "50ms"]\ndown = "9mbit"\nup = "9mbit"\n')
    assert varying(mixed) == ["rtt"]


def test_an_rtt_that_does_not_vary_tells_nothing_apart(tmp_path: Path, page: Page) -> None:
    text = '[network]\nrtt = "50ms"\nloss = ["0%", "1%"]\n'
    asked = experiment(tmp_path, text)
    plan = make_plan(asked, [page])
    names = dict.fromkeys(varying_factors(asked).name(cell) for cell in plan.cells)
    assert list(names) == ["0 % loss", "1 % loss"]
    one = experiment(tmp_path, '[network]\nrtt = "50ms"\n')
    assert varying_factors(one).name(make_plan(one, [page]).cells[0]) == "50 ms"


def test_lists_can_be_taken_first_with_first(tmp_path: Path) -> None:
    text = '[network]\ncombine = "zip"\nrtt = "20ms"\ndown = ["5mbit", "10mbit"]\nup = ["5mbit", "10mbit"]\n'
    networks = experiment(tmp_path, text).networks
    assert [(one.rtt_us, one.down.rate_bit_per_s, one.up.rate_bit_per_s) for one in networks] == [
        (20_000, 5_000_000, 5_000_000),
        (20_000, 10_000_000, 10_000_000),
    ]


def test_a_file_may_have_a_list_wherever_a_setting_stands(tmp_path: Path) -> None:
    text = """
        engines = ["host", "virtual"]
        [network]
        rtt = "20ms"
        down = ["2mbit", "4mbit"]
        queue = ["default", "64kB"]
        [client]
        profile = ["browser", "mget"]
        connections_per_host = 3
        phases = ["load", "async"]
        [origins]
        keep_alive = [true, false]
        [tcp]
        initial_window_segments = [4, 10]
    """
    asked = experiment(tmp_path, text)
    assert (len(asked.networks), len(asked.setups), asked.engines) == (4, 8, ["host", "virtual"])
    assert all(setup.client.phases == ["load", "async"] for setup in asked.setups)
    assert varying(asked) == ["down", "queue", "profile", "origins_keep_alive", "initial_window", "rtt"]


def test_what_follows_from_another_setting_is_no_column_of_its_own(tmp_path: Path) -> None:
    rates = experiment(tmp_path, '[network]\nrtt = "20ms"\ndown = ["4mbit", "100mbit"]\n')
    assert len({network.down.queue_bytes for network in rates.networks}) == 2
    assert varying(rates) == ["down", "rtt"]
    profiles = experiment(tmp_path, '[network]\nrtt = "20ms"\n[client]\nprofile = ["browser", "mget"]\n')
    assert len({setup.client.keep_alive for setup in profiles.setups}) == 2
    assert varying(profiles) == ["profile", "rtt"]


def test_the_arms_of_a_row_are_loads_of_one_job_on_each_engine(tmp_path: Path, page: Page) -> None:
    text = """
        engines = ["virtual", "host"]
        repeats = 2
        network = { rtt = "20ms" }
        client = { keep_alive = [true, false] }
    """
    plan = make_plan(experiment(tmp_path, text), [page])
    # In virtual time, a network without loss needs no second repeat.
    assert len({planned.job.id for planned in plan.jobs}) == len(plan.jobs) == 2 * (1 + 2)
    assert [planned.comparison.engine for planned in plan.jobs] == ["virtual"] * 2 + ["host"] * 4
    for planned in plan.jobs:
        cells = [plan.cells[index] for index in planned.cells.values()]
        assert {cell.comparison for cell in cells} == {planned.comparison}
        assert {cell.arm.name for cell in cells} == {"off", "cold", "warm"}
        assert planned.job.client.keep_alive == [True, False][planned.comparison.setup]
    seeds = {
        engine: {p.job.seed for p in plan.jobs if p.comparison.engine == engine} for engine in plan.engines
    }
    assert len(seeds["virtual"]) == 2
    assert seeds["virtual"] < seeds["host"]


def test_auto_and_its_engine_are_the_same_one(tmp_path: Path, page: Page) -> None:
    asked = experiment(tmp_path, 'engines = ["auto", "host"]\n[network]\nrtt = "20ms"\n')
    assert make_plan(asked, [page], auto="host").engines == ("host",)
    assert make_plan(asked, [page], auto="virtual").engines == ("virtual", "host")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--profile", "mget,curl"], "--profile: unknown value 'curl'; use browser or mget"),
        (["--keep-alive", "yes"], "--keep-alive: unknown value 'yes'; use on or off"),
        (["--connections-per-host", "2,x"], "--connections-per-host: 'x' is not a number"),
        (["--connections-per-host", "2,300"], "--connections-per-host: '300' is out of bounds (1 to 256)"),
        (
            ["--profile", "browser,mget", "--connections-per-host", "2,6"],
            "--connections-per-host: 6 connections to a host, but mget opens 5 in total",
        ),
        (["--processing-scale", "-1"], "--processing-scale: '-1' is out of bounds (0 to 1000)"),
        (["--initial-window", "0"], "--initial-window: '0' is out of bounds (1 to 1000)"),
        (["--congestion-control", "Cubic"], "--congestion-control: 'Cubic': "),
        (["--engine", "fast"], "--engine: unknown value 'fast'; use auto, host or virtual"),
        (["--loss", "0%,60%"], "--loss: '60%' is out of bounds (0% to 50%)"),
        (["--rtt", "20ms,2m"], "--rtt: '2m' has an unknown unit"),
        (
            ["--rtt", "20ms,100ms", "--down", "2mbit,4mbit,8mbit", "--combine", "zip"],
            "equal length, but --down has 3 values, --rtt has 2 values",
        ),
        (["--down", "2mbit,4mbit", "--down-trace", "x"], "--down, --down-trace: a trace replaces the rate"),
        (
            ["--rtt", ",".join(f"{n}ms" for n in range(1, 1001)), "--repeats", "1000"],
            "1 page x 1000 networks x 3 transports x 1000 repeats are 3,000,000 loads",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_by_option(options: list[str], message: str) -> None:
    done = fastopen("run", "example", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[network]\nrtt = "20ms"\ndown = ["4mbit", "4"]\n', r"network\.down\[1\]: '4' has no unit"),
        ('[network]\nrtt = "20ms"\ndown = "4"\n', r"network\.down: '4' has no unit"),
        ('[network]\nrtt = "20ms"\nloss = []\n', r"network\.loss: is an empty list"),
        (
            '[network]\nrtt = "20ms"\n[client]\nprofile = ["browser", "x"]\n',
            r"client\.profile\[1\]: unknown value 'x'; use browser or mget",
        ),
        ('[network]\nrtt = "20ms"\n[client]\nkeepalive = true\n', r"client\.keepalive: unknown key"),
        ('client = 1\n[network]\nrtt = "20ms"\n', r"client: is a table"),
        ('engines = ["x"]\n[network]\nrtt = "20ms"\n', r"engines\[0\]: unknown value 'x'"),
        (
            '[network]\nrtt = ["1ms", "2ms"]\ndown = ["2mbit", "3mbit", "4mbit"]\ncombine = "zip"\n',
            r"network\.down, network\.rtt: .*down has 3 values, network.rtt has 2",
        ),
    ],
)
def test_what_makes_no_sense_in_a_file_is_refused_by_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        experiment(tmp_path, text)


@pytest.mark.slow
@given(st.lists(st.sampled_from(["down", "up", "queue", "loss", "rtt"]), unique=True), st.integers(1, 4))
def test_zipped_lists_of_any_length_give_that_many_networks(names: list[str], length: int) -> None:
    units = {"down": "mbit", "up": "mbit", "queue": "kB", "loss": "%", "rtt": "ms"}
    values = {name: [f"{n + 2}{units[name]}" for n in range(length)] for name in names}
    asked = {"rtt": "20ms", **values}
    zipped, crossed = (read_settings(asked, COMMAND_LINE, combine=one).networks() for one in ("zip", "cross"))
    assert len(zipped) == (length if names else 1)
    assert len(crossed) == length ** len(names)


def test_the_estimate_is_of_the_right_order_and_falls_with_worlds_at_once(page: Page) -> None:
    networks = networks_asked(rtt="200ms")
    plan = make_plan(Experiment(name="x", pages=["p"], networks=networks, seed=1), [page])
    alone, four = (estimated_s(plan, {"host": parallel}) for parallel in (1, 4))
    # Ten worlds with 0.1 s of setup and three loads, each with a handshake and a request.
    assert alone == pytest.approx(10 * (0.1 + 3 * 0.4), rel=0.1)
    assert four == pytest.approx(alone / 4)
    assert estimated_s(plan, {"host": 4}, {"host": 3.0}) == pytest.approx(3 * four)


@pytest.mark.parametrize(
    ("load_average", "cores", "at_once", "times"), [(0.1, 2, 2, 1.05), (4.0, 2, 2, 3.0), (0.0, 8, 8, 1.0)]
)
def test_what_waits_for_processors_is_slower_beside_what_runs(
    load_average: float, cores: int, at_once: int, times: float
) -> None:
    assert slowed_down(load_average, cores, at_once) == pytest.approx(times)


def test_the_pace_of_a_run_weighs_loads_by_what_they_cost(page: Page) -> None:
    networks = networks_asked(rtt="100ms,900ms")
    plan = make_plan(Experiment(name="x", pages=["p"], networks=networks, seed=1, repeats=1), [page])
    pending = {planned.job.id: [load.id for load in planned.job.loads] for planned in plan.jobs}
    quick = next(planned.job for planned in plan.jobs if planned.job.network.rtt_us == 100_000)
    pace = Pace.of(plan, pending)
    assert pace.left_s(1.0) is None
    for _ in range(2):  # the second attempt takes time without reducing the work that is left
        for load in quick.loads:
            pace.finished(quick.id, load.id)
    # The other loads take nine times as long, plus the time for a world.
    left_s = pace.left_s(2.0)
    assert left_s is not None
    assert 4 < left_s < 9


def test_a_long_run_is_announced_before_it_begins(fake_world: FakeWorld) -> None:
    fake_world()
    long = fastopen("run", "example", "--rtt", "5s", "--repeats", "20", "--jobs", "1")
    assert long.stderr.splitlines()[1].startswith("60 loads, 25 min")
    assert "min" not in fastopen("run", "example", "--rtt", "1s", "--repeats", "1", "--no-keep").stderr
