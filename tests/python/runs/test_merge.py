"""Shards of an experiment, run separately and merged: the result equals that of a single run."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from command_line import FASTOPEN, fastopen
from fastopen.analysis.statistics import collect
from fastopen.common.errors import InputError
from fastopen.contract import LoadRecord
from fastopen.engines import HostEngine
from fastopen.engines.base import PacketFile
from fastopen.experiments import Plan, Shard, Variation, make_plan
from fastopen.report import results_document
from fastopen.runs import RunStore, execute, merge, stored_plan
from fastopen.runs.rows import kept_packets
from made_up_run import ENVIRONMENT, fill, made_up_page, made_up_plan, made_up_run
from places import ROOT

pytestmark = pytest.mark.slow

PAGE = made_up_page("one", requests=4)
VIRTUAL = {"engines": ["virtual"]}
KERNEL = {"virtual_kernel": {"name": "7.3", "version": "7.3", "sha256": "aa" * 32}}


def plan_of(**others: Any) -> Plan:
    return made_up_plan([PAGE, made_up_page("two", requests=5)], **{"repeats": 2, **others})


def shard(folder: Path, plan: Plan, index: int, count: int, **environment: Any) -> Path:
    """Write a finished shard to a new folder. Return the folder."""
    chosen, place = Shard(count, index), folder / f"{index}"
    with RunStore.create(
        place, chosen.of(plan), {**ENVIRONMENT, **environment}, {"shard": str(chosen)}
    ) as store:
        fill(store, chosen.of(plan))
    return place


def shards(folder: Path, plan: Plan, count: int) -> list[Path]:
    return [shard(folder, plan, index, count) for index in range(1, count + 1)]


def rows(run: Path) -> dict[str, list[Any]]:
    """Return all rows of a run's file except facts about the machine."""
    with RunStore.open(run) as store:
        columns = "id, page, network, setup, engine, repeat, seed, loads"
        return {
            "jobs": list(store.rows_of(f"SELECT {columns} FROM jobs ORDER BY number")),
            "loads": list(store.rows_of("SELECT * FROM loads ORDER BY number")),
            "records": list(store.rows_of("SELECT * FROM records ORDER BY load")),
            "worlds": sorted(store.rows_of("SELECT job, rtt_us_measured, record_zlib FROM worlds")),
            "facts": list(store.rows_of("SELECT * FROM facts WHERE name IN ('experiment', 'status')")),
        }


def document(run: Path) -> dict[str, Any]:
    with RunStore.open(run) as store:
        return results_document(collect(store))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 10])
