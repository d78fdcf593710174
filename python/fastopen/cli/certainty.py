"""The options that say how sure one wants to be: `--until-ci`, `--max-repeats`, `--aa`."""

from typing import Annotated, Final

import typer

from fastopen.errors import InputError
from fastopen.experiments import BASELINE, CONTROL, ArmName, Experiment
from fastopen.experiments.model import REPEATS_MAX

MAX_REPEATS: Final = 100
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until-ci",
        metavar="PERCENT",
        help="Repeat until the 95 % interval of each saving is at most this to either side: 1%.",
    ),
]
MaxRepeatsOption = Annotated[
    int, typer.Option(min=1, max=REPEATS_MAX, help="With --until-ci: loads of each cell at most.")
]
AaOption = Annotated[
    bool, typer.Option("--aa", help="Load without TFO twice: what the second saves is noise alone.")
]


def with_control(experiment: Experiment) -> Experiment:
    """The experiment with the baseline twice."""
    if BASELINE.name not in experiment.arms:
        raise InputError(f"needs the transport {BASELINE.name}, which it loads twice", "--aa")
    arms: list[ArmName] = [name for name in experiment.arms if name != CONTROL.name]
    arms.insert(arms.index(BASELINE.name) + 1, CONTROL.name)
    return experiment.model_copy(update={"arms": arms})
