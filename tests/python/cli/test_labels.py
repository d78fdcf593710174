"""Names that people give to runs, and what `ls` says besides."""

import json
from pathlib import Path

from command_line import fastopen
from made_up_run import made_up_page, made_up_plan, made_up_run


def test_a_label_is_shown_in_the_list_and_can_be_taken_away(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "one", made_up_plan([made_up_page("page")], rates_mbit=(1, 4)))
    assert fastopen("label", run, "before the patch").returncode == 0
    (listed,) = json.loads(fastopen("ls", tmp_path, "--json").stdout)["runs"]
    assert (listed["label"], listed["varying"]) == ("before the patch", ["down 1, 4"])
    assert {"before", "the", "patch"} <= {*fastopen("ls", tmp_path).stdout.split()}
    fastopen("label", run, "")
    (listed,) = json.loads(fastopen("ls", tmp_path, "--json").stdout)["runs"]
    assert listed["label"] == ""


def test_a_label_changes_nothing_else_of_a_run(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "one", made_up_plan([made_up_page("page")]))
    before = fastopen("show", run).stdout
    fastopen("label", run, "x")
    assert fastopen("show", run).stdout == before