def test_each_job_is_in_one_shard(count: int) -> None:
    plan = plan_of()
    parts = [Shard(count, index).of(plan).jobs for index in range(1, count + 1)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    ids = [planned.job.id for part in parts for planned in part]
    assert sorted(ids) == sorted(planned.job.id for planned in plan.jobs)


@pytest.mark.parametrize("text", ["", "3", "0/2", "3/2", "-1/2", "1/0", "1/2/3", "1/10000000", "a/b"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"invalid shard .*; use I/N, such as 17/200"):
        Shard.parse(text)


@pytest.mark.parametrize("vary", [None, Variation()], ids=["as asked", "in draws"])
@pytest.mark.parametrize("count", [3, 10])
def test_merged_shards_are_the_run_in_one_piece(tmp_path: Path, count: int, vary: Variation | None) -> None:
    usual = plan_of()
    plan = make_plan(usual.experiment.model_copy(update={"vary": vary}), usual.pages)
    one = made_up_run(tmp_path / "one", plan)
    merged = merge(shards(tmp_path, plan, count), tmp_path / "all")
    assert (merged.done, merged.loads, merged.missing, merged.duplicates) == (24, 24, (), ())
    assert rows(tmp_path / "all") == rows(one)
    assert document(tmp_path / "all") == document(one)


def test_the_order_of_the_shards_makes_no_difference(tmp_path: Path) -> None:
    parts = shards(tmp_path, plan_of(), 3)
    merge(parts, tmp_path / "all")
    merge(parts[::-1], tmp_path / "again")
    assert rows(tmp_path / "all") == rows(tmp_path / "again")


def test_clocks_that_differ_between_machines_change_nothing(tmp_path: Path) -> None:
    plan = plan_of()
    years = {1: 1970, 2: 2026, 3: 2038}
    parts = [
        shard(tmp_path, plan, index, 3, started=f"{year}-01-01T00:00:00+00:00")
        for index, year in years.items()
    ]
    merge(parts, tmp_path / "all")
    assert rows(tmp_path / "all") == rows(made_up_run(tmp_path / "one", plan))


def test_a_merged_run_can_be_merged_with_what_it_lacked(tmp_path: Path) -> None:
    plan = plan_of()
    one, two, three = shards(tmp_path, plan, 3)
    merge([one, three], tmp_path / "most")
    assert merge([tmp_path / "most", two], tmp_path / "all").missing == ()
    assert rows(tmp_path / "all") == rows(made_up_run(tmp_path / "one", plan))


def test_what_is_missing_is_said_and_resuming_does_it(
    small_plan: Callable[..., Plan], fake_world: Callable[..., Path], tmp_path: Path
) -> None:
    plan, program = small_plan((20, 100), repeats=5), fake_world()
    for index in (1, 4):
        part = Shard(5, index).of(plan)
        with RunStore.create(
            tmp_path / f"{index}", part, ENVIRONMENT, {"shard": str(Shard(5, index))}
        ) as store:
            first_job = part if index == 1 else replace(part, jobs=part.jobs[:1])
            execute(first_job, HostEngine(program, 1), {}, store, lambda _: None)
            store.set_status("interrupted" if index == 4 else "finished")
    merged = merge([tmp_path / "1", tmp_path / "4"], tmp_path / "all")
    assert (merged.done, merged.loads) == (9, 30)
    assert merged.missing == (
        f"shard 4/5 ({tmp_path / '4'}) has done 3 of 6 loads",
        "no folder has shards 2-3, 5 of 5",
    )
    kept = rows(tmp_path / "all")["loads"]
    with RunStore.resume(tmp_path / "all") as store:
        assert store.status == "interrupted"
        execute(stored_plan(store), HostEngine(program, 1), {}, store, lambda _: None)
        assert store.status == "finished"
        assert len(store.loads()) == 30
    assert rows(tmp_path / "all")["loads"][:9] == kept


def test_a_shard_is_resumed_as_any_run(
    small_plan: Callable[..., Plan], fake_world: Callable[..., Path], tmp_path: Path
) -> None:
    plan, program = small_plan((20, 100), repeats=5), fake_world()
    for index in (4, 5):  # only the last repeats
        part = Shard(5, index).of(plan)
        with RunStore.create(tmp_path / "part", part, ENVIRONMENT) as store:
            assert stored_plan(store) == part
            execute(stored_plan(store), HostEngine(program, 1), {}, store, lambda _: None)
        (tmp_path / "part").rename(tmp_path / f"{index}")
    merged = merge([tmp_path / "4", tmp_path / "5"], tmp_path / "all")
    assert merged.missing == ("6 of 10 jobs are in no folder",)


def test_a_shard_that_was_done_twice_counts_once(tmp_path: Path) -> None:
    plan = plan_of(**VIRTUAL)
    parts = shards(tmp_path, plan, 2)
    again = shard(tmp_path / "again", plan, 2, 2)
    merged = merge([*parts, again], tmp_path / "all")
    assert (merged.done, merged.missing) == (merged.loads, ())
    assert merged.duplicates == (f"shard 2/2 ({again}): {merged.loads // 2} loads",)
    assert rows(tmp_path / "all") == rows(made_up_run(tmp_path / "one", plan))


def done_otherwise(folder: Path, plan: Plan) -> Path:
    """Write another copy of shard 2 of 2, in which one load took 1 ns longer. Return its folder."""
    place = shard(folder, plan, 2, 2)
    with RunStore.resume(place) as store:
        store._database.execute("UPDATE loads SET plt_ns = plt_ns + 1 WHERE number = 1")
        store._database.commit()
    return place


def test_in_virtual_time_what_was_done_twice_must_be_the_same(tmp_path: Path) -> None:
    plan = plan_of(**VIRTUAL)
    parts = shards(tmp_path, plan, 2)
    again = done_otherwise(tmp_path / "again", plan)
    with pytest.raises(
        InputError, match=r"shard 2/2 .* differ in .*, which virtual time repeats exactly"
    ) as refused:
        merge([*parts, again], tmp_path / "all")
    assert str(again) in str(refused.value)
    assert str(parts[1]) in str(refused.value)
    assert not [*(tmp_path / "all").iterdir()]


def test_in_real_time_the_first_one_is_taken(tmp_path: Path) -> None:
    plan = plan_of()
    parts = shards(tmp_path, plan, 2)
    again = done_otherwise(tmp_path / "again", plan)
    merge([again, *parts], tmp_path / "new")
    merge([*parts, again], tmp_path / "old")
    assert rows(tmp_path / "old") == rows(made_up_run(tmp_path / "one", plan))
    assert rows(tmp_path / "new") != rows(tmp_path / "old")


def test_a_load_that_was_disturbed_is_taken_of_the_shard_that_did_it_undisturbed(tmp_path: Path) -> None:
    plan = plan_of()
    first = Shard(2, 1).of(plan)
    with RunStore.create(tmp_path / "late", first, ENVIRONMENT) as store:
        fill(store, first, late=[planned.job.id for planned in first.jobs])
    late = merge([tmp_path / "late", shard(tmp_path, plan, 2, 2)], tmp_path / "lacks")
    assert late.done == late.loads - len(first.jobs)
    well = [tmp_path / "late", tmp_path / "2", shard(tmp_path, plan, 1, 2)]
    merge(well, tmp_path / "all")
    assert rows(tmp_path / "all")["loads"] == rows(made_up_run(tmp_path / "one", plan))["loads"]


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"versions": {"fastopen-world": "0.0.2"}}, "version of the world program"),
        ({"program_sha256": "ff"}, "build of the world program"),
        ({"virtual_kernel": {"sha256": "bb" * 32}}, "kernel of the virtual engine"),
        ({"resumed": [{"virtual_kernel": {"sha256": "bb" * 32}}]}, "kernel of the virtual engine"),
    ],
)
def test_shards_of_another_program_or_kernel_are_refused(
    tmp_path: Path, environment: dict[str, Any], named: str
) -> None:
    plan = plan_of(**VIRTUAL)
    parts = [shard(tmp_path, plan, 1, 2, **KERNEL), shard(tmp_path, plan, 2, 2, **{**KERNEL, **environment})]
    with pytest.raises(InputError, match=rf"shard 2/2 .*: ran with another {named} than shard 1/2"):
        merge(parts, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_shards_of_another_experiment_are_refused_with_what_differs(tmp_path: Path) -> None:
    parts = [shard(tmp_path, plan_of(), 1, 2), shard(tmp_path, plan_of(repeats=5), 2, 2)]
    with pytest.raises(InputError, match="a different experiment: it has repeats 5 instead of 2"):
        merge(parts, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_shards_that_were_planned_for_another_engine_are_refused(tmp_path: Path) -> None:
    usual = plan_of()
    virtual = make_plan(usual.experiment, usual.pages, "virtual")
    parts = [shard(tmp_path, usual, 1, 2), shard(tmp_path, virtual, 2, 2)]
    with pytest.raises(InputError, match="was planned for engine virtual, the first run for host"):
        merge(parts, tmp_path / "all")


def test_a_run_is_not_merged_twice_nor_over_another(tmp_path: Path) -> None:
    (one,) = shards(tmp_path, plan_of(), 1)
    (tmp_path / "link").symlink_to(one)
    with pytest.raises(InputError, match="is given twice"):
        merge([one, tmp_path / "link"], tmp_path / "all")
    with pytest.raises(InputError, match="contains a run already"):
        merge([one], one)
    assert rows(one)["loads"]


def shards_with_packets(folder: Path, plan: Plan) -> list[Path]:
    """Write both halves of a run, with a file of packets for each load. Return their folders."""
    folders = []
    for index in (2, 1):
        part = Shard(2, index).of(plan)
        with RunStore.create(folder / f"{index}", part, ENVIRONMENT) as store:
            for planned in part.jobs:
                for load in planned.job.loads:
                    record = LoadRecord.model_validate_json((ROOT / "tests/contract/load.json").read_text())
                    record = record.model_copy(update={"job": planned.job.id, "id": load.id})
                    packets = PacketFile(f"{planned.job.id} {load.id}".encode(), 0)
                    store.add_load(planned, record, record.model_dump_json(), packets)
        folders.append(folder / f"{index}")
    return folders


def test_packets_go_with_their_loads(tmp_path: Path) -> None:
    merge(shards_with_packets(tmp_path, plan_of()), tmp_path / "all")
    with RunStore.open(tmp_path / "all") as run:
        kept = {
            (row.job, row.load): kept_packets(tmp_path / "all", row.number, row.job, row.load)
            for row in run.loads()
        }
    assert {key: path and path.read_text() for key, path in kept.items()} == {
        key: " ".join(key) for key in kept
    }
    assert len(kept) == 24


def test_packets_that_are_a_link_out_of_the_shard_are_not_copied(tmp_path: Path) -> None:
    first, second = shards_with_packets(tmp_path, plan_of())
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (one, *_) = (first / "packets").iterdir()
    one.unlink()
    one.symlink_to(secret)
    (second / "packets").rename(tmp_path / "elsewhere")
    (second / "packets").symlink_to(tmp_path / "elsewhere")
    merge([first, second], tmp_path / "all")
    kept = [path.read_text() for path in (tmp_path / "all" / "packets").iterdir()]
    assert len(kept) == len([*(first / "packets").iterdir()]) - 1
    assert "secret" not in kept


def test_what_could_not_be_merged_leaves_nothing_in_the_way_of_another_try(tmp_path: Path) -> None:
    parts = shards_with_packets(tmp_path, plan_of(**VIRTUAL))
    again = done_otherwise(tmp_path / "again", plan_of(**VIRTUAL))
    with pytest.raises(InputError, match="which virtual time repeats exactly"):
        merge([*parts, again], tmp_path / "all")
    merge(parts, tmp_path / "all")


def test_a_merge_that_was_killed_while_it_copied_packets_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, output = shards_with_packets(tmp_path, plan_of()), tmp_path / "all"
    pid = os.fork()
    if not pid:
        copied = iter((1, 1))

        def copy(_: Path, to: Path) -> None:
            to.write_bytes(b"half")
            if not next(copied, 0):
                os.kill(os.getpid(), SIGKILL)

        monkeypatch.setattr(shutil, "copyfile", copy)
        with suppress(BaseException):
            merge(parts, output)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == SIGKILL
    assert (output / "packets").is_dir()
    assert not (output / "run.sqlite").exists()
    merge(parts, output)
    assert sorted(path.name for path in output.iterdir()) == ["packets", "run.sqlite"]
    with RunStore.open(output) as run:
        kept = [kept_packets(output, row.number, row.job, row.load) for row in run.loads()]
        assert all(path is not None and b"half" not in path.read_bytes() for path in kept)
        assert len([*(output / "packets").iterdir()]) == len(kept)


def test_packets_of_somebody_else_are_not_taken_for_those_of_a_killed_merge(tmp_path: Path) -> None:
    parts, output = shards_with_packets(tmp_path, plan_of()), tmp_path / "all"
    (output / "packets").mkdir(parents=True)
    with pytest.raises(InputError, match="is not empty and not a run"):
        merge(parts, output)


@pytest.mark.parametrize("attempt", [0, 3, 2**62])
def test_a_shard_whose_attempts_have_gaps_is_damaged(attempt: int, tmp_path: Path) -> None:
    parts = shards(tmp_path, plan_of(), 2)
    with RunStore.resume(parts[1]) as store:
        store._database.execute("UPDATE loads SET attempt = ? WHERE number = 1", (attempt,))
        store._database.commit()
    with pytest.raises(InputError, match=f"damaged: a load: .*attempt {attempt} of "):
        merge(parts, tmp_path / "all")


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return fastopen(
        "run", "example", "--engine", "host", "--rtt", "20ms,50ms", "-n", "2", *options, "-o", folder
    )


def test_the_command_line_runs_shards_and_merges_them(
    fake_world: Callable[..., Path], tmp_path: Path
) -> None:
    fake_world()
    seeded = ("--seed", "3")
    whole = run(tmp_path / "one", *seeded, "--json")
    for index in (1, 2, 3):
        part = run(tmp_path / "parts" / f"{index}", *seeded, "--shard", f"{index}/3")
        assert part.returncode == 0, part.stderr
        loads = 6 if index == 1 else 3
        assert part.stdout.startswith(f"shard {index}/3 of run: {loads} of {loads} loads done; when all")
    lacking = fastopen(
        "merge", tmp_path / "parts" / "1", tmp_path / "parts" / "3", "-o", tmp_path / "lacking"
    )
    assert lacking.returncode == 1
    assert "missing: no folder has shard 2 of 3" in lacking.stderr
    assert f"9 of 12 loads are in {tmp_path / 'lacking'}; the rest: fastopen resume" in lacking.stderr
    merged = fastopen("merge", tmp_path / "parts", "-o", tmp_path / "all", "--json")
    assert merged.returncode == 0, merged.stderr
    assert merged.stdout == whole.stdout
    again = run(tmp_path / "parts" / "1", *seeded, "--shard", "1/3")
    assert (again.returncode, "already finished" in again.stderr) == (0, True)
    for options, there in (
        (("--shard", "2/3"), "shard 1/3, not shard 2/3"),
        ((), "shard 1/3, not a whole run"),
    ):
        other = run(tmp_path / "parts" / "1", *seeded, *options)
        assert (other.returncode, f"contains {there}" in other.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--no-keep", "--seed", "1"), "cannot be combined with --no-keep"),
        (("--quick", "--seed", "1"), "cannot be combined with --quick"),
        (("--until-ci", "1%", "--seed", "1"), "cannot be combined with --until-ci"),
        (("--report", "--seed", "1"), "cannot be combined with --report"),
        ((), "each shard would draw its own seed; give all shards the same seed, such as --seed 1"),
    ],
)
def test_options_that_need_the_whole_run_do_not_go_with_shards(
    options: Sequence[str], said: str, tmp_path: Path
) -> None:
    done = run(tmp_path / "part", *options, "--shard", "1/2")
    assert done.returncode == 2
    assert f"--shard: {said}" in done.stderr


def recipe(heading: str) -> str:
    """Return the block of commands below a heading of docs/scale.md."""
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    found = re.search(rf"^### {heading}\n.*?```sh\n(.*?)```", text, re.M | re.S)
    assert found is not None
    return found[1]


@pytest.mark.slow
@pytest.mark.parametrize("heading", ["GNU parallel", "xargs"])
def test_the_recipes_for_one_machine_do_what_they_say(
    heading: str, fake_world: Callable[..., Path], tmp_path: Path
) -> None:
    program = heading.split()[-1]
    if not any((Path(folder) / program).exists() for folder in os.environ["PATH"].split(":")):
        pytest.skip(f"{program} is not installed")
    fake_world()
    command = tmp_path / "bin" / "fastopen"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{FASTOPEN[-1]}' \"$@\"\n")
    command.chmod(0o755)
    text = recipe(heading).replace("EXPERIMENT", "example --engine host --rtt 20ms -n 2 --seed 1")
    path = f"{command.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", text],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with RunStore.open(tmp_path / "whole") as whole:
        assert (whole.status, whole.loads_done()) == ("finished", 6)
