"""Labels of runs, and the other columns of `fastopen ls`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import fastopen
from made_up_run import made_up_page, made_up_plan, made_up_run


def test_a_label_is_shown_in_the_list_and_can_be_taken_away(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "one", made_up_plan([made_up_page("page")], rates_mbit=(1, 4)))
    assert fastopen("label", run, "before the patch").returncode == 0
    (listed,) = json.loads(fastopen("ls", tmp_path, "--json").stdout)["runs"]
    assert (listed["label"], listed["varying"]) == ("before the patch", ["down 1, 4 Mbit/s"])
    assert {"before", "the", "patch"} <= {*fastopen("ls", tmp_path).stdout.split()}
    fastopen("label", run, "")
    (listed,) = json.loads(fastopen("ls", tmp_path, "--json").stdout)["runs"]
    assert listed["label"] == ""


def test_a_run_is_given_its_label_when_it_starts_or_when_it_is_asked_for_again(
    fake_world: Callable[..., Path], tmp_path: Path
) -> None:
    fake_world()
    command = [
        "run",
        "example",
        "--rtt",
        "20ms",
        "--repeats",
        "1",
        "--seed",
        "1",
        "-q",
        "-o",
        tmp_path / "one",
    ]

    def label() -> str:
        (listed,) = json.loads(fastopen("ls", tmp_path, "--json").stdout)["runs"]
        return str(listed["label"])

    first = fastopen(*command, "--label", "before the patch")
    assert (first.returncode, label()) == (0, "before the patch")
    # The command of a finished run prints the run again.
    again = fastopen(*command)
    assert (again.returncode, again.stdout, label()) == (0, first.stdout, "before the patch")
    assert fastopen(*command, "--label", "after it").returncode == 0
    assert label() == "after it"


def test_a_label_changes_nothing_else_of_a_run(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "one", made_up_plan([made_up_page("page")]))
    before = fastopen("show", run).stdout
    fastopen("label", run, "x")
    assert fastopen("show", run).stdout == before


@pytest.mark.parametrize("text", ["two\nlines", "a\ttab", "x" * 201])
def test_a_label_is_one_short_line(tmp_path: Path, text: str) -> None:
    run = made_up_run(tmp_path / "one", made_up_plan([made_up_page("page")]))
    for command, place in ((["label", run], "TEXT"), (["run", "example", "--label"], "--label")):
        done = fastopen(*command, text)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {place}: the label is not one line of at most 200 characters")
    assert json.loads(fastopen("ls", tmp_path, "--json").stdout)["runs"][0]["label"] == ""
