"""`fastopen shell`: a command in a world can reach the page's hosts as on a real network."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fastopen.cli.discovery import Commands
from fastopen.experiments import ASKED

FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]
# Requests a picture of example.com and prints the number of received bytes.
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


def test_servers_and_packets_of_a_world_in_real_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("served")
    fetch = "import urllib.request as u; print(u.urlopen('http://web/file', timeout=60).read().decode())"
    packets = tmp_path / "packets.pcapng"
    options = [
        "--tfo",
        "--json",
        "--pcap",
        str(packets),
        "--serve",
        f"web={sys.executable} -m http.server 80",
    ]
    done = shell(options, [sys.executable, "-c", f"{fetch}; {fetch}"], cwd=tmp_path)
    assert done.stdout == "served\nserved\n"
    document = json.loads(done.stderr.splitlines()[-1])
    assert [one["syn_data_acked"] for one in document["connections"]] == [False, True]
    assert document["packets_dropped"] == 0
    # Two requests, each captured at both ends, and the names of the hosts.
    assert packets.read_bytes().count(b"GET /file") == 4
    assert b"web" in packets.read_bytes()


def test_exit_codes_signals_and_missing_commands_are_the_commands_own() -> None:
    assert shell(["-q"], ["sh", "-c", "exit 7"]).returncode == 7
    assert shell(["-q"], ["sh", "-c", "kill -TERM $$"]).returncode == -15
    missing = shell([], ["no-such-command"])
    assert (missing.returncode, missing.stderr) == (127, "error: no-such-command: no such command\n")


def test_a_host_has_addresses_of_both_versions_of_ip() -> None:
    done = shell(["-q", "--ip", "4+6"], ["getent", "ahosts", "www.example.com"])
    versions = {":" in line.split()[0] for line in done.stdout.splitlines()}
    assert (done.returncode, versions) == (0, {False, True})


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
@pytest.mark.parametrize("name", ["exec", "shell"])
def test_a_closed_standard_stream_is_an_empty_one(name: str, closed: str) -> None:
    asked = [*FASTOPEN, name, "-q", "--", "sh", "-c", "cat; echo said; echo said >&2; exit 7"]
    outer = ["sh", "-c", f'exec "$@" {closed}', "sh", *asked]
    done = subprocess.run(outer, input="", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 7, done.stderr
    assert {done.stdout, done.stderr} <= {"said\n", ""}


def test_a_server_that_fails_during_the_command_is_reported_in_real_time() -> None:
    server = f"timeout 2 {sys.executable} -m http.server 80; exit 5"
    wait = "while curl -s -o /dev/null http://web/; do sleep 0.1; done; sleep 1"
    done = shell(["--serve", f'web=sh -c "{server}"', "--json"], ["sh", "-c", wait])
    (failed,) = json.loads(done.stderr.splitlines()[-1])["servers_failed"]
    assert failed.startswith("server web: ended with exit code 5")


def test_packets_leave_at_the_times_of_a_trace(tmp_path: Path) -> None:
    # The picture of 64 kB takes 43 packets, one every 10 ms.
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
        (["--up", "1mbit,2mbit"], "--up"),
        (["--page", "none-such"], "none-such"),
        (["--down-trace", "none-such"], "none-such"),
        (["--names", "dot"], "--names: programs use the system's resolver, which sends lookups in cleartext"),
    ],
)
def test_a_world_that_cannot_be_is_refused_with_its_place(options: list[str], place: str) -> None:
    done = shell(options, ["true"])
    assert done.returncode == 2
    assert place in done.stderr


def processes() -> dict[int, tuple[int, str]]:
    """Map the id of each running process to its parent's id and its command line."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            line = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if state != "Z":
            found[int(folder.name)] = (int(parent), line)
    return found


def namespaces(pids: Iterable[int]) -> set[str]:
    """Return the network, mount, PID and user namespaces of all threads of these processes."""
    found = set()
    for pid in pids:
        # Threads may end at any step.
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError):
                    found |= {
                        str((thread / "ns" / kind).readlink()) for kind in ("net", "mnt", "pid", "user")
                    }
    return found


def family(pid: int) -> set[int]:
    """Return a process and all its descendants."""
    running = processes()
    found = {pid}
    while grown := {child for child, (parent, _) in running.items() if parent in found} - found:
        found |= grown
    return found


@pytest.mark.parametrize("generation", [0, 1, 2])
def test_nothing_of_a_shell_is_left_when_any_of_its_processes_is_killed(
    generation: int, tmp_path: Path
) -> None:
    """Kill the Python process, the program that builds the world, or the first process in the world."""
    inside = "setsid sleep 3000 & echo $$ ready; sleep 3000"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    asked = [*FASTOPEN, "shell", "--quiet", "--tfo", "--", "sh", "-c", inside]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True, env=environment) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline().endswith("ready\n")
        all_of_it = family(shell.pid)
        chain = [shell.pid]
        while len(chain) <= generation:
            chain.append(min(pid for pid, (parent, _) in processes().items() if parent == chain[-1]))
        own = namespaces(all_of_it) - namespaces([os.getpid()])
        assert len(own) >= 4
        os.kill(chain[generation], signal.SIGKILL)
        wait_until(lambda: not all_of_it & processes().keys())
    wait_until(lambda: not own & namespaces(processes()))
    assert not list(tmp_path.iterdir())


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true. Fails after 60 s."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.skipif(os.getuid() != 0, reason="root maps all users; others have what /etc/subuid gives them")
def test_as_root_programs_change_their_user_as_daemons_do(tmp_path: Path) -> None:
    become = "import os; os.chown('kept', 33, 33); os.setgroups([]); os.setgid(33); os.setuid(33)"
    (tmp_path / "kept").write_text("")
    done = shell(["-q"], [sys.executable, "-c", f"{become}; print(os.getuid(), os.getgid())"], cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "33 33\n", "")
    assert (tmp_path / "kept").stat().st_uid == 33


def test_an_isolated_command_meets_the_page_without_your_files_and_without_root(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("")
    script = f"id -u; ls {tmp_path}; touch /usr/x; mount -o remount,rw /usr; touch /dev/shm/x && echo wrote"
    done = shell(["-q", "--isolate"], ["/bin/sh", "-c", script], cwd=tmp_path)
    assert done.stdout == "1000\nwrote\n"
    fetch = "curl -sf http://www.example.com/hero.jpg | wc -c"
    fetched = shell(["-q", "--isolate"], ["/bin/sh", "-c", fetch])
    assert (fetched.returncode, fetched.stdout.strip()) == (0, "64000")


def test_neither_an_isolated_command_nor_its_servers_can_write_settings_of_the_machine() -> None:
    look = "for name in kernel/core_pattern vm/drop_caches; do test -w /proc/sys/$name && echo $name; done"
    serving = f"({look}; echo end) > /dev/shm/found; cd /dev/shm; exec python3 -m http.server 8000"
    script = f"{look}; curl -sf http://web:8000/found"
    done = shell(["-q", "--isolate", "--serve", f"web=sh -c '{serving}'"], ["/bin/sh", "-c", script])
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_every_factor_of_network_and_tcp_is_an_option() -> None:
    found: Any = Commands().commands["shell"]
    wanted = {factor.flag for factor in ASKED if factor.part in ("network", "tcp")}
    assert wanted <= {flag for one in found.params for flag in one.opts}
