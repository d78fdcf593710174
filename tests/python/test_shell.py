"""`fastopen shell`: a command inside a world meets the page's hosts as if nothing stood between."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]
# Asks for a page of example.com and says how many bytes came.
FETCH = (
    "import urllib.request as u; print(len(u.urlopen('http://www.example.com/hero.jpg', timeout=60).read()))"
)

pytestmark = pytest.mark.e2e


def shell(
    options: Sequence[str], command: Sequence[str], **settings: Any
) -> "subprocess.CompletedProcess[str]":
    asked = [*FASTOPEN, "shell", "--rtt", "20ms", *options, "--", *command]
    return subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False, **settings)


def test_a_command_gets_the_pages_resources_and_its_output_is_untouched() -> None:
    done = shell(["--quiet"], [sys.executable, "-c", FETCH])
    assert (done.returncode, done.stderr) == (0, "")
    sizes = {
        r["url"]: r["body_bytes"]
        for r in json.loads(Path("pages/example.page.json").read_text())["resources"]
    }
    assert int(done.stdout) == sizes["http://www.example.com/hero.jpg"]


@pytest.mark.parametrize(("options", "carried"), [([], 0), (["--tfo"], 1)])
def test_what_the_kernel_did_is_said_at_the_end(options: list[str], carried: int) -> None:
    twice = f"{FETCH}; {FETCH}"
    done = shell([*options, "--json"], [sys.executable, "-c", twice])
    document = json.loads(done.stderr.splitlines()[-1])
    assert document["format"] == "fastopen-shell/1"
    assert (document["total"]["connections"], document["total"]["syn_data_acked"]) == (2, carried)


def test_exit_codes_signals_and_missing_commands_are_the_commands_own() -> None:
    assert shell(["-q"], ["sh", "-c", "exit 7"]).returncode == 7
    assert shell(["-q"], ["sh", "-c", "kill -TERM $$"]).returncode == -15
    missing = shell([], ["no-such-command"])
    assert (missing.returncode, missing.stderr) == (127, "error: no-such-command: no such command\n")


def test_packets_leave_at_the_times_of_a_trace(tmp_path: Path) -> None:
    # 43 packets of 64 kB, one every 10 ms.
    (tmp_path / "slow").write_text("10\n")
    timed = f"import time; begun = time.monotonic(); {FETCH}; print(time.monotonic() - begun)"
    done = shell(["-q", "--down-trace", str(tmp_path / "slow")], [sys.executable, "-c", timed])
    received, seconds = done.stdout.split()
    assert int(received) == 64000
    assert float(seconds) > 0.43


def test_standard_input_and_the_working_directory_are_those_of_outside(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    done = shell(["-q"], ["sh", "-c", "ls; cat; echo new > made"], input="said", cwd=tmp_path)
    assert done.stdout == "there\nsaid"
    assert (tmp_path / "made").read_text() == "new\n"


def test_nothing_of_a_command_is_left_when_it_has_ended() -> None:
    mark = f"{os.getpid()}.25"
    done = shell(["-q"], ["sh", "-c", f"setsid sleep {3000 + os.getpid()} > /dev/null 2>&1 & echo {mark}"])
    assert done.stdout == f"{mark}\n"
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in running if f"sleep\0{3000 + os.getpid()}".encode() in line]


def test_ctrl_c_reaches_the_command_alone() -> None:
    trap = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done"
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [*FASTOPEN, "shell", "-q", "--", "sh", "-c", trap])
    said = b""
    while b"ready" not in said:
        said += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    while b"caught" not in said:
        said += os.read(terminal, 1000)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 5


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (["--rtt", "1ms,2ms"], "--rtt"),
        (["--page", "none-such"], "none-such"),
        (["--down-trace", "none-such"], "none-such"),
    ],
)
def test_a_world_that_cannot_be_is_refused_with_its_place(options: list[str], place: str) -> None:
    done = shell(options, ["true"])
    assert done.returncode == 2
    assert place in done.stderr
