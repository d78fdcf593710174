"""`fastopen doctor` with the fake world program, and on this machine."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from command_line import fastopen
from fastopen.apps.diagnose.commands import doctor

FakeWorld = Callable[..., Path]


def test_doctor_names_what_is_missing_and_the_remedy(fake_world: FakeWorld) -> None:
    fake_world()
    done = fastopen("doctor")
    assert done.returncode == 3
    assert "missing  user namespaces" in done.stdout
    assert "to do: allow them" in done.stdout
    document = json.loads(fastopen("doctor", "--json").stdout)
    assert document["ok"] is False
    assert {"name": "veth", "ok": True, "detail": "not allowed", "remedy": ""} in document["checks"]


def test_doctor_says_at_which_ends_programs_of_this_machine_use_tfo(
    fake_world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_world()
    settings = {"net.ipv4.tcp_fastopen": "1", "net.ipv4.tcp_fastopen_blackhole_timeout_sec": "3600"}
    monkeypatch.setattr("fastopen.apps.diagnose.commands.doctor.sysctl", settings.get)
    checks = {one["name"]: one for one in json.loads(fastopen("doctor", "--json").stdout)["checks"]}
    here = checks["TFO on this machine"]
    assert here["ok"] is True
    assert here["detail"].startswith("clients on, servers off (net.ipv4.tcp_fastopen is 1")
    assert "sysctl -w net.ipv4.tcp_fastopen=3" in here["detail"]
    assert checks["TFO black hole"]["detail"].startswith("TFO is off for 3600 s")
    assert "no current browser uses TFO" in checks["browsers"]["detail"]


def test_doctor_without_the_program_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTOPEN_WORLD", "/nowhere")
    done = fastopen("doctor")
    assert done.returncode == 3
    assert "correct it or unset FASTOPEN_WORLD" in done.stdout


@pytest.mark.e2e
@pytest.mark.real_time
def test_doctor_finds_that_this_machine_can_do_it() -> None:
    done = fastopen("doctor")
    assert (done.returncode, done.stdout.startswith("This machine can run fastopen.")) == (0, True), (
        done.stdout
    )


def test_doctor_has_what_it_found_below_the_name_where_a_terminal_is_narrow() -> None:
    check = doctor.Check("user.max_user_namespaces", False, "none at all", "as root: sysctl -w " + "x" * 30)
    for width, first in ((60, "missing  user.max_user_namespaces"), (80, f"{check.name}  none at all")):
        narrow = Console(width=width, force_terminal=True, color_system=None, record=True, file=io.StringIO())
        doctor._print([check], narrow)
        lines = narrow.export_text().splitlines()
        assert any(line.endswith(first) for line in lines[:4])
        assert max(map(len, lines)) <= width


def test_doctor_says_how_to_get_a_kernel() -> None:
    checks = json.loads(fastopen("doctor", "--json").stdout)["checks"]
    details = [check["detail"] for check in checks if check["name"] == "virtual engine"]
    assert [detail for detail in details if "to do: run fastopen kernel build" in detail]
