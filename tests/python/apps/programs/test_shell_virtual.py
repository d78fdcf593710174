"""`fastopen shell --engine virtual`: arbitrary programs run in virtual time."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]
EXAMPLE = Path("examples/virtual-time").absolute()
FETCH = "import urllib.request as u; print(u.urlopen('http://web/file', timeout=60).read().decode())"
SERVER = f"{sys.executable} -m http.server 80"

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kernel")]


def shell(
    options: Sequence[str], command: Sequence[str], stdin: str = "", cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    asked = [*FASTOPEN, "shell", "--engine", "virtual", "--rtt", "100ms", *options, "--", *command]
    return subprocess.run(
        asked, input=stdin, capture_output=True, text=True, timeout=600, cwd=cwd, check=False
    )


def test_a_minute_of_waiting_takes_no_minute_and_the_same_bytes_come_twice() -> None:
    script = "date +%s.%N; sleep 60; date +%s.%N; od -An -N8 -tx1 /dev/urandom; echo $$; exit 7"
    begun = time.monotonic()
    first, second = (shell(["-q"], ["sh", "-c", script]) for _ in range(2))
    assert (first.returncode, first.stderr) == (7, "")
    assert first.stdout == second.stdout
    before, after = (float(line) for line in first.stdout.splitlines()[:2])
    assert before == pytest.approx(1_767_225_600, abs=0.1)  # 2026-01-01
    assert after - before == pytest.approx(60, abs=0.01)
    assert time.monotonic() - begun < 120
    other = shell(["-q", "--seed", "1", "--date", "2030-02-03T04:05:06"], ["sh", "-c", script])
    assert other.stdout.splitlines()[2] != first.stdout.splitlines()[2]
    assert float(other.stdout.splitlines()[0]) == pytest.approx(1_896_321_906, abs=0.1)


def test_a_program_that_spins_on_the_clock_goes_on() -> None:
    spin = "import time; begun = time.monotonic()\nwhile time.monotonic() - begun < 0.01: pass\nprint('over')"
    assert shell(["-q"], [sys.executable, "-c", spin]).stdout == "over\n"


def test_servers_at_the_other_end_are_met_over_the_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("served")
    twice = f"{FETCH}; {FETCH}"
    servers = ["--serve", f"web={SERVER}", "--serve", f"other={sys.executable} -m http.server 81"]
    done = shell([*servers, "--tfo", "--json"], [sys.executable, "-c", twice], cwd=tmp_path)
    assert done.stdout == "served\nserved\n"
    report = json.loads(done.stderr.splitlines()[-1])
    assert (report["total"]["connections"], report["total"]["syn_data_acked"]) == (2, 1)
    first, second = report["connections"]
    # The first connection takes a round trip for the handshake and one for the request. The second has the
    # request in its SYN, so it takes one.
    assert first["tcp_info"]["min_rtt_us"] == pytest.approx(100_000, abs=1000)
    assert (first["syn_data_acked"], second["syn_data_acked"]) == (False, True)
    assert report["elapsed_us"] == pytest.approx(300_000, abs=5000)


def test_a_server_that_fails_is_named_with_its_last_words() -> None:
    done = shell(["--serve", "web=sh -c 'echo no disk >&2; exit 3'"], ["true"])
    assert done.returncode == 2
    assert "server web: ended with exit code 3: no disk" in done.stderr


def test_hosts_of_a_page_and_servers_exist_together() -> None:
    server = f"db={sys.executable} -m http.server 7000"
    codes = "for at in db:7000 www.example.com; do curl -s -o /dev/null -w '%{http_code} ' http://$at/; done"
    done = shell(["-q", "--page", "example", "--serve", server], ["sh", "-c", codes])
    assert done.stdout == "200 200 "


def test_a_server_that_listens_nowhere_is_refused() -> None:
    done = shell(["--serve", "web=sleep 1000"], ["true"])
    assert done.returncode == 2
    assert "server web: listens on no port" in done.stderr


def test_servers_have_tfo_unless_their_listeners_are_to_ask_for_it(tmp_path: Path) -> None:
    twice = f"{FETCH}; {FETCH}"
    (tmp_path / "file").write_text("served")
    asked = ["--serve", f"web={SERVER}", "--tfo", "--listener-fastopen", "0x2", "--json"]
    done = shell(asked, [sys.executable, "-c", twice], cwd=tmp_path)
    assert json.loads(done.stderr.splitlines()[-1])["total"]["syn_data_sent"] == 0


def test_standard_input_comes_to_its_end_and_streams_stay_apart() -> None:
    done = shell(["-q"], ["sh", "-c", "cat; echo err >&2; kill -TERM $$"], stdin="said")
    assert (done.stdout, done.stderr, done.returncode) == ("said", "err\n", -signal.SIGTERM)


def test_files_vanish_except_those_of_the_given_folder(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("seen")
    script = "cat there; echo gone > made; mkdir out/deep; echo kept > out/deep/file; chmod +x out/deep/file"
    done = shell(["-q", "--out", "out"], ["sh", "-c", script], cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("seen", "")
    assert not (tmp_path / "made").exists()
    kept = tmp_path / "out" / "deep" / "file"
    assert (kept.read_text(), os.access(kept, os.X_OK)) == ("kept\n", True)
    # Files of an earlier command are not taken for those of the next one.
    again = shell(["-q", "--out", "out"], ["echo", "ran"], cwd=tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert "--out: out is not empty" in again.stderr


def test_links_come_back_and_pipes_do_not(tmp_path: Path) -> None:
    script = "echo a > out/a; ln -s a out/link; mkfifo out/pipe"
    assert shell(["-q", "--out", "out"], ["sh", "-c", script], cwd=tmp_path).stderr == ""
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"a", "link"}
    assert (tmp_path / "out" / "link").readlink() == Path("a")


def test_an_isolated_command_sees_no_files_of_yours(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    done = shell(["-q", "--isolate"], ["sh", "-c", f"id -u; cat {tmp_path}/secret"], cwd=tmp_path)
    assert done.stdout == "1000\n"
    assert "No such file" in done.stderr


def test_packets_are_those_of_the_link(tmp_path: Path) -> None:
    packets = tmp_path / "packets.pcapng"
    fetch = "import urllib.request as u; print(len(u.urlopen('http://www.example.com/hero.jpg').read()))"
    done = shell(["--json", "--pcap", str(packets)], [sys.executable, "-c", fetch])
    assert json.loads(done.stderr.splitlines()[-1])["packets_dropped"] == 0
    kept = packets.read_bytes()
    assert kept[:4] == b"\x0a\x0d\x0d\x0a"
    # Each packet is captured at both ends.
    assert len(kept) > 2 * int(done.stdout)


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (["no-such-command"], 127, "no such command"),
        (["sleep", "infinity"], 124, "a day of virtual time"),
        (["sh", "-c", "yes | head -c 300000000"], 3, "more than 256 MiB"),
        (["dd", "if=/dev/zero", "of=/tmp/big", "bs=1M"], 1, "1073741824 bytes"),
    ],
)
def test_commands_that_misbehave_end_with_the_reason(command: list[str], code: int, says: str) -> None:
    done = shell([], command)
    assert done.returncode == code
    assert says in done.stderr


def test_at_the_timeout_files_packets_and_report_are_kept(tmp_path: Path) -> None:
    options = ["-q", "--out", "out", "--pcap", "packets", "--report", "report"]
    script = "curl -s http://www.example.com/ -o out/page; sleep 100000"
    done = shell(options, ["sh", "-c", script], cwd=tmp_path)
    assert done.returncode == 124
    report = json.loads((tmp_path / "report").read_text())
    assert (report["exit_code"], report["signal"], report["total"]["connections"]) == (124, None, 1)
    assert "a day of virtual time" in report["error"]
    assert (tmp_path / "out" / "page").stat().st_size > 1000
    assert b"GET / HTTP" in (tmp_path / "packets").read_bytes()


def test_a_command_that_cannot_start_leaves_earlier_packets_and_no_report(tmp_path: Path) -> None:
    (tmp_path / "packets").write_text("earlier")
    (tmp_path / "report").write_text("earlier")
    failing = ["--serve", "web=false", "--report", "report"]
    assert shell([*failing, "--pcap", "packets"], ["true"], cwd=tmp_path).returncode == 2
    assert shell([*failing, "--pcap", "new"], ["true"], cwd=tmp_path).returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["packets"]
    assert (tmp_path / "packets").read_text() == "earlier"


def test_output_that_cannot_be_written_is_an_error() -> None:
    asked = [*FASTOPEN, "shell", "-q", "--engine", "virtual", "--", "echo", "lost"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(asked, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                              timeout=600, check=False)  # fmt: skip
    assert done.returncode == 3
    assert b"standard output: No space left on device" in done.stderr


def test_a_command_whose_output_nobody_reads_gets_sigpipe() -> None:
    asked = [*FASTOPEN, "shell", "-q", "--engine", "virtual", "--", "yes"]
    with subprocess.Popen(asked, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"y\n"
        running.stdout.close()
        assert running.wait(60) == -signal.SIGPIPE


def test_both_outputs_to_one_file_keep_their_order() -> None:
    script = "for i in $(seq 200); do echo out $i; echo err $i >&2; done"
    asked = [*FASTOPEN, "shell", "-q", "--engine", "virtual", "--", "sh", "-c", script]
    done = subprocess.run(asked, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600, check=False)  # fmt: skip
    assert done.stdout.splitlines() == [f"{name} {i}" for i in range(1, 201) for name in ("out", "err")]


def test_a_server_that_fails_during_the_command_is_reported() -> None:
    server = f"timeout 3 {sys.executable} -m http.server 80; echo broken >&2; exit 5"
    done = shell(["--serve", f'web=sh -c "{server}"', "--json"], ["sleep", "10"])
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["exit_code"] == 0
    (failed,) = report["servers_failed"]
    assert failed.startswith("server web: ended with exit code 5: ")
    assert failed.endswith(" | broken")


def test_the_folder_with_a_random_name_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert shell(["-q"], ["ls", str(tmp_path)]).stdout == ""


def test_the_folder_for_files_of_the_host_is_not_seen() -> None:
    assert shell(["-q"], ["ls", "/dev/shm"]).stdout == ""
    done = shell(["-q"], ["grep", "hostfs", "/proc/self/mountinfo"])
    assert [line.split()[4] for line in done.stdout.splitlines()] in ([], ["/"])


@pytest.mark.parametrize("limit", ["abc", "0"])
def test_a_time_limit_that_is_no_number_is_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTOPEN_KERNEL_TIMEOUT_S", limit)
    done = shell([], ["true"])
    assert done.returncode == 2
    assert "FASTOPEN_KERNEL_TIMEOUT_S" in done.stderr


def test_nothing_outside_is_reached() -> None:
    outside = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"
    done = shell([], [sys.executable, "-c", outside])
    assert "OSError" in done.stderr
    assert not Path("/fastopen-test").exists()
    # Not even a file system of the host that root mounts in the world can be written.
    shell(["-q"], ["sh", "-c", "mount -t hostfs -o / none /mnt; touch /mnt/fastopen-test"])
    assert not Path("/fastopen-test").exists()


def test_a_signal_ends_the_kernel(tmp_path: Path) -> None:
    asked = [
        *FASTOPEN,
        "shell",
        "-q",
        "--engine",
        "virtual",
        "--",
        "sh",
        "-c",
        "echo on; while :; do :; done",
    ]
    running = subprocess.Popen(asked, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               env={**os.environ, "TMPDIR": str(tmp_path)})  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline() == b"on\n"
    running.terminate()
    assert running.wait(60) == -signal.SIGTERM
    running.stdout.close()
    end = time.monotonic() + 60
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "command", "place"),
    [
        (["--engine", "virtual"], [], "--engine virtual"),
        (["--engine", "host", "--out", "x"], ["true"], "--out"),
        (["--engine", "host", "--date", "2030-01-01"], ["true"], "--date"),
        (["--engine", "virtual", "--serve", "*.x=true"], ["true"], "*.x"),
        (["--engine", "host", "--serve", "web=no-such-program"], ["true"], "no-such-program"),
        (["--engine", "virtual", "--serve", "web='"], ["true"], "--serve"),
        (["--engine", "virtual", "--serve", "web="], ["true"], "--serve"),
        (["--engine", "virtual", "--serve", "localhost=true"], ["true"], "localhost"),
        (["--engine", "host", "--serve", "127.0.0.1=true"], ["true"], "127.0.0.1"),
        (["--engine", "virtual", "--kernel", "none-such"], ["true"], "none-such"),
    ],
)
def test_wrong_options_are_refused_by_name(options: list[str], command: list[str], place: str) -> None:
    done = subprocess.run([*FASTOPEN, "shell", *options, "--", *command],
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode in (2, 3)
    assert place in done.stderr


@pytest.mark.parametrize(
    ("server", "client"),
    [
        ("nginx -c {folder}/nginx.conf", "curl -s http://web/file"),
        ("{python} -m http.server 80 --directory {folder}", "wget2 -q -O - http://web/file"),
        ("iperf3 -s", "iperf3 -c web -t 2 --json"),
        ("redis-server --bind 0.0.0.0 --protected-mode no --save ''", "redis-benchmark -h web -n 20 -t set"),
        ("rsync --daemon --no-detach --config={folder}/rsyncd.conf", "rsync rsync://web/files/file /tmp/got"),
        ("node {folder}/server.js", "node {folder}/client.js"),
    ],
)
def test_programs_of_others_give_the_same_bytes_twice(server: str, client: str, tmp_path: Path) -> None:
    for line in (server, client):
        program = line.split()[0].replace("{python}", sys.executable)
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    (tmp_path / "file").write_text("served")
    (tmp_path / "nginx.conf").write_text(
        "daemon off; pid /tmp/nginx.pid; error_log stderr; events {} "
        f"http {{ access_log off; server {{ listen 80; root {tmp_path}; }} }}"
    )
    (tmp_path / "rsyncd.conf").write_text(f"use chroot = no\nuid = 0\ngid = 0\n[files]\npath = {tmp_path}\n")
    (tmp_path / "server.js").write_text("require('http').createServer((_, r) => r.end('ok')).listen(80)")
    (tmp_path / "client.js").write_text(
        "require('http').get('http://web', a => console.log(a.statusCode, Date.now(), Math.random()))"
    )
    line = server.format(folder=tmp_path, python=sys.executable)
    first, second = (
        shell(["-q", "--serve", f"web={line}"], ["sh", "-c", client.format(folder=tmp_path)])
        for _ in range(2)
    )
    assert first.returncode == 0, first.stderr
    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)


def _with_fastopen(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose PATH contains the command `fastopen`."""
    script = tmp_path / "fastopen"
    script.write_text(f"#!{sys.executable}\nfrom fastopen.cli import main\nmain()\n")
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_the_example_for_pytest_passes(tmp_path: Path) -> None:
    asked = [
        sys.executable,
        "-m",
        "pytest",
        "-rA",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(EXAMPLE),
        str(EXAMPLE),
    ]
    env = _with_fastopen(tmp_path)
    done = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED ") == 3


