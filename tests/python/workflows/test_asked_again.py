"""A command that is repeated with the same output folder continues or shows the run in this folder."""

import sqlite3
from pathlib import Path
from typing import NoReturn

import pytest

from fastopen.common.errors import InputError
from fastopen.experiments import DRAWS, Experiment, Variation
from fastopen.pages import ImportedPage
from fastopen.workflows.run import RunOptions, StartedRun, run_experiment
from made_up_run import made_up_page, made_up_plan, made_up_run

PAGE = made_up_page("one")
DRAWN = {"vary": Variation(), "repeats": DRAWS}


def not_started(run: StartedRun) -> NoReturn:
    raise AssertionError(f"{run} was started")


def kept(folder: Path, **changes: object) -> tuple[Path, Experiment]:
    plan = made_up_plan([PAGE], rtts_ms=(20,), repeats=2)
    experiment = plan.experiment.model_copy(update=changes)
    return made_up_run(folder / "run", made_up_plan([PAGE], rtts_ms=(20,), repeats=2)), experiment


def test_draws_that_a_report_implies_are_no_other_experiment(tmp_path: Path) -> None:
    folder, experiment = kept(tmp_path, **DRAWN)
    options = RunOptions(output=folder, samples_by_default=True)
    with run_experiment(experiment, [ImportedPage(PAGE)], options, not_started) as run:
        assert run.outcome is None
        assert run.results.experiment.vary is None


def test_draws_that_were_asked_for_are_another_experiment(tmp_path: Path) -> None:
    folder, experiment = kept(tmp_path, **DRAWN)
    with pytest.raises(InputError, match="a different experiment"):
        run_experiment(experiment, [ImportedPage(PAGE)], RunOptions(output=folder), not_started)


def test_another_number_of_repeats_is_another_experiment(tmp_path: Path) -> None:
    folder, experiment = kept(tmp_path, repeats=5)
    options = RunOptions(output=folder, samples_by_default=True)
    with pytest.raises(InputError, match="repeats 2 instead of 5"):
        run_experiment(experiment, [ImportedPage(PAGE)], options, observe=None)  # type: ignore[arg-type]


def test_a_run_of_before_shares_of_hosts_had_a_default_is_asked_for_again(tmp_path: Path) -> None:
    folder, experiment = kept(tmp_path)
    database = sqlite3.connect(folder / "run.sqlite")
    with database:
        with_null = """UPDATE facts SET value = json_set(value, '$.networks[0].path_share', NULL)"""
        database.execute(f"{with_null} WHERE name = 'experiment'")
    database.close()
    options = RunOptions(output=folder)
    with run_experiment(experiment, [ImportedPage(PAGE)], options, not_started) as run:
        assert run.results.experiment == experiment
