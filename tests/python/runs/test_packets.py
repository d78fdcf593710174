"""Packets of loads: kept with the run or, in virtual time, captured later by repeating the load."""

import json
import os
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import fastopen
from fastopen.common.errors import InputError
from fastopen.contract import LoadRecord
from fastopen.engines import Reported
from fastopen.engines.base import PacketFile
from fastopen.engines.world_process import WorldProcess
from fastopen.experiments import Plan
from fastopen.runs import RunStore, remove_run
from fastopen.runs.rows import kept_packets
from fastopen.workflows.export_packets import export_packets
from made_up_run import made_up_page, made_up_plan, made_up_run
from places import GOLDEN


def test_the_pieces_of_a_loads_packets_come_with_its_record(
    small_plan: Callable[..., Plan], fake_world: Callable[..., Path]
) -> None:
    job = small_plan(repeats=1).jobs[0].job
    load = job.loads[0]
    world = WorldProcess([fake_world()], [job], 1, (), now=1000.0)
    try:
        piece = {"type": "packets", "job": job.id, "id": load.id, "dropped": 2}
        for part in (b"one ", b"two"):
            line = json.dumps({**piece, "pcapng": b64encode(part).decode()}).encode() + b"\n"
            assert world.receive(world.stdout, line, now=1000.0) == []
        record = json.loads((GOLDEN / "load.json").read_text())
        record |= {"job": job.id, **load.model_dump()}
        (event,) = world.receive(world.stdout, json.dumps(record).encode() + b"\n", now=1000.0)
        assert isinstance(event, Reported)
        assert event.packets == PacketFile(b"one two", 2)
        no_base64 = json.dumps({**piece, "pcapng": "!"}).encode() + b"\n"
        assert world.receive(world.stdout, no_base64, now=1000.0) == []
        assert world.violation == f"wrote packets of {load.id!r} that are not base64"
    finally:
        world.close()


def test_a_run_has_a_file_for_each_load_with_packets_and_is_removed_with_them(
    tmp_path: Path, small_plan: Callable[..., Plan]
) -> None:
    planned = small_plan(repeats=1).jobs[0]
    raw = json.loads((GOLDEN / "load.json").read_text())
    with RunStore.create(tmp_path / "run", small_plan(repeats=1), {}) as store:
        for load, packets in zip(planned.job.loads, (PacketFile(b"abc", 0), None), strict=False):
            text = json.dumps({**raw, "job": planned.job.id, **load.model_dump()})
            store.add_load(planned, LoadRecord.model_validate_json(text), text, packets)
        first, second = store.loads()
        kept = kept_packets(tmp_path / "run", first.number, first.job, first.load)
        assert kept is not None
        assert kept.read_bytes() == b"abc"
        assert kept.name.startswith("000001-")
        assert kept_packets(tmp_path / "run", second.number, second.job, second.load) is None
        # A sparse file can have any size, and would fill the disk when copied.
        os.truncate(kept, 2**40)
        assert kept_packets(tmp_path / "run", first.number, first.job, first.load) is None
    remove_run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_packets_of_the_host_engine_that_were_not_kept_are_gone(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", made_up_plan([made_up_page("news")], rtts_ms=(20,), repeats=1))
    with pytest.raises(InputError, match=r"has no packets: they were not kept.*fastopen run --pcap"):
        export_packets(run, tmp_path / "pcap")
    assert not (tmp_path / "pcap").exists()


def test_packets_without_a_folder_to_keep_them_in_are_refused() -> None:
    refused = fastopen("run", "example", "--pcap", "--no-keep", "-q")
    assert refused.returncode == 2
    assert "--pcap: needs a kept run" in refused.stderr


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
def test_in_virtual_time_packets_that_were_not_kept_are_those_that_were(tmp_path: Path) -> None:
    arguments = ["run", "example", "--rtt", "20ms", "--transports", "tls,tls+tfo", "-q"]
    for place, more in (("kept", ["--pcap"]), ("plain", [])):
        assert fastopen(*arguments, *more, "-o", tmp_path / place).returncode == 0
    found = export_packets(tmp_path / "plain", tmp_path / "again")
    assert (found.copied, found.repeated, found.missing) == (0, 3, {})
    copied = export_packets(tmp_path / "kept", tmp_path / "copied")
    assert (copied.copied, copied.repeated) == (3, 0)

    def contents(folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    assert contents(tmp_path / "again") == contents(tmp_path / "copied")
