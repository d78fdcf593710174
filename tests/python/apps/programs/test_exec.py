"""`fastopen exec`: the report, and a command's signals, stops, terminal and exit code, all unchanged."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fastopen.apps.programs.front.words import MULTIPATH, notes, verdict, write_report
from places import ROOT

PROGRAM = os.environ.get("FASTOPEN_WORLD", str(ROOT / "target" / "release" / "fastopen-world"))
EXEC = [sys.executable, "-c", "from fastopen.cli import main; main()", "exec"]
ENVIRONMENT = {**os.environ, "FASTOPEN_WORLD": PROGRAM}
# Code that precedes the test's code in a new namespace: loopback, and a server on 127.0.0.1:8000.
PRELUDE = f"""
import json, os, socket, subprocess, sys, threading
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
open("/proc/sys/net/ipv4/tcp_fastopen", "w").write("3")
EXEC = {EXEC!r}
heard = []
def serve():
    while True:
        accepted, _ = listener.accept()
        with accepted:
            heard.append(accepted.recv(4096))
            accepted.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok")
listener = socket.create_server(("127.0.0.1", 8000))
listener.setsockopt(socket.IPPROTO_TCP, 23, 100)
threading.Thread(target=serve, daemon=True).start()
"""


def document(**changes: Any) -> dict[str, Any]:
    """Return a report of 12 connections to two servers, with these changes."""
    nothing = dict.fromkeys(
        [
            "connections", "established", "failed", "unused", "elsewhere", "unknown", "cookie_requested",
            "syn_data_sent", "syn_data_acked", "data_not_acked", "syn_retransmitted",
        ],
        0,
    )  # fmt: skip
    good = {
        "connections": 8,
        "established": 8,
        "cookie_requested": 1,
        "syn_data_sent": 7,
        "syn_data_acked": 6,
    }
    without = {"connections": 4, "established": 3, "failed": 1, "cookie_requested": 3}
    return {
        "total": {
            **nothing,
            **{key: good.get(key, 0) + without.get(key, 0) for key in nothing},
            "data_not_acked": 1,
        },
        "peers": [
            {"peer": "192.0.2.1:443", **nothing, **good, "data_not_acked": 1},
            {"peer": "[2001:db8::1]:80", **nothing, **without},
        ],
        "listeners": 0,
        "begun_without_data": 1,
        "not_helped": {},
        "overrun": False,
        "tcp_fastopen": 1,
        "counters": {"TCPFastOpenActive": 7},
        "goes_on": False,
        **changes,
    }


def test_the_report_reads_as_a_verdict_a_table_and_what_is_odd() -> None:
    written = io.StringIO()
    write_report(document(), Console(file=written, width=100, highlight=False))
    # Normalise white space, and leave out the lines and columns of the table.
    lines = [
        " ".join(line.split())
        for line in written.getvalue().splitlines()
        if "\N{BOX DRAWINGS LIGHT HORIZONTAL}" not in line
    ]
    expected = """\
        TCP Fast Open: 7 of 12 connections carried data in the SYN, 6 acknowledged; 4 requested a cookie.
        server connections cookie asked SYN data acknowledged failed
        192.0.2.1:443 8 1 7 6 0
        [2001:db8::1]:80 4 3 0 0 1
        - sent no cookie after several requests: [2001:db8::1]:80
        - 1 connection: the server acknowledged the SYN without its data (cookie rejected)
        - 1 connection: never established (refused, timed out, no route)
        - 1 handshake started without data, since the client did not write within 20 ms
        - counters of the network namespace, for all programs: TCPFastOpenActive +7"""
    assert lines == textwrap.dedent(expected).splitlines()


def test_a_command_without_connections_is_said_to_have_none() -> None:
    total = dict.fromkeys(document()["total"], 0)
    none = document(total=total, counters={})
    assert verdict(none) == "TCP Fast Open: the command opened no TCP connection."
    # The kernel counted data in SYNs, but no call of connect: the command used io_uring.
    counted = document(total=total, counters={"TCPFastOpenActive": 2, "TCPFastOpenActiveFail": 1})
    assert verdict(counted).startswith("TCP Fast Open: not known")
    assert any(note.startswith("3 connections with data in the SYN not counted") for note in notes(counted))


def test_connections_of_multipath_tcp_are_not_taken_for_none() -> None:
    total = dict.fromkeys(document()["total"], 0)
    assert "2 connections of Multipath TCP" in verdict(document(total=total, not_helped={MULTIPATH: 2}))
    assert f'"{MULTIPATH}"' in (ROOT / "crates/intercept/src/supervisor.rs").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tcp_fastopen": 2}, "net.ipv4.tcp_fastopen is 2, off for clients; as root: sysctl -w"),
        ({"listeners": 2}, "off for servers: 2 listeners sent no cookies; as root: sysctl -w"),
        ({"not_helped": {"the system protects the process": 3}}, "3 calls went on without TFO: the system"),
        ({"overrun": True}, "more sockets ended at once"),
        ({"counters": {"TCPFastOpenBlackhole": 1}}, "turned TCP Fast Open off 1 time, since it suspected"),
        ({"goes_on": True}, "processes of the command still run"),
    ],
)
def test_what_limits_the_report_is_said_with_its_remedy(changes: dict[str, Any], said: str) -> None:
    assert any(said in note for note in notes(document(**changes)))
    assert not any(said in note for note in notes(document(tcp_fastopen=3)))


@pytest.mark.e2e
def test_a_report_that_cannot_be_written_is_said_before_the_command_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [*EXEC, "-o", "/nowhere/report", "touch", str(tmp_path / "ran")],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "/nowhere" in done.stderr
    assert not (tmp_path / "ran").exists()


def inside(code: str) -> str:
    """Run PRELUDE and then `code` as Python in a new network namespace. Return the output."""
    unshare = ["unshare", "--user", "--map-root-user", "--net"]
    done = subprocess.run(
        [*unshare, sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.e2e
def test_a_program_that_knows_nothing_of_it_sends_data_in_its_syn() -> None:
    said = inside("""
        fetch = "print(u.urlopen('http://127.0.0.1:8000').read())"
        client = f"import urllib.request as u\\nfor _ in '123': {fetch}"
        command = [*EXEC, "--json", "--", sys.executable, "-c", client]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stdout == "b'ok'\\n" * 3, done.stderr
        print(done.stderr.splitlines()[-1])
    """)
    report = json.loads(said)
    assert (report["format"], report["exit_code"], report["signal"]) == ("fastopen-exec/1", 0, None)
    total = report["total"]
    assert (total["connections"], total["cookie_requested"], total["syn_data_acked"]) == (3, 1, 2)
    # The namespace is new, so its counters include only this test.
    assert report["counters"] == {
        "TCPFastOpenActive": 2,
        "TCPFastOpenCookieReqd": 1,
        "TCPFastOpenPassive": 2,
    }


@pytest.mark.e2e
def test_a_tls_client_never_takes_a_waiting_connection_for_none_and_sends_in_the_clear() -> None:
    said = inside("""
        client = '''
        import ssl, urllib.request
        for _ in range(2):
            try:
                urllib.request.urlopen("https://127.0.0.1:8000", context=ssl._create_unverified_context())
            except OSError:
                pass
        '''
        import textwrap
        subprocess.run([*EXEC, "-q", sys.executable, "-c", textwrap.dedent(client)])
        print([first[:1] for first in heard])
    """)
    handshake_record = b"\x16"
    assert said.strip() == str([handshake_record] * 2)


@pytest.mark.e2e
def test_output_input_descriptors_and_exit_code_are_the_commands(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    done = subprocess.run(
        [
            *EXEC,
            "-q",
            "-o",
            str(tmp_path / "report"),
            "--",
            "sh",
            "-c",
            f"cat; echo more >/dev/fd/{writing}; exit 9",
        ],
        env=ENVIRONMENT,
        input=b"in",
        capture_output=True,
        close_fds=False,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stdout, done.stderr) == (9, b"in", b"")
    with os.fdopen(reading) as more:
        assert more.read() == "more\n"
    assert json.loads((tmp_path / "report").read_text())["exit_code"] == 9


@pytest.mark.e2e
def test_a_command_that_is_not_there_ends_with_127() -> None:
    done = subprocess.run(
        [*EXEC, "/nowhere/at/all"], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (127, "error: /nowhere/at/all: no such command\n")


@pytest.mark.e2e
def test_a_signal_that_ends_the_command_ends_us_alike_and_one_sent_to_us_reaches_it() -> None:
    killed = subprocess.run([*EXEC, "-q", "sh", "-c", "kill -KILL $$"], env=ENVIRONMENT, check=False)
    assert killed.returncode == -signal.SIGKILL
    command = ["sh", "-c", "echo ready; exec sleep 1000"]
    with subprocess.Popen([*EXEC, "-q", *command], env=ENVIRONMENT, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == -signal.SIGTERM


@pytest.mark.e2e
def test_a_supervisor_that_is_killed_is_told_of_once_the_command_has_ended() -> None:
    command = [*EXEC, "sh", "-c", "echo $PPID; read line"]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, **pipes) as running:
        assert running.stdout is not None
        supervisor = int(running.stdout.readline())
        # When its standard input is /dev/null, the supervisor has told its id to the command's process.
        while os.readlink(f"/proc/{supervisor}/fd/0") != "/dev/null":
            time.sleep(0.001)
        os.kill(supervisor, signal.SIGKILL)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.2)
        _, stderr = running.communicate("the end\n", timeout=30)
        assert running.returncode == 1
        assert "the supervisor was killed" in stderr


class Terminal:
    """A command in a new session with its own terminal."""

    def __init__(self, *command: str) -> None:
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, ENVIRONMENT)
        self.seen = b""

    def wait_for(self, text: bytes) -> None:
        while text not in self.seen:
            self.seen += os.read(self.end, 4096)

    def press(self, key: bytes) -> None:
        os.write(self.end, key)


@pytest.mark.e2e
def test_an_interrupt_from_the_keyboard_reaches_the_command_once() -> None:
    script = """
        import signal, time
        count = []
        signal.signal(signal.SIGINT, lambda *_: count.append(1))
        print("ready", flush=True)
        while not count: time.sleep(0.01)
        time.sleep(0.5)
        print("interrupts:", len(count))
    """
    terminal = Terminal(*EXEC, "-q", sys.executable, "-c", textwrap.dedent(script))
    terminal.wait_for(b"ready")
    terminal.press(b"\x03")
    terminal.wait_for(b"interrupts: 1\r\n")
    assert os.waitpid(terminal.pid, 0)[1] == 0


@pytest.mark.e2e
def test_a_command_stopped_from_the_keyboard_gives_the_shell_its_terminal_back_and_goes_on_with_fg() -> None:
    command = "echo ready; read line; echo got $line; exit 7"
    script = """set -m; "$@"; echo status $?; fg >/dev/null; echo then $?"""
    terminal = Terminal("bash", "-c", script, "bash", *EXEC, "-q", "sh", "-c", command)
    terminal.wait_for(b"ready")
    terminal.press(b"\x1a")
    terminal.wait_for(f"status {128 + signal.SIGSTOP}".encode())
    terminal.press(b"it\n")
    terminal.wait_for(b"got it")
    terminal.wait_for(b"then 7")
    assert os.waitpid(terminal.pid, 0)[1] == 0


@pytest.mark.e2e
def test_what_the_command_leaves_running_does_not_keep_us() -> None:
    begun = time.monotonic()
    command = ["sh", "-c", "sleep 20 >/dev/null 2>&1 & echo $!"]
    done = subprocess.run(
        [*EXEC, "-q", *command], env=ENVIRONMENT, stdout=subprocess.PIPE, check=True, timeout=60
    )
    assert time.monotonic() - begun < 20
    os.kill(int(done.stdout), signal.SIGTERM)
