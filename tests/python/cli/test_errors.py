"""Wrong commands, and the errors that fastopen prints for them: snapshots/errors.txt lists both.

A block of that file is a command line, the expected standard error and the exit code. The commands run in a
folder with the files of wrong_inputs.py. A command that begins with `fastopen`, or with environment variables
for it, runs in this process. A shell runs all others, and `fastopen exec` and `fastopen shell --`.

UPDATE_SNAPSHOTS=1 .venv/bin/pytest tests/python/cli/test_errors.py updates the snapshot.
"""

import os
import re
import shlex
import stat
import subprocess
from pathlib import Path
from typing import Final

import pytest

from cli.wrong_inputs import make_wrong_inputs
from command_line import FASTOPEN, fastopen
from places import ROOT

SNAPSHOT: Final = Path(__file__).parent / "snapshots" / "errors.txt"
BLOCK: Final = re.compile(r"^\$ (.+)\n((?:.+\n)*)", re.MULTILINE)
BLOCKS: Final[dict[str, str]] = dict(BLOCK.findall(SNAPSHOT.read_text(encoding="utf-8")))
ODD: Final = (
    r"Traceback|a bug, |\b(?:is no|are no|means nothing|nobody|alone|besides|ask for|in place of)\b|\bdocs/"
)
IN_PROCESS: Final = re.compile(r"(?:[A-Z_]+=\S* )*fastopen(?! exec| shell --)( |$)")
ANSWERS: Final[dict[str, str]] = {}
CASES: Final = [
    pytest.param(line, marks=() if IN_PROCESS.match(line) else pytest.mark.e2e, id=line) for line in BLOCKS
]


@pytest.fixture(name="here", scope="module")
def _here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("errors")
    make_wrong_inputs(folder)
    return folder


def answer(line: str, folder: Path) -> str:
    """Run the command line in `folder`. Return its errors and exit code in the snapshot's format."""
    if IN_PROCESS.match(line):
        words = shlex.split(line)
        at = words.index("fastopen")
        # No command in this process gets as far as starting a world.
        variables = {"FASTOPEN_WORLD": "/bin/true", **dict(word.split("=", 1) for word in words[:at])}
        done = fastopen(*words[at + 1 :], env={**os.environ, **variables})
    else:
        program = folder / "bin" / "fastopen"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(FASTOPEN)} "$@"\n')
        program.chmod(stat.S_IRWXU)
        path = f"{program.parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", line],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    said = done.stderr.replace(f"{folder}/", "").replace(str(folder), ".").replace(str(ROOT), "CHECKOUT")
    return f"{said}exit code {done.returncode}\n"


@pytest.fixture(name="snapshot", scope="module", autouse=True)
def _snapshot() -> object:
    yield
    if os.environ.get("UPDATE_SNAPSHOTS"):
        text = SNAPSHOT.read_text(encoding="utf-8")
        new = BLOCK.sub(lambda found: f"$ {found[1]}\n{ANSWERS.get(found[1], found[2])}", text)
        SNAPSHOT.write_text(new, encoding="utf-8")


@pytest.mark.parametrize("line", CASES)
def test_a_wrong_command_is_answered(line: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    monkeypatch.setenv("FASTOPEN_RUNS", str(here / "runs"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    ANSWERS[line] = answer(line, here)
    if not os.environ.get("UPDATE_SNAPSHOTS"):
        assert ANSWERS[line] == BLOCKS[line]


@pytest.mark.parametrize("line", BLOCKS)
def test_an_answer_is_an_error_in_plain_english(line: str) -> None:
    *said, code = BLOCKS[line].splitlines()
    assert code in {f"exit code {number}" for number in (1, 2, 3, 126, 127)}
    assert any(one.startswith(("error: ", "fault in ", "left out: ")) for one in said)
    assert not re.search(ODD, BLOCKS[line])
