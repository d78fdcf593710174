"""Names of transports and the arms and settings that they select; TLS in critical paths, figures and HARs."""

import json
from pathlib import Path
from typing import Any

import pytest

from fastopen.analysis.attribution import Kind, critical_path
from fastopen.common.errors import InputError
from fastopen.contract import LoadRecord, Tls
from fastopen.experiments import COMMAND_LINE, make_plan, read_settings
from fastopen.experiments.arms import arms_and_tls
from fastopen.experiments.document import read_experiment
from fastopen.runs.export.har import _timings
from made_up_run import made_up_page, made_up_plan
from places import GOLDEN

RTT_NS = 100_000_000
SMALL = Tls(key_share="x25519")


@pytest.mark.parametrize(
    ("words", "tls", "arms", "over"),
    [
        (["off", "warm"], [None], ["off", "warm"], [None]),
        (["off", "warm"], [None, SMALL], ["off", "warm"], [None, SMALL]),
        (["tls", "tls+tfo"], [None], ["off", "cold", "warm"], [Tls()]),
        (["tls", "tls+tfo"], [SMALL], ["off", "cold", "warm"], [SMALL]),
        (["tcp", "tfo", "tls", "tls+tfo"], [None, SMALL], ["off", "cold", "warm"], [None, SMALL]),
        (["tcp", "tfo"], [SMALL], ["off", "cold", "warm"], [None]),
    ],
)
def test_words_of_transports_say_whether_there_is_tls(words: Any, tls: Any, arms: Any, over: Any) -> None:
    assert arms_and_tls(words, tls) == (arms, over)


def test_a_list_of_versions_may_hold_none() -> None:
    written = {"tls": ["none", "1.2", "1.3"], "key_share": "x25519"}
    over = [setup.tls for setup in read_settings(written, COMMAND_LINE).arms_and_setups()[1]]
    assert [one and one.version for one in over] == [None, "1.2", "1.3"]
    assert {one.key_share for one in over if one is not None} == {"x25519"}


def experiment_file(folder: Path, text: str) -> Path:
    path = folder / "my.toml"
    path.write_text(
        'format = "fastopen-experiment/1"\nname = "my"\npages = ["example"]\nseed = 1\n'
        f'{text}\n[network]\nrtt = "20ms"\n'
    )
    return path


def test_a_file_compares_ways_of_tls_as_it_compares_other_settings(tmp_path: Path) -> None:
    asked = read_experiment(experiment_file(tmp_path, '[tls]\nversion = ["none", "1.3"]\nchain_bytes = 2000'))
    assert [setup.tls for setup in asked.setups] == [None, Tls(chain_bytes=2000)]
    page = made_up_page("p")
    loads = [(load.id, load.transport) for job in make_plan(asked, [page]).jobs for load in job.job.loads]
    assert {*loads} == {
        *(("tcp", "tcp"), ("tfo-cold", "tfo"), ("tfo-warm", "tfo")),
        *(("tls", "tls"), ("tls+tfo-cold", "tls+tfo"), ("tls+tfo-warm", "tls+tfo")),
    }


def test_a_wrong_version_in_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tls"):
        read_experiment(experiment_file(tmp_path, '[tls]\nversion = "1.1"'))


def over_tls() -> tuple[LoadRecord, dict[str, Any]]:
    """Return a load whose request was sent after handshakes of TCP and TLS, which took a round trip each."""
    data = json.loads((GOLDEN / "load.json").read_text())
    session = data["connections"][1]["tls"] | {"secured_ns": 2 * RTT_NS}
    connection = data["connections"][0] | {
        "opened_ns": 0,
        "connected_ns": RTT_NS,
        "handshake_us": RTT_NS // 1000,
        "tls": session,
    }
    times = {"queued_ns": 0, "connect_start_ns": 0, "connected_ns": RTT_NS, "sent_ns": 2 * RTT_NS}
    request = data["requests"][0] | times | {"first_byte_ns": 3 * RTT_NS, "end_ns": 3 * RTT_NS + 5}
    data.update(connections=[connection], requests=[request], plt_ns=3 * RTT_NS + 5, valid=True, invalid=[])
    return LoadRecord.model_validate_json(json.dumps(data)), data


def test_the_critical_path_tells_the_handshake_of_tls_from_that_of_tcp() -> None:
    page = made_up_page("p", requests=1)
    record, _ = over_tls()
    client = made_up_plan([page]).experiment.setups[0].client
    path = critical_path(page, record, client)
    assert path is not None
    assert [segment.kind for segment in path.segments] == [
        *(Kind.HANDSHAKE, Kind.TLS, Kind.WAIT, Kind.TRANSFER)
    ]
    assert (path.total_ns(Kind.HANDSHAKE), path.total_ns(Kind.TLS)) == (RTT_NS, RTT_NS)


def test_a_hars_ssl_is_a_part_of_its_connect() -> None:
    _, data = over_tls()
    timings = _timings(data["requests"][0], data["connections"][0]["tls"], None)
    assert (timings["connect"], timings["ssl"], timings["send"]) == (200.0, 100.0, 0.0)
    assert _timings(data["requests"][0], None, None)["ssl"] == -1.0


def test_a_hars_dns_is_how_long_a_request_waited_for_the_lookup() -> None:
    _, data = over_tls()
    request = {**data["requests"][0], "queued_ns": 0}
    opened = request["connect_start_ns"] = 60_000_000
    request["connected_ns"] = request["sent_ns"] = 70_000_000
    for asked, answered, dns, blocked in ((10, 60, 50.0, 10.0), (-5, 40, 40.0, 20.0), (-9, 0, -1.0, 60.0)):
        timings = _timings(request, None, (asked * 1_000_000, answered * 1_000_000))
        assert (timings["dns"], timings["blocked"], timings["connect"]) == (dns, blocked, 10.0)
    assert _timings(request, None, (0, opened + 1))["dns"] == -1.0
