"""Measure one of the marked tables of the documents each day, and compare every digit.

A marked part of a document is between `<!-- measured -->` and `<!-- end: measured -->`, and has a block of
commands with lines of the last command's output; or it begins with `<!-- measured: COMMAND -->` and has lines
that this command prints. `measured slowly` marks parts that take minutes. MEASURED=all measures all,
including these.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from command_line import fastopen
from places import ROOT

MARK: Final = re.compile(
    r"^<!-- measured( slowly)?(?:: ([^\n]+))? -->\n(.*?)^<!-- end: measured -->$", re.M | re.S
)


NOTEBOOK: Final = sorted((ROOT / "docs" / "measurements").glob("[a-z]*.md"))
FIGURE: Final = re.compile(r"\| *\W*\d[^|]*\|")
PROVENANCE: Final = {
    "date": r"\d\s[A-Z][a-z]+\s20\d\d|\b20\d\d-\d\d-\d\d\b",
    "commit": r"\bcommits?\s`?[0-9a-f]{8}\b",
    "command": r"^```|`(?:\.venv/bin/|fastopen |make |cargo |tools/)[^`]+`|commands?\b[^.]* not recorded",
}


class Marked(NamedTuple):
    """A marked part of a document: its commands, and the lines that the last one must print."""

    place: str
    slow: bool
    commands: list[list[str]]
    lines: list[str]


def marked() -> Iterator[Marked]:
    """Yield all marked parts of the documents."""
    for path in sorted(ROOT.glob("docs/**/*.md")):
        for number, (slowly, command, body) in enumerate(MARK.findall(path.read_text(encoding="utf-8"))):
            place = f"{path.relative_to(ROOT)}:{number}"
            if command:
                yield Marked(place, bool(slowly), [shlex.split(command)], body.splitlines())
                continue
            text = re.sub(r"^```.*\n", "", body, flags=re.M)
            commands = re.findall(r"^\$ ((?:.*\\\n)*.*)\n", text, re.M)
            shown = re.sub(r"^\$ (?:.*\\\n)*.*\n", "", text, flags=re.M)
            words = [shlex.split(one.replace("\\\n", "")) for one in commands]
            yield Marked(place, bool(slowly), words, shown.splitlines())


EVERY: Final = sorted(marked(), key=lambda one: one.place)
QUICK: Final = [one for one in EVERY if not one.slow]
TODAYS: Final = (
    EVERY if os.environ.get("MEASURED") == "all" else [QUICK[datetime.now(UTC).toordinal() % len(QUICK)]]
)


def output(command: list[str]) -> str:
    """Run a command of a document and return its standard output."""
    if command[0] != "fastopen":
        return output_of_tool(*command)
    done = fastopen(*command[1:])
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@cache
def output_of_tool(tool: str, *arguments: str) -> str:
    """Run a script of the project once, even if it prints several marked tables."""
    words = [sys.executable, str(ROOT / tool), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("path", NOTEBOOK, ids=lambda path: path.name)
def test_a_measured_table_has_date_commit_and_command(path: Path) -> None:
    """Tables between marks are measured again. Others name them in their section or the introduction."""
    introduction, *sections = re.split(r"^(?=## )", MARK.sub("", path.read_text()), flags=re.M)
    missing = [
        (section.partition("\n")[0], part)
        for section in [introduction, *sections]
        if FIGURE.search(section)
        for part, pattern in PROVENANCE.items()
        if not re.search(pattern, introduction + section, re.M)
    ]
    assert missing == []


def test_marked_parts_have_commands_and_lines() -> None:
    assert len(QUICK) >= 7
    assert [one.place for one in EVERY if not one.commands or not one.lines] == []


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("one", TODAYS, ids=lambda one: one.place)
def test_a_part_is_what_its_command_prints(
    one: Marked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FASTOPEN_RUNS", str(tmp_path / "runs"))
    *_, printed = (output(command) for command in one.commands)
    rest = iter([line.rstrip() for line in printed.splitlines()])
    missing = [line for line in one.lines if line.strip() and line.rstrip() not in rest]
    assert missing[:1] == []