def test_the_example_for_cargo_passes(tmp_path: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    asked = ["cargo", "test", "--quiet", "--offline", "--target-dir", str(tmp_path / "target")]
    done = subprocess.run(asked, cwd=EXAMPLE / "rust", env=_with_fastopen(tmp_path),
                          capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("tc", path="/usr/sbin:/sbin") is None, reason="needs tc of iproute2")
def test_a_delay_on_each_of_two_links_doubles_the_rtt_and_arp_comes_first() -> None:
    done = shell(["-q"], ["sh", str(Path("examples/two-links.sh").absolute()), "50ms"])
    assert done.stdout == "400 ms\n200 ms\n"


def test_each_object_of_pythons_server_saves_a_whole_rtt(tmp_path: Path) -> None:
    text = Path("examples/python-objects.py").read_text()
    printed = re.search(r"prints ([\d.]+) and ([\d.]+) ms", text)
    assert printed is not None
    loop = text.split("\n\n")[1]
    for rate in ("5mbit", "10mbit", "15mbit"):
        done = subprocess.run(["sh", "-c", loop.replace("10mbit", rate)], env=_with_fastopen(tmp_path),
                              capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
        off, tfo = (float(line.removesuffix(" ms")) for line in done.stdout.splitlines())
        assert off - tfo == pytest.approx(20, abs=0.5)
        assert rate != "10mbit" or (off, tfo) == tuple(map(float, printed.groups()))
