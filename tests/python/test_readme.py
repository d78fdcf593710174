"""Run every command of README and tutorial, with a page, a kept run or a local server made for it."""

import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from command_line import FASTOPEN, fastopen
from made_up_run import made_up_page, made_up_plan, made_up_run
from places import ROOT

TUTORIAL: Final = ROOT / "docs" / "tutorial.md"
ENTRY: Final = {
    "startedDateTime": "2026-01-01T00:00:00Z",
    "time": 10,
    "request": {"method": "GET", "url": "http://a.test/", "headers": []},
    "response": {"status": 200, "headers": [], "content": {"size": 1000, "mimeType": "text/html"}},
    "timings": {"send": 0, "wait": 5, "receive": 5},
}
BROWSER: Final = "record"


def commands() -> list[str]:
    """Return all commands in fenced blocks, without their comments."""
    texts = ((ROOT / "README.md").read_text(), TUTORIAL.read_text())
    fences = [
        fence
        for text in texts
        for language, fence in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
        if not language
    ]
    lines = (line for fence in fences for line in fence.splitlines())
    written = (re.split(r"\s{3,}|\s+#", line.removeprefix(".venv/bin/"))[0] for line in lines)
    return [
        *dict.fromkeys(line for line in written if line.startswith(("fastopen ", "make ")) or line == "make")
    ]


FOUND: Final = commands()


def of(*kinds: str) -> list[str]:
    return [line for line in FOUND if line.startswith("fastopen ") and line.split()[1] in kinds]


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
def test_the_tutorial_shows_what_its_command_prints() -> None:
    """All digits must match: virtual time gives equal results on all machines. Trailing blanks may differ."""
    (example,) = re.findall(r"^```console\n(.*?)^```$", TUTORIAL.read_text(), re.M | re.S)
    command, _, shown = example.partition("\n")
    done = fastopen(*shlex.split(command.removeprefix("$ "))[1:])
    assert done.returncode == 0, done.stderr
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    assert printed.startswith(shown)


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
def test_the_readmes_picture_is_of_the_command_above_it(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    command, picture = re.findall(r"^```\nfastopen (run .*)\n```\n!\[.*\]\((.*)\)$", readme, re.M)[0]
    done = fastopen(*shlex.split(command), "--engine", "virtual", "-o", tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    fastopen("show", tmp_path / "kept", "--svg", tmp_path / "made.svg")
    assert (tmp_path / "made.svg").read_text() == (ROOT / picture).read_text()


def test_the_readme_has_its_shape() -> None:
    """It loads a page over HTTPS first, answers in three sentences, and installs without `make` first."""
    readme = (ROOT / "README.md").read_text()
    first, *_ = of("run")
    assert "--transports tls" in first
    (answer,) = re.findall(r"^## Should I turn TFO on\?\n(.*?)^## ", readme, re.M | re.S)
    assert answer.startswith("No current browser")
    assert len(re.findall(r"[.?!](?:\s|$)", answer)) == 3
    install = readme.partition("## Install")[2]
    assert install.index("pip install") < install.index("make")
    for word in ("Linux on x86-64", "doi.org", "docs/limits.md", "docs/paper.md"):
        assert word in readme


def test_no_command_of_the_readme_is_left_out() -> None:
    makes = [line for line in FOUND if line.split()[0] == "make"]
    others = [line for line in FOUND if line not in (*makes, *of(BROWSER), *READ, *LOADING)]
    assert others == []
    assert len(FOUND) >= 16


READ: Final = of("report", "doctor", "reproduce", "page", "show", "compare")
LOADING: Final = of("run")


@pytest.fixture(name="words")
def _words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Make the page and the runs that the README names. Return a function that splits a command into the
    words after `fastopen`.
    """
    (tmp_path / "my.har").write_text(json.dumps({"log": {"version": "1.2", "entries": [ENTRY]}}))
    plan = made_up_plan([made_up_page("one")], rtts_ms=(20,), repeats=1)
    for name in ("DIR", "DIR-vary", "OTHER"):
        made_up_run(tmp_path / "runs" / name, plan)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FASTOPEN_RUNS", str(tmp_path / "runs"))
    return lambda line: shlex.split(line)[1:]


@pytest.mark.parametrize("line", READ)
def test_a_command_that_reads_does_so(line: str, words: Callable[[str], list[str]]) -> None:
    done = fastopen(*words(line))
    # The result of the doctor depends on the machine.
    assert done.returncode in ((0, 3) if line == "fastopen doctor" else (0,)), done.stderr
    assert done.stdout or done.stderr


@pytest.mark.parametrize("line", LOADING)
def test_a_command_that_loads_does_so(
    line: str, words: Callable[[str], list[str]], fake_world: Callable[..., Path]
) -> None:
    if "chromium" in line and shutil.which("chromium") is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    fake_world()
    asked = [f"new-{word}" if word.startswith("DIR") else word for word in words(line)]
    done = fastopen(*asked, "--engine", "host")
    assert done.returncode == 0, done.stderr
    assert "PLT" in done.stdout


@pytest.fixture(name="server")
def _server() -> Iterator[str]:
    """Serve a page on loopback. Yields host and port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<!doctype html><title>A page</title>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        do_HEAD = do_GET  # noqa: N815  # http.server's names

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.e2e
@pytest.mark.parametrize("line", of(BROWSER))
def test_a_command_of_the_real_network_works_on_loopback(
    line: str, words: Callable[[str], list[str]], server: str
) -> None:
    if shutil.which("chromium") is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    stand_ins = {"URL": f"http://{server}/", "my.har": "recorded.har"}
    asked = [stand_ins.get(word, word) for word in words(line)]
    done = subprocess.run(
        [*FASTOPEN, *asked],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "SHELL": "/bin/sh"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", [line for line in FOUND if line.split()[0] == "make"])
def test_a_target_that_the_readme_names_can_be_made(line: str) -> None:
    """A dry run, because continuous integration and `make release-check` run these targets."""
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    command = ["make", "--dry-run", *line.split()[1:]]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_workflows_run_what_is_there() -> None:
    """Check that hosted workflows use only make targets and project files that exist."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert len(workflows) >= 3
    for path in workflows:
        text = path.read_text()
        assert set(re.findall(r"run: make ([a-z-]+)", text)) <= targets
        for file in re.findall(r"run: ([.\w/-]+/[\w-]+)$", text, re.M):
            assert os.access(ROOT / file, os.X_OK), file
