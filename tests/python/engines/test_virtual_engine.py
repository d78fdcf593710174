"""The virtual engine: one repeat if nothing is random, reproducible results, and kernels in parallel."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from fastopen.contract import Job
from fastopen.engines import VirtualEngine, kernels, loads_in, worlds
from fastopen.engines.base import JobEnded, JobStarted
from fastopen.engines.worlds import WorldEngine
from fastopen.experiments import EngineName, Experiment, Plan, make_plan, with_clients
from fastopen.pages import Page, load_pages
from fastopen.workflows.engines import MIDDLEBOX_IS_OURS, EngineSet, auto_engine
from places import ROOT

FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]
PROGRAM = ROOT / "target" / "release" / "fastopen-world"
SMALL = """\
format = "fastopen-experiment/1"
name = "small"
pages = ["example"]
transports = ["off", "warm"]
seed = 3

[network]
rtt = "20ms"
down = "4mbit"
up = "256kbit"
loss = ["0%", "2%"]
"""


def planned(
    page: Page,
    engine: EngineName = "virtual",
    repeats: int = 4,
    clients: str = "loader",
    **direction: object,
) -> Plan:
    limit = {"rate_bit_per_s": 4_000_000, "queue_bytes": 96_000, **direction}
    data = {
        "name": "small",
        "pages": [page.name],
        "networks": [{"rtt_us": 20_000, "down": limit, "up": limit}],
        "engines": [engine],
        "repeats": repeats,
        "seed": 7,
    }
    experiment = Experiment.model_validate_json(json.dumps(data))
    setups = with_clients(experiment.setups, clients.split(","))
    return make_plan(experiment.model_copy(update={"setups": setups}), [page])


def fastopen(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*FASTOPEN, *map(str, arguments)]
    environment = {**os.environ, "FASTOPEN_WORLD": str(PROGRAM)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_without_loss_the_virtual_engine_loads_each_arm_once_in_the_experiments_order(page: Page) -> None:
    plan = planned(page)
    assert [[load.id for load in one.job.loads] for one in plan.jobs] == [["tcp", "tfo-cold", "tfo-warm"]]


def test_with_loss_or_jitter_each_repeat_is_done_with_a_seed_of_its_own(page: Page) -> None:
    assert len({one.job.seed for one in planned(page, loss=0.01).jobs}) == 4
    assert len({one.job.seed for one in planned(page, jitter={"normal_us": 1}).jobs}) == 4


def test_an_aqm_leaves_nothing_to_chance(page: Page) -> None:
    assert len(planned(page, aqm="fq_codel").jobs) == 1


def test_worlds_are_put_on_the_cores_in_turn(
    small_plan: Callable[..., Plan], fake_world: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    put: list[set[int]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: put.append(set(cores)))
    plan = small_plan((20,), repeats=4)
    events = WorldEngine([fake_world()], 2, cores=[5, 7]).run([one.job for one in plan.jobs], {})
    assert sum(isinstance(event, JobEnded) for event in events) == 4
    assert put[:2] == [{5}, {7}]
    assert len(put) == 4


def test_a_browser_has_chance_of_its_own(page: Page) -> None:
    plan = planned(page, clients="chromium,curl")
    assert [one.job.client.label for one in plan.jobs].count("chromium") == 4
    assert [one.job.client.label for one in plan.jobs].count("curl") == 1


def test_the_host_engine_does_every_repeat(page: Page) -> None:
    assert [one.repeat for one in planned(page, "host").jobs] == [0, 1, 2, 3]


def test_a_million_repeats_of_what_is_loaded_once_are_not_too_many(page: Page) -> None:
    assert planned(page, repeats=10_000).loads() == 3


def test_auto_is_the_host_without_a_kernel_and_says_why(
    small_plan: Callable[..., Plan], fake_world: Callable[..., Path]
) -> None:
    fake_world()
    plan = small_plan()
    said = EngineSet.of(plan, None, None).description(plan)
    assert auto_engine(None) == "host"
    assert (
        said == "engine host, because no kernel for the virtual engine is installed (fastopen kernel build)"
    )


def test_a_named_engine_is_not_explained(page: Page, fake_world: Callable[..., Path]) -> None:
    fake_world()
    plan = planned(page, "host")
    assert EngineSet.of(plan, None, None).description(plan) == "engine host"


def test_a_kernels_link_of_a_broken_path_is_said_to_be_the_programs(
    page: Page, fake_world: Callable[..., Path]
) -> None:
    fake_world()
    plan = planned(page, "host")
    network = plan.experiment.networks[0]
    for path, said in (("none", "engine host"), ("strip-both", f"engine host; {MIDDLEBOX_IS_OURS}")):
        networks = [network.model_copy(update={"link": "kernel", "path": path})]
        asked = replace(plan, experiment=plan.experiment.model_copy(update={"networks": networks}))
        assert EngineSet.of(asked, None, None).description(asked) == said


def test_auto_is_virtual_where_the_variable_names_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTOPEN_KERNEL", "/somewhere/linux")
    assert auto_engine(None) == "virtual"


def test_several_kernels_and_the_host_engine_exclude_each_other(kernel: Path, tmp_path: Path) -> None:
    copy = another_name(kernel, tmp_path)
    done = fastopen("run", "example", "--engine", "host", "--kernel", f"{kernel},{copy}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--kernel: several kernels need the virtual engine" in done.stderr


def test_a_kernel_that_is_named_twice_is_refused(kernel: Path) -> None:
    done = fastopen("run", "example", "--kernel", f"{kernel},{kernel}")
    assert done.returncode == 2
    assert "appears twice" in done.stderr


def test_the_longest_jobs_come_first(tmp_path: Path, fake_world: Callable[..., Path]) -> None:
    pages = [load_pages([name])[0].page for name in ("example", "wikipedia-tcp", "gnu")]
    plans = [planned(page) for page in pages]
    jobs = [plan.jobs[0].job.model_copy(update={"id": plan.pages[0].name}) for plan in plans]
    manifest = cast("Any", kernels.Manifest).model_construct(arguments=[])
    engine = VirtualEngine(fake_world(), kernels.Kernel(tmp_path, manifest), parallel=1)
    begun = [event.job for event in engine.run(jobs, {}) if isinstance(event, JobStarted)]
    assert begun == ["wikipedia-tcp", "gnu", "example"]


def test_jobs_are_dealt_to_as_few_kernels_as_keep_the_cores_busy(page: Page) -> None:
    def kernels(repeats: int, parallel: int = 2, **changed: Any) -> list[int]:
        jobs = [one.job for one in planned(page, repeats=repeats, loss=0.01, **changed).jobs]
        dealt = list(worlds.batches(jobs, parallel))
        assert sorted(job.id for batch in dealt for job in batch) == sorted(job.id for job in jobs)
        return [len(batch) for batch in dealt]

    assert kernels(1) == [1]
    assert kernels(4) == [2, 2]
    assert kernels(4, parallel=3) == [2, 1, 1]
    assert kernels(40) == [20] * 2
    assert kernels(160) == [40] * 4
    assert kernels(4, clients="chromium") == [1] * 4


def test_kernels_have_as_much_to_do_as_each_other_and_enough_for_their_start(page: Page) -> None:
    (job, *_) = [one.job for one in planned(page).jobs]

    def of(requests: int) -> Job:
        asked = job.page.model_copy(update={"resources": job.page.resources[:1] * requests})
        return job.model_copy(update={"loads": job.loads[:1], "page": asked})

    def requests(count: int, parallel: int) -> list[int]:
        jobs = [of(count * share) for share in (1, 6, 2, 18, 5, 12)]
        return [sum(len(one.page.resources) for one in batch) for batch in worlds.batches(jobs, parallel)]

    assert requests(5, parallel=2) == [115, 105]
    assert requests(5, parallel=1) == [220]
    assert len(requests(400, parallel=1)) == 17600 // worlds.WORTH_A_START


def another_name(kernel: Path, folder: Path) -> Path:
    """Install a copy of the kernel under another name. Return its path."""
    copy = folder / "copy"
    shutil.copytree(kernel.parent, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps({**manifest, "name": "another-name"}))
    return copy / "linux"


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", ["example", "wikipedia-tcp"])
def test_without_loss_no_seed_changes_a_page_load_time_by_a_nanosecond(name: str) -> None:
    plan = planned(load_pages([name])[0].page)
    jobs = [
        plan.jobs[0].job.model_copy(update={"id": f"seed-{seed}", "seed": seed}) for seed in (1, 2**62 + 3)
    ]
    found: dict[str, dict[str, int | None]] = {job.id: {} for job in jobs}
    for record in loads_in(VirtualEngine(PROGRAM, kernels.find()).run(jobs, {})):
        assert record.valid, record.invalid
        found[record.job][record.id] = record.plt_ns
    one, other = found.values()
    assert one == other
    assert one["tfo-warm"] != one["tcp"]


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
def test_reproducing_an_experiment_twice_prints_the_same_bytes_with_loss_too(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    once, again = (
        fastopen("reproduce", file, "--engine", "virtual", "--repeats", 2, "--no-keep") for _ in range(2)
    )
    assert once.returncode == again.returncode == 0, once.stderr
    assert once.stdout == again.stdout
    assert "virtual" in once.stdout
    assert f"kernel {kernels.find().name}" in once.stderr


@pytest.mark.e2e
def test_two_names_of_one_kernel_change_nothing_and_each_run_is_kept(kernel: Path, tmp_path: Path) -> None:
    copy, kept = another_name(kernel, tmp_path), tmp_path / "kept"
    command = ("run", "example", "--rtt", "20ms", "-o", kept, "--kernel", f"{kernel},{copy}", "--json")
    done = fastopen(*command)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    names = [kernels.find().name, "another-name"]
    assert document["kernels"] == names
    (compared,) = document["comparison"]["comparisons"]
    assert [cell["outcome"] for cell in compared["cells"]] == ["the same"] * 3
    assert not any(cell["evidence_changed"] for cell in compared["cells"])
    assert compared["run"] == "another-name"
    assert document["results"]["another-name"]["environment"]["virtual_kernel"]["name"] == "another-name"
    again = fastopen(*command, "-q")
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert again.stderr == "".join(f"already finished, in {kept / name}\n" for name in names)
