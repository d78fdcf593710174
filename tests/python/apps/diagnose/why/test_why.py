"""`fastopen why`: diagnoses from counters after connections on each path, and on misconfigured machines."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from command_line import fastopen
from fastopen.apps.diagnose.behaviours import BEHAVIOURS
from fastopen.apps.diagnose.why.diagnosis import diagnose
from fastopen.apps.diagnose.why.machine import LocalListener, Machine, read_machine
from places import ROOT

SANDBOX = ["unshare", "--user", "--map-root-user", "--net", "--kill-child", "--fork"]
QUEUE = (LocalListener("0.0.0.0", 443, 256, process="nginx"),)


def machine(fastopen: int = 3, listeners: tuple[LocalListener, ...] = (), **settings: int) -> Machine:
    return Machine({"net.ipv4.tcp_fastopen": fastopen, **settings}, "set", {}, listeners, cookies=0)


def rows(grown: dict[str, int], seen: Machine | None = None) -> dict[str, set[str]]:
    found = diagnose(seen or machine(), {"ActiveOpens": 1, **grown})
    return {one.key: {row.name for row in one.rows} for one in found}


# Causes that look the same to the client: the SYN-ACK acknowledges only the SYN, not its data.
NOT_ACKED = {"no-queue", "strip-option", "strip-data", "strip-both", "break-cookie", "short-queue"}
NOT_TAKEN = NOT_ACKED - {"strip-option"}
ASKING_LOST = {"drop-option", "drop-synack-option", "drop-synack"}
NO_COOKIE = {"no-queue", "strip-option", "strip-both", "strip-synack-option"}
# For each path: the client's counters after one connection with a cookie (as in docs/paths.md), the key of
# the expected diagnosis, and the paths that the diagnosis names.
CLIENTS = {
    "none": ({"TCPFastOpenActive": 1}, "client-works", {"none"}),
    "drop-syn-data": (
        {"TCPFastOpenActiveFail": 1, "TCPSynRetrans": 1, "RetransSegs": 2, "TCPTimeouts": 1},
        "client-fails",
        {"drop-syn-data", "drop-option", "drop-synack"},
    ),
    "drop-option": (
        {"TCPFastOpenActiveFail": 1, "TCPSynRetrans": 1, "RetransSegs": 2, "TCPTimeouts": 1},
        "client-fails",
        {"drop-syn-data", "drop-option", "drop-synack"},
    ),
    "drop-synack": (
        {"TCPSynRetrans": 4, "RetransSegs": 4, "TCPTimeouts": 4},
        "asking-lost",
        ASKING_LOST,
    ),
    "drop-synack-option": (
        {"TCPSynRetrans": 1, "RetransSegs": 1, "TCPTimeouts": 1},
        "asking-lost",
        ASKING_LOST,
    ),
    "strip-option": ({"TCPFastOpenActiveFail": 1, "RetransSegs": 1}, "client-fails", NOT_ACKED),
    "strip-data": ({"TCPFastOpenActiveFail": 1, "RetransSegs": 1}, "client-fails", NOT_ACKED),
    "strip-both": ({"TCPFastOpenActiveFail": 1, "RetransSegs": 1}, "client-fails", NOT_ACKED),
    "rst-syn-data": ({"AttemptFails": 1}, "refused", {"rst-syn-data"}),
    "drop-answers": (
        {"TCPFastOpenActive": 1, "TCPFastOpenBlackhole": 1},
        "client-blackhole",
        {"drop-answers"},
    ),
}
SERVERS = {
    "short-queue": ({"TCPFastOpenPassive": 4, "TCPFastOpenListenOverflow": 6}, "overflow", {"short-queue"}),
    "break-cookie": ({"TCPFastOpenPassiveFail": 1}, "cookies-not-valid", {"break-cookie"}),
    "strip-synack-option": (
        {"TCPFastOpenCookieReqd": 9},
        "cookies-unused",
        {"strip-synack-option", "drop-synack-option", "drop-syn-data"},
    ),
}


@pytest.mark.parametrize("name", [*CLIENTS, *SERVERS])
def test_each_row_is_among_those_that_its_own_counters_leave(name: str) -> None:
    grown, key, expected = {**CLIENTS, **SERVERS}[name]
    assert rows(grown)[key] == expected
    assert name in expected


@pytest.mark.parametrize("row", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_what_breaks_tfo_comes_with_words_and_a_remedy(row: object) -> None:
    texts = [getattr(row, name) for name in ("does", "costs", "remedy")]
    assert all(texts) or row is BEHAVIOURS["none"]


def test_every_row_of_the_table_is_named_for_some_counters_or_setting() -> None:
    by_setting = {"cookie-less", "no-queue"}
    assert {*CLIENTS, *SERVERS, *by_setting} == set(BEHAVIOURS)


def test_connections_that_a_dropped_synack_ended_are_told_from_stripped_ones() -> None:
    expected = {"drop-syn-data", "drop-option", "drop-synack"}
    assert rows({"TCPFastOpenActiveFail": 1, "TCPSynRetrans": 10})["client-fails"] == expected


def test_servers_that_take_data_without_a_cookie_are_named() -> None:
    assert "server-cookie-less" in rows({}, machine(0x203))


def test_the_paths_of_the_table_are_those_that_the_world_has() -> None:
    document = (ROOT / "docs" / "paths.md").read_text(encoding="utf-8")
    own = {"cookie-less", "short-queue", "no-queue"}
    assert all(f"| `{name}` |" in document for name in BEHAVIOURS if name not in own)


def test_connections_without_any_sign_of_tfo_are_no_fault_but_say_what_they_may_be() -> None:
    found = diagnose(machine(), {"ActiveOpens": 7})
    (idle,) = (one for one in found if one.key == "client-idle")
    assert not idle.fault
    assert "the kernel stores no cookie" in idle.says
    assert "fastopen exec" in idle.todo


def test_data_without_a_cookie_is_named_where_the_setting_asks_for_it() -> None:
    assert "cookie-less" in rows({"TCPFastOpenActiveFail": 1}, machine(5))["client-fails"]
    assert "cookie-less" not in rows({"TCPFastOpenActiveFail": 1}, machine(1))["client-fails"]


def test_a_key_of_its_own_on_each_server_is_told_at_the_server_and_not_taken_for_a_client() -> None:
    found = rows({"TCPFastOpenActiveFail": 1, "TCPFastOpenPassiveFail": 1, "TCPFastOpenPassive": 1})
    assert "cookies-not-valid" in found
    assert not {"client-fails", "answers-lost"} & set(found)


def test_a_black_hole_names_the_setting_and_for_how_long() -> None:
    seen = Machine(
        {"net.ipv4.tcp_fastopen": 3, "net.ipv4.tcp_fastopen_blackhole_timeout_sec": 3600},
        "set",
        {"TCPFastOpenBlackhole": 2},
    )
    assert any(one.key == "blackhole" and "3600 s" in one.says for one in diagnose(seen, {}))


@pytest.mark.parametrize(("refused", "fault"), [(1, False), (15, False), (16, True), (32, True)])
def test_a_few_refused_connections_are_no_fault(refused: int, fault: bool) -> None:
    (found,) = diagnose(machine(), {"ActiveOpens": 32, "AttemptFails": refused})
    assert (found.key, found.fault) == ("refused", fault)


def test_listeners_with_a_queue_that_nobody_asks_are_no_fault() -> None:
    found = {one.key: one.fault for one in diagnose(machine(3, QUEUE), {})}
    assert found == {"server-idle": False}


def test_the_command_looks_at_this_namespace_and_fits_eighty_columns() -> None:
    done = fastopen("why", "--seconds", "0", columns=80)
    assert done.returncode in (0, 1), done.stderr
    assert "net.ipv4.tcp_fastopen = " in done.stdout
    document = json.loads(fastopen("why", "--seconds", "0", "--json").stdout)
    assert document["format"] == "fastopen-why/1"
    assert {"settings", "listeners", "counters", "findings", "unseen"} <= set(document)


def test_what_this_user_may_not_look_into_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastopen.apps.diagnose.why.machine.sysctl", lambda _: None)
    monkeypatch.setattr("fastopen.apps.diagnose.why.machine._duplicate", Mock(side_effect=PermissionError))
    monkeypatch.setattr("fastopen.apps.diagnose.why.machine._cookies", lambda: None)
    with socket.create_server(("127.0.0.1", 0)):
        seen = read_machine()
    assert all(listener.queue is None for listener in seen.listeners)
    key, queues, cookies = seen.unseen
    assert "needs root" in key
    assert "(needs root outside a container)" in queues
    assert "iproute2" in cookies
    assert isinstance(diagnose(seen, {}), Sequence)


@pytest.fixture(name="machines", scope="module")
def _machines() -> dict[str, dict[str, list[str]]]:
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("needs ip and unshare (packages iproute2 and util-linux)")
    if subprocess.run([*SANDBOX, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine forbids user namespaces")
    script = Path(__file__).parent / "wrong_machines.py"
    done = subprocess.run([*SANDBOX, sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("machine", "key", "row"),
    [
        ("works", "client-works", "none"),
        ("client_off", "client-off", None),
        ("server_off", "server-off", "no-queue"),
        ("nobody_asked", "no-queue", "no-queue"),
        ("nobody_asked", "asked-in-vain", "no-queue"),
        ("cookie_less_client", "client-cookie-less", "cookie-less"),
        ("changed_key", "cookies-not-valid", "break-cookie"),
        ("queue_of_one", "short-queue", "short-queue"),
        ("full_queue", "overflow", "short-queue"),
        ("mptcp", "no-queue", "no-queue"),
        ("one_of_two_listeners", "cookies-unused", "no-queue"),
    ],
)
def test_a_machine_made_wrong_is_named_for_what_it_is(
    machines: dict[str, dict[str, list[str]]], machine: str, key: str, row: str | None
) -> None:
    found = machines[machine]
    if "cannot" in found:
        pytest.skip(f"this kernel cannot be made wrong so: {found['cannot']}")
    assert key in found
    assert row is None or row in found[key]


@pytest.mark.e2e
def test_a_machine_on_which_it_works_has_no_fault(machines: dict[str, dict[str, list[str]]]) -> None:
    for machine in ("works", "mptcp_with_a_queue"):
        assert set(machines[machine]) <= {"client-works", "server-works", "cannot"}


def test_both_sides_that_are_off_have_one_remedy() -> None:
    found = {one.key: one for one in diagnose(machine(fastopen=0), {})}
    assert found["client-off"].todo == found["server-off"].todo
    assert found["client-off"].todo.endswith("=3")
    assert diagnose(machine(fastopen=0x400), {})[0].todo.endswith(f"={0x403}")


def test_a_server_that_is_off_is_turned_on_before_its_queue_is_suspected() -> None:
    asked = {"TCPFastOpenCookieReqd": 1}
    off, on = ({one.key: one.todo for one in diagnose(machine(value, QUEUE), asked)} for value in (1, 3))
    assert off["asked-in-vain"] == off["server-off"]
    assert "asked-in-vain" not in on


def test_multipath_listeners_have_no_fast_open_where_the_kernel_says_so() -> None:
    unable = machine(listeners=(LocalListener("0.0.0.0", 80, 0, mptcp=True, able=False),))
    able = machine(listeners=(LocalListener("0.0.0.0", 80, 16, mptcp=True),))
    assert "mptcp-listener" in {one.key for one in diagnose(unable, {})}
    assert not any(one.fault for one in diagnose(able, {}))


# For each path: the key of the diagnosis after two connections to a server behind it, the paths that the
# diagnosis names, and the paths that `probe` names for that server.
BEHIND = {
    "none": ("client-works", {"none"}, {"none"}),
    "drop-syn-data": (
        "client-fails",
        {"drop-syn-data", "drop-option", "drop-synack"},
        {"drop-syn-data"},
    ),
    "drop-option": ("asking-lost", ASKING_LOST, {"drop-option", "drop-synack-option"}),
    "drop-synack-option": ("asking-lost", ASKING_LOST, {"drop-option", "drop-synack-option"}),
    "strip-option": ("client-idle", NO_COOKIE, NO_COOKIE),
    "strip-data": ("client-fails", NOT_ACKED, NOT_TAKEN),
    "strip-both": ("client-idle", NO_COOKIE, NO_COOKIE),
    "strip-synack-option": ("client-idle", NO_COOKIE, NO_COOKIE),
    "break-cookie": ("client-fails", NOT_ACKED, NOT_TAKEN),
    "rst-syn-data": ("refused", {"rst-syn-data"}, {"rst-syn-data"}),
    "drop-synack": ("asking-lost", ASKING_LOST, {"drop-synack", "drop-answers"}),
    "drop-answers": ("answers-missing", {"drop-answers"}, {"drop-synack", "drop-answers"}),
}


@pytest.mark.e2e
@pytest.mark.slow
def test_behind_each_path_the_client_and_probe_name_it_or_the_set_that_one_end_cannot_tell_apart(
    machines: dict[str, dict[str, list[str]]],  # noqa: ARG001  # skips where there are no namespaces
) -> None:
    here = Path(__file__).parent
    world = here.parent / "probe" / "probe_world.py"
    # Start all at once, because they mostly wait.
    started = {
        path: subprocess.Popen(
            [*SANDBOX, sys.executable, str(world), path, "2", sys.executable, str(here / "behind_a_path.py")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for path in BEHIND
    }
    by_setting_or_listener = {"cookie-less", "short-queue", "no-queue"}
    assert {*BEHIND} == {*BEHAVIOURS} - by_setting_or_listener
    for path, process in started.items():
        out, _ = process.communicate()
        key, rows_of_why, rows_of_probe = BEHIND[path]
        seen, probed = json.loads(out)
        found = {one["key"]: one["rows"] for one in seen["findings"]}
        assert set(found.get(key, ())) == rows_of_why, (path, found)
        assert path in found[key]
        assert set(probed["hosts"][0]["consistent_with"]) == rows_of_probe, path
