"""Server benchmarks: their settings, their results, and the command in virtual time."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from command_line import fastopen
from fastopen.apps.serve_bench.bench import Bench, cells_of, jobs_of, packaged_benches, read_bench
from fastopen.apps.serve_bench.results import (
    BenchResult,
    _records,
    core_us,
    figure,
    percentile,
    segments,
    threads_us,
)
from fastopen.common.errors import InputError
from fastopen.contract import Job, Origins, TransactionsRecord, parse_record
from fastopen.engines import Event, JobEnded, Reported
from fastopen.engines.worlds import WorldEngine
from places import GOLDEN


def record(**changes: Any) -> TransactionsRecord:
    data = json.loads((GOLDEN / "transactions.json").read_text())
    parsed = parse_record(json.dumps(data | {"valid": True, "invalid": []} | changes))
    assert isinstance(parsed, TransactionsRecord)
    return parsed


def asked(**changes: Any) -> Bench:
    return read_bench(None, {"rates": "100", **changes})


def test_lists_of_options_are_tried_each_with_each() -> None:
    cells = cells_of(asked(rates="100,200", tfo_queue="4,64", flood="none,valid:500"))
    assert len(cells) == 3 * 2 * 2 * 2
    assert [cell.arm for cell in cells[:3]] == ["off", "cold", "warm"]


def test_a_change_of_key_is_for_the_arm_that_has_cookies() -> None:
    cells = cells_of(asked(new_key="none,replace,add"))
    assert [(cell.arm, cell.new_key) for cell in cells] == [
        ("off", "none"),
        ("cold", "none"),
        ("warm", "none"),
        ("warm", "replace"),
        ("warm", "add"),
    ]


def test_rounds_have_all_cells_in_an_order_of_their_own() -> None:
    bench = asked(rates="100,200", seed=3)
    cells = cells_of(bench)
    names = [job.id for job in jobs_of(bench, cells, 4, Origins())]
    rounds = [names[start : start + len(cells)] for start in range(0, len(names), len(cells))]
    assert all(sorted(one) == [f"{cell}#{at}" for cell in range(6)] for at, one in enumerate(rounds))
    assert len({tuple(name.partition("#")[0] for name in one) for one in rounds}) > 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rates": None}, "needs rates or clients"),
        ({"arms": "warm,hot"}, "arms"),
        ({"flood": "valid"}, "none, plain:RATE, invalid:RATE or valid:RATE"),
        ({"flood": "valid:20001"}, "--flood: 20001"),
        ({"syncookies": "3"}, "syncookies"),
        ({"rates": "10000", "duration": "10s"}, "100,000 cold transactions need as many client addresses"),
        ({"size": "a lot"}, "'a lot'"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        asked(**changes)


def test_options_come_before_the_keys_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('rates = [100]\nduration = "2s"\nsize = "1kB"\n')
    bench = read_bench(str(file), {"size": "7kB", "clients": "5"})
    assert (bench.rates, bench.clients, bench.duration, bench.size) == ((), (5,), 2_000_000, 7000)
    file.write_text("speed = 1\n")
    with pytest.raises(InputError, match=r"mine\.toml: speed: unknown key"):
        read_bench(str(file), {"rates": "1"})
    with pytest.raises(InputError, match="use radhakrishnan2011-server, server-load"):
        read_bench("sever-load", {})


@pytest.mark.parametrize("name", sorted(packaged_benches()))
def test_a_packaged_benchmark_can_be_read(name: str) -> None:
    assert read_bench(name, {}).title


def test_a_bench_names_its_engine_and_an_option_comes_before_it() -> None:
    name = "radhakrishnan2011-server"
    assert [read_bench(name, {"engine": one}).engine for one in (None, "virtual")] == ["host", "virtual"]
    assert asked().engine == "auto"


def test_percentiles_are_values_that_occurred() -> None:
    histogram = {10: 50, 20: 49, 900: 1}
    assert [percentile(histogram, percent) for percent in (50, 90, 99, 100)] == [10, 20, 20, 900]
    assert percentile({}, 50) is None


def test_a_cores_time_counts_where_the_server_had_it_alone() -> None:
    quiet = {
        "number": 1, "steered": True, "elapsed_us": 10_000_000, "idle_us": 7_000_000, "user_us": 1_500_000,
        "nice_us": 0, "system_us": 500_000, "interrupts_us": 1_000_000, "stolen_us": 0,
        "server_threads_us": 2_000_000,
    }  # fmt: skip
    alone = record(answered=1000, core=quiet)
    assert (core_us(alone), threads_us(alone)) == (3000, 2000)
    for disturbed in ({"nice_us": 300_000}, {"user_us": 2_000_000}, {"steered": False}):
        shared = record(answered=1000, core=quiet | disturbed)
        assert (core_us(shared), threads_us(shared)) == (None, 2000)
    assert core_us(record(core=None)) is threads_us(record(core=None)) is None


def test_segments_are_told_where_no_floods_are_among_them() -> None:
    counters = {"client": {}, "origins": {"InSegs": 700, "OutSegs": 690, "RetransSegs": 10}}
    assert segments(record(answered=100, flood_syns=0, counters=counters)) == 14
    assert segments(record(answered=100, flood_syns=5, counters=counters)) is None


def test_a_figure_has_its_interval_and_how_many_values_it_is_of() -> None:
    found = figure([3.0, 1.0, 2.0, 5.0, 4.0, 6.0])
    assert found is not None
    assert (found.median, found.n) == (3.5, 6)
    assert found.interval is not None
    assert 1 <= found.interval[0] <= 3.5 <= found.interval[1] <= 6
    assert figure([]) is None


def test_arms_are_compared_with_the_one_without_tfo_in_the_same_round() -> None:
    bench = asked(arms="off,warm", repeats=3)
    cells = tuple(cells_of(bench))
    core = record().core
    assert core is not None

    def took(us: int) -> TransactionsRecord:
        return record(answered=1000, core=core.model_dump() | {"server_threads_us": us})

    records = {
        0: {0: took(100_000), 1: took(200_000), 2: took(400_000)},
        1: {0: took(110_000), 1: took(220_000), 2: record(valid=False)},
    }
    off, warm = BenchResult(bench, "host", cells, records, None).rows
    assert off.threads_change is None
    assert warm.threads_change is not None
    assert warm.threads_change.median == pytest.approx(10)
    assert (warm.threads_change.n, warm.repeats, len(warm.records)) == (2, 3, 2)


def test_reasons_of_one_kind_are_counted_together() -> None:
    bench = asked(arms="off", repeats=2)
    cells = tuple(cells_of(bench))
    late = [{"kind": "generator_late", "detail": f"{count} arrivals were late"} for count in (7, 9)]
    records = {0: {number: record(valid=False, invalid=[reason]) for number, reason in enumerate(late)}}
    (row,) = BenchResult(bench, "host", cells, records, None).rows
    assert row.reasons == {"generator_late": (2, "7 arrivals were late")}
    assert row.as_json()["invalid"] == {"generator_late": 2}


def test_results_come_when_their_jobs_end_and_jobs_that_the_machine_disturbed_run_again_after_all() -> None:
    begun: list[str] = []
    late = [{"kind": "generator_late", "detail": "7 arrivals were late"}]

    class Engine:
        def run_together(self, batches: Iterable[Sequence[Job]], _: object) -> Iterator[Event]:
            for (job,) in batches:
                begun.append(job.id)
                disturbed = job.id == "1#0" and begun.count(job.id) < 3
                found = {"invalid": late, "valid": False} if disturbed else {}
                yield Reported(record(job=job.id, **found), "")
                yield JobEnded(job.id, None)

    bench = asked(arms="off,warm", repeats=2)
    jobs = sorted(jobs_of(bench, cells_of(bench), 2, Origins()), key=lambda job: job.id)
    found = _records(cast("WorldEngine", Engine()), jobs, [])
    assert (next(found).job, begun) == ("0#0", ["0#0"])
    assert [one.job for one in found] == ["0#1", "1#1", "1#0"]
    assert begun == ["0#0", "0#1", "1#0", "1#1", "1#0", "1#0"]


@pytest.mark.usefixtures("kernel")
def test_the_table_of_a_benchmark_in_virtual_time_is_the_same_each_time() -> None:
    line = (
        "serve-bench --rates 70 --duration 1s --rtt 100ms --engine virtual --tfo-queue 2 --new-key none,add"
    )
    first = fastopen(*line.split(), "--quiet")
    assert first.returncode == 0, first.stderr
    assert fastopen(*line.split(), "--quiet").stdout == first.stdout
    snapshot = Path(__file__).parent / "snapshots" / "table.txt"
    text = re.sub(r"Linux [^;\s]+", "Linux VERSION", first.stdout)
    assert text == snapshot.read_text()


@pytest.mark.usefixtures("kernel")
def test_json_has_the_figures_of_each_row() -> None:
    line = "serve-bench --clients 10 --arms warm --duration 1us --hosts 2 --rtt 100ms --tfo-queue 4"
    done = fastopen(*line.split(), "--engine", "virtual", "--json")
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["answered"], row["syn_data"], row["fallbacks"]) == (10, 4, 6)
    assert row["latency_us"] == {"50": 200_000, "90": 200_000, "99": 200_000, "99.9": 200_000, "100": 200_000}
    assert row["server_counters"]["TCPFastOpenListenOverflow"] == 6
    assert (row["cpu_threads_us"], row["late"]) == (None, 0)


def test_a_server_that_is_none_is_refused_in_words() -> None:
    for words, said in (("''", "is empty"), ("'a", "is not a command line")):
        done = fastopen("serve-bench", "--rates", "1", "--server", words)
        assert done.returncode == 2
        assert said in done.stderr
    assert "needs --server" in fastopen("serve-bench", "--rates", "1", "--server-listen").stderr
