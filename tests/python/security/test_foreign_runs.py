"""Runs and experiments from other people are data: commands that they name are only executed if allowed."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastopen.cli.allow_command import foreign_commands
from fastopen.cli.app import app
from fastopen.common.errors import InputError, MachineError
from fastopen.engines.kernels import find_recorded
from fastopen.experiments import load_experiment
from fastopen.workflows.run import RunOptions

EXPERIMENT = """
format = "fastopen-experiment/1"
pages = ["example"]
repeats = 1
seed = 1
[network]
rtt = "20ms"
[client]
kind = {kind}
"""


def experiment(folder: Path, kind: str) -> Path:
    path = folder / "handed.toml"
    path.write_text(EXPERIMENT.replace("{kind}", kind).replace("pages", 'name = "handed"\npages', 1))
    return path


def test_a_command_of_a_foreign_experiment_is_shown_and_not_run(tmp_path: Path) -> None:
    path = experiment(tmp_path, '"command"\ncommand = "sh -c evil {url}"')
    found = CliRunner().invoke(app, ["reproduce", str(path)])
    assert isinstance(found.exception, InputError)
    assert "would run the command sh -c evil '{url}'" in str(found.exception)
    assert "--allow-command" in str(found.exception)


def test_the_tools_that_fastopen_knows_are_no_foreign_commands(tmp_path: Path) -> None:
    assert foreign_commands(load_experiment(str(experiment(tmp_path, '"curl"')))) == []


def test_a_command_that_takes_the_name_of_a_known_tool_is_foreign_all_the_same(tmp_path: Path) -> None:
    asked = load_experiment(str(experiment(tmp_path, '"curl"')))
    client = asked.setups[0].client.model_copy(update={"command": ["sh", "-c", "evil", "{url}"]})
    changed = asked.model_copy(update={"setups": [asked.setups[0].model_copy(update={"client": client})]})
    assert foreign_commands(changed) == ["sh -c evil '{url}'"]


def test_a_kernel_that_a_run_names_has_to_be_installed_under_that_name(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "manifest.json").write_text("{}")
    for name in (str(tmp_path / "k"), "../k", "7"):
        with pytest.raises(MachineError, match="is not installed"):
            find_recorded(name, "00")


def test_the_options_that_a_run_keeps_name_no_kernel() -> None:
    assert "kernel" not in RunOptions(kernel="somewhere/k").as_json()
