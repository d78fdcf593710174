"""The command line with the fake world program: output, errors, exit codes, signals."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import FASTOPEN, fastopen, fastopen_alone
from fastopen.cli import discovery, output, reading
from made_up_run import made_up_page, made_up_plan, made_up_run

FakeWorld = Callable[..., Path]


def test_every_command_has_a_panel_and_a_help() -> None:
    every: dict[str, Any] = {**discovery.Commands().commands}
    assert len(every) > 20
    assert {one.rich_help_panel for one in every.values()} == {*discovery.COMMAND_PANELS}
    assert [name for name, one in every.items() if one.name != name or not one.help] == []


def test_a_command_reads_no_other_commands_modules() -> None:
    asked = "from fastopen.cli.discovery import Commands; import sys; Commands().commands['ls']"
    printed = f"{asked}; print(*(name for name in sys.modules if name.startswith('fastopen.')))"
    read = subprocess.check_output([sys.executable, "-c", printed], text=True).split()
    modules = {module for found in discovery.modules().values() for module in found}
    assert modules & {*read} == {"fastopen.cli.commands.ls"}


def test_run_prints_tables_on_stdout_and_progress_on_stderr(fake_world: FakeWorld) -> None:
    fake_world()
    done = fastopen("run", "example", "--rtt", "20ms,100ms", "--repeats", "6", "--seed", "1")
    assert done.returncode == 0
    engine, kept, report = done.stderr.splitlines()
    assert (
        engine == "engine host, because no kernel for the virtual engine is installed (fastopen kernel build)"
    )
    assert kept.startswith("kept in ")
    assert report.startswith("where the time went: fastopen report ")
    assert "example  214 Mbit/s down, 24 Mbit/s up (as broadband)" in done.stdout
    assert done.stdout.startswith("TFO is worth turning on for this page (cleartext, HTTP/1.1): on a repeat")
    assert "\x1b" not in done.stdout


def test_a_report_of_a_run_that_cannot_be_kept_is_missed(fake_world: FakeWorld, tmp_path: Path) -> None:
    fake_world()
    (tmp_path / "file").write_text("x")
    nowhere = {**os.environ, "FASTOPEN_RUNS": str(tmp_path / "file" / "runs")}
    done = fastopen("run", "example", "--rtt", "20ms", "-n", "1", "-q", "--report", env=nowhere)
    kept, report = done.stderr.splitlines()
    assert kept.startswith(f"not kept: {tmp_path}")
    assert (done.returncode, report) == (0, "no report, since the run is not kept")


@pytest.mark.parametrize("columns", [80, 100])
def test_a_table_of_many_axes_loses_no_figure(fake_world: FakeWorld, columns: int) -> None:
    fake_world()
    sweep = ["--keep-alive", "on,off", "--connections-per-host", "2,6", "--initial-window", "4,10"]
    sweep += ["--congestion-control", "cubic,reno", "--processing-scale", "0.5,1"]
    done = fastopen("run", "example", "--rtt", "20ms", "--repeats", "1", *sweep, "--no-keep", columns=columns)
    table = done.stdout.partition("\n\n")[2].partition("PLT: median")[0]
    assert "\N{HORIZONTAL ELLIPSIS}" not in table
    assert ("keep-alive off" if columns == 80 else " alive ") in table
    # The RTT is given once, and the congestion control in each of the 32 rows.
    assert table.startswith("example  RTT 20 ms; 214 Mbit/s down, 24 Mbit/s up (as broadband)\n")
    assert re.findall(r"\b(?:cubic|reno)\b", table) == ["cubic", "reno"] * 16


@pytest.mark.parametrize(("said", "width"), [("80", 80), ("7", 40), ("", 100), ("wide", 100)])
def test_what_is_piped_is_as_wide_as_columns_says(
    said: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", said)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert output.console().width == width


def test_run_prints_one_json_document(fake_world: FakeWorld) -> None:
    fake_world()
    done = fastopen("run", "example", "--rtt", "20ms", "--repeats", "1", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert [cell["cookies"] for cell in document["cells"]] == [None, "cold", "warm"]


def test_time_and_machine_are_in_the_kept_run_and_not_in_the_printed_document(fake_world: FakeWorld) -> None:
    fake_world()
    command = ("run", "example", "--rtt", "20ms", "--repeats", "3", "--seed", "1", "--json")
    first, second = fastopen(*command), fastopen(*command, "--jobs", "1")
    assert first.stdout == second.stdout
    shown = json.loads(fastopen("show", "last", "--json").stdout)
    run = shown.pop("run")
    assert shown == json.loads(first.stdout)
    assert run["environment"]["started"]
    assert Path(run["folder"]).is_dir()


def test_every_option_reaches_the_run(fake_world: FakeWorld, tmp_path: Path) -> None:
    fake_world()
    (tmp_path / "up.trace").write_text("1\n2\n10\n")
    options = {
        "--rtt": "50ms",
        "--down": "10mbit",
        "--up-trace": tmp_path / "up.trace",
        "--queue": "64KiB",
        "--loss": "1%",
        "--extra-rtt": "static.example.com=30ms",
        "--profile": "mget",
        "--keep-alive": "on",
        "--connections-per-host": 3,
        "--processing-scale": 0.5,
        "--initial-window": 4,
        "--congestion-control": "reno",
        "--transports": "off,warm",
        "--repeats": 1,
        "--seed": 5,
        "--jobs": 1,
    }
    done = fastopen("run", "example", *(part for pair in options.items() for part in pair), "--json")
    document = json.loads(done.stdout)
    client = {"profile": "mget", "connections_per_host": 3, "keep_alive": True, "processing_scale": 0.5}
    assert client.items() <= document["client"].items()
    assert {"congestion_control": "reno", "initial_window_segments": 4}.items() <= document["tcp"].items()
    network: dict[str, object] = {
        "rtt_ms": 50,
        "down_bit_per_s": 10**7,
        "up_bit_per_s": None,
        "up_trace": True,
    }
    network |= {
        "down_queue_bytes": 65_536,
        "up_queue_bytes": 65_536,
        "loss": 0.01,
        "extra_rtt_ms": {"static.example.com": 30},
    }
    for cell in document["cells"]:
        assert network.items() <= cell.items()
    assert [cell["cookies"] for cell in document["cells"]] == [None, "warm"]
    assert document["seed"] == 5
    run = json.loads(fastopen("show", "--json").stdout)["run"]
    assert run["environment"]["worlds_at_once"] == 1


def test_an_experiment_that_another_client_cannot_do_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(
        'format = "fastopen-experiment/1"\nname = "one"\npages = ["example"]\nseed = 1\n'
        '[network]\nrtt = ["20ms"]\n[origins]\nhttp = "2"\n'
    )
    for client, message in (
        ("wget2", "runs wget2 with HTTP/1.1, not with HTTP/2"),
        ("lynx", "unknown value 'lynx'"),
    ):
        done = fastopen("reproduce", tmp_path / "one.toml", "--client", client)
        assert done.returncode == 2
        assert "--client" in done.stderr
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_what_input_says_is_printed_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "list.pages").write_text("a:x:b [red]c\n")
    assert "'a:x:b [red]c'" in fastopen("page", "show", tmp_path / "list.pages").stderr


def test_nothing_is_written_where_the_input_is_bad(fake_world: FakeWorld, tmp_path: Path) -> None:
    fake_world()
    assert fastopen("run", "example", "--rtt", "20", "-o", tmp_path / "kept").returncode == 2
    assert not (tmp_path / "kept").exists()


def test_a_kept_run_prints_the_same_again(fake_world: FakeWorld, tmp_path: Path) -> None:
    fake_world()
    kept = tmp_path / "kept"
    done = fastopen("run", "example", "--rtt", "20ms", "--repeats", "3", "-o", kept)
    assert fastopen("show", kept).stdout == done.stdout
    assert f"kept in {kept}" in done.stderr
    assert json.loads(fastopen("show", kept, "--json").stdout)["status"] == "finished"
    assert fastopen("show", kept, "--svg", tmp_path / "table.svg").returncode == 0
    picture = (tmp_path / "table.svg").read_text()
    assert "worth" in picture
    assert "url(http" not in picture
    both = fastopen("show", kept, "--svg", tmp_path / "bars.svg", "--json")
    assert json.loads(both.stdout)["status"] == "finished"
    assert (tmp_path / "bars.svg").read_text() == picture
    assert fastopen("show", kept, "--svg", tmp_path / "bars.svg", "--plot").stdout == ""
    assert len((tmp_path / "bars.svg").read_text()) > len(picture)
    assert fastopen("show", kept, "--json", "--plot").returncode == 2
    again = fastopen("run", "example", "--rtt", "20ms", "--repeats", "3", "-o", kept)
    assert (again.returncode, again.stdout) == (0, done.stdout)


def test_the_last_run_is_named_where_it_is_shown(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    env = {"PATH": os.environ["PATH"], "FASTOPEN_RUNS": str(runs)}
    none = fastopen("show", env=env)
    assert (none.returncode, none.stdout) == (2, "")
    assert none.stderr == f"error: {runs}: no run is kept yet; fastopen run INPUT... keeps one\n"
    kept = made_up_run(runs / "one", made_up_plan([made_up_page("small")]))
    assert fastopen("show", env=env).stderr == f"last run: {kept}\n"
    assert fastopen("show", "one", env=env).stderr == ""


def test_a_run_with_faults_prints_its_table_and_exits_with_1(fake_world: FakeWorld) -> None:
    fake_world({"example@20ms#0": "dies"})
    done = fastopen("run", "example", "--rtt", "20ms", "--repeats", "4")
    assert done.returncode == 1
    assert "\nInvalid: " in done.stdout
    assert "fault in example@20ms#0: the world program ended with exit code 70" in done.stderr


def test_a_machine_that_cannot_do_it_says_so_and_exits_with_3(fake_world: FakeWorld) -> None:
    fake_world({"*": "machine"})
    done = fastopen("run", "example", "--rtt", "20ms")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith("\nerror: a fault of machine; mend it\n")
    assert "no runs in" in fastopen("ls").stdout


def test_a_missing_world_program_says_so_and_exits_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTOPEN_WORLD", "/nowhere")
    done = fastopen("run", "example")
    assert (done.returncode, "FASTOPEN_WORLD=/nowhere does not exist" in done.stderr) == (3, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_prints_what_is_finished_and_leaves_nothing_running(
    fake_world: FakeWorld, tmp_path: Path, number: signal.Signals
) -> None:
    fake_world({"example@20ms#1": "hangs"})
    os.mkfifo(tmp_path / "state" / "hanging")
    command = [
        *FASTOPEN,
        "run",
        "example",
        "--rtt",
        "20ms",
        "--repeats",
        "2",
        "--jobs",
        "1",
        "-o",
        str(tmp_path / "kept"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        # `hanging` is a pipe: reading waits until the world opens it and writes its process id.
        hanging = int((tmp_path / "state" / "hanging").read_text())
        running.send_signal(number)
        stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "This run is interrupted" in stdout
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert not Path(f"/proc/{hanging}").exists()
    kept = json.loads(fastopen("show", tmp_path / "kept", "--json").stdout)
    assert kept["status"] == "interrupted"
    # Three loads of the first world are kept. The load of the second world may still have been in the pipe.
    assert sum(cell["loads"] for cell in kept["cells"]) in (3, 4)


@pytest.mark.parametrize("transports", ["tcp,tfo", "tls,tls+tfo"])
def test_quick_says_what_answers_where_its_minute_was_too_short(
    fake_world: FakeWorld, monkeypatch: pytest.MonkeyPatch, transports: str
) -> None:
    fake_world()
    monkeypatch.setattr("fastopen.cli.run_settings.QUICK_S", 0.0)
    done = fastopen("run", "example", "--engine", "host", "--quick", "--transports", transports)
    assert "too short for one load; for a verdict: --repeats 6 instead of --quick" in done.stderr


def test_ctrl_c_while_pages_are_read_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "load_chosen", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    done = fastopen("run", "example", "--rtt", "20ms")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_closed_pipe_ends_it_without_a_traceback(fake_world: FakeWorld) -> None:
    fake_world()
    command = [*FASTOPEN, "run", "example", "--rtt", "20ms", "--repeats", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        assert "Traceback" not in running.stderr.read()


def test_a_user_without_a_home_can_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    variables = ("HOME", "FASTOPEN_RUNS", "XDG_STATE_HOME")
    without = {name: value for name, value in os.environ.items() if name not in variables}
    assert fastopen("ls", env=without).returncode == 0


@pytest.mark.parametrize("shell", ["2>/dev/full", "2>&-", "<&- 2>&-"])
def test_messages_that_cannot_be_written_do_not_stop_a_command(
    fake_world: FakeWorld, tmp_path: Path, shell: str
) -> None:
    fake_world()
    for arguments, code in (("run example --rtt 20ms --engine host --repeats 1", 0), ("show nowhere", 2)):
        line = f'"$@" {arguments} {shell}'
        environment = {**os.environ, "FASTOPEN_RUNS": str(tmp_path)}
        done = subprocess.run(
            ["bash", "-c", line, "bash", *FASTOPEN], env=environment, capture_output=True, check=False
        )
        assert (done.returncode, bool(done.stdout)) == (code, code == 0)


@pytest.mark.parametrize("command", ["factors --json", "page list", "page index .", "--version"])
@pytest.mark.parametrize(("shell", "code"), [(">/dev/full", 3), (">&-", 2)])
def test_output_that_cannot_be_written_is_an_error(
    tmp_path: Path, command: str, shell: str, code: int
) -> None:
    for unbuffered in ("", "1"):
        line = f'PYTHONUNBUFFERED={unbuffered} "$@" {command} {shell}'
        asked = ["bash", "-c", line, "bash", *FASTOPEN]
        done = subprocess.run(asked, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == code
        *before, error = done.stderr.splitlines()
        assert error.startswith(b"error: standard output: ")
        assert before in ([], [b"0 pages in 0 files"])


def test_characters_that_the_encoding_lacks_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "b\u00e9").mkdir()
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    assert fastopen_alone("ls", tmp_path / "b\u00e9", env=environment).stdout.endswith("/b\\xe9\n")
    document = fastopen_alone("ls", tmp_path / "b\u00e9", "--json", env=environment).stdout
    assert json.loads(document)["folder"] == str(tmp_path / "b\u00e9")


@pytest.mark.parametrize("command", ["ls", "record http://localhost:1/ -o", "run example --library"])
def test_a_path_that_the_system_refuses_is_named(command: str) -> None:
    name = "x" * 256
    done = fastopen(*command.split(), name)
    assert (done.returncode, done.stderr.split(": ")[:2]) == (2, ["error", name])


def test_a_bug_is_one_line_unless_the_traceback_is_asked_for(
    fake_world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("oh")

    fake_world()
    monkeypatch.setattr("fastopen.cli.reading.load_chosen", broken)
    done = fastopen("run", "example")
    assert done.returncode == 1
    assert done.stderr == "error: a bug, RuntimeError: oh; fastopen --debug prints the traceback\n"
    assert "Traceback" in fastopen("--debug", "run", "example").stderr


def test_reproduce_prints_the_published_figures_and_ours(fake_world: FakeWorld, tmp_path: Path) -> None:
    fake_world()
    text = """
        format = "fastopen-experiment/1"
        name = "one"
        pages = ["example"]
        seed = 1
        repeats = 3
        network = { rtt = ["20ms"], down = "4mbit", up = "256kbit" }
        published = { experiment = "radhakrishnan2011", pages = { example = "amazon.com" } }
    """
    (tmp_path / "one.toml").write_text(text)
    done = fastopen("reproduce", tmp_path / "one.toml")
    assert done.returncode == 0
    assert (
        "Compared with the published figures  RTT 20 ms; Radhakrishnan et al., CoNEXT 2011, Table 1"
        in done.stdout
    )
    published = json.loads(fastopen("reproduce", tmp_path / "one.toml", "--json").stdout)["cells"][0][
        "published"
    ]
    assert (published["plt_off"], published["plt_tfo"]) == (1.54, 1.48)


@pytest.mark.slow
def test_lists_name_what_comes_with_it() -> None:
    assert "radhakrishnan2011" in fastopen("reproduce", "--list").stdout
    names = [
        one["name"] for one in json.loads(fastopen("reproduce", "--list", "--json").stdout)["experiments"]
    ]
    assert "radhakrishnan2011" in names
    assert "example" in fastopen("page", "list").stdout
    pages = json.loads(fastopen("page", "list", "--json").stdout)["pages"]
    assert "example" in [page["name"] for page in pages]


@pytest.mark.parametrize("command", [[], ["run"], ["reproduce"], ["show"], ["page"], ["page", "show"]])
def test_every_command_has_a_help_text(command: list[str]) -> None:
    done = fastopen(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: fastopen" in done.stdout.replace("-c", "fastopen")


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("command", [[], ["run"], ["kernel"], ["kernel", "build"]])
def test_help_cuts_no_name_and_no_sentence(command: list[str], columns: int) -> None:
    topic = ["all"] if command == ["run"] else []
    text = fastopen(*command, "--help", *topic, columns=columns).stdout
    assert max(map(len, text.splitlines())) <= columns
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    ends = {"run": "--congestion-control", "kernel": "packetdrill"}
    assert ends.get(" ".join(command), "") in " ".join(text.split())


def test_the_exit_codes_are_in_the_help_text() -> None:
    assert "130 interrupted" in fastopen("--help").stdout


def test_the_version_is_the_packages() -> None:
    from importlib import metadata

    assert fastopen("--version").stdout == f"fastopen {metadata.version('fastopen')}\n"


def test_shell_completion_can_be_shown() -> None:
    # Completion is for the nearest shell among the parent processes. `exit` keeps bash from replacing itself
    # by the last command.
    command = ["bash", "-c", '"$@"; exit', "bash", *FASTOPEN, "--show-completion"]
    assert "complete" in subprocess.check_output(command, text=True)


def test_several_pages_are_shown_one_after_another() -> None:
    shown = fastopen("page", "show", "example", "cs244-2015").stdout
    assert shown.index("static.example.com") < shown.index("\n\ncs244-2015  http")


def test_a_page_is_shown_as_text_and_as_json() -> None:
    assert "static.example.com" in fastopen("page", "show", "example", "--tree").stdout
    (page,) = json.loads(fastopen("page", "show", "example", "--json").stdout)["pages"]
    assert (page["name"], page["requests"], page["hosts"]) == ("example", 8, 3)
