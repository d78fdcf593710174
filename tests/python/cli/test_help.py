"""The help of a command with many options: the most important ones first, the others by topic."""

import re

import pytest

from command_line import fastopen
from fastopen.cli.discovery import Commands
from fastopen.cli.help import ALL, TOPICS

SCREEN_LINES = 45


def options(*topic: str) -> list[str]:
    text = fastopen("run", "--help", *topic, columns=80).stdout
    return re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", text, re.MULTILINE)


def test_the_help_of_run_is_one_screen_with_three_examples() -> None:
    text = fastopen("run", "--help", columns=80).stdout
    assert len(text.splitlines()) <= SCREEN_LINES
    assert len(re.findall(r"^    fastopen run ", text, re.MULTILINE)) == 3


def test_each_option_is_in_the_help_of_one_topic() -> None:
    by_topic = [one for name in TOPICS for one in options(name.lower()) if one != "--help"]
    assert sorted(by_topic) == sorted(one for one in options(ALL) if one != "--help")
    assert {*options()} < {*by_topic, "--help"}


@pytest.mark.parametrize("columns", [80, 130])
def test_help_names_no_type_of_python(columns: int) -> None:
    lines: list[tuple[str, ...]] = [()]
    for name, command in Commands().commands.items():
        lines += [(name,), *((name, inner) for inner in getattr(command, "commands", ()))]
    for line in lines:
        topic = [ALL] if line == ("run",) else []
        text = fastopen(*line, "--help", *topic, columns=columns).stdout
        assert "--help" in text
        assert re.findall(r"<(?:bool|str|int|float|path|list)\b|\[default|\bdocs/", text) == [], line


def test_help_before_another_option_is_the_short_one() -> None:
    assert fastopen("run", "--help", "--json").stdout == fastopen("run", "--help").stdout


def test_a_topic_that_is_unknown_is_refused_with_those_that_are() -> None:
    done = fastopen("run", "--help", "nothing")
    assert done.returncode == 2
    assert "tls" in done.stderr
