"""The options that say how sure one wants to be: `--until-ci`, `--max-repeats`, `--aa`."""

from typing import Annotated, Final

import typer

from fastopen import units
from fastopen.errors import InputError
from fastopen.experiments import ArmName, Experiment
from fastopen.experiments.model import REPEATS_MAX
from fastopen.statistics import UntilInterval

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


def until_interval(text: str | None, max_repeats: int, repeats: int) -> UntilInterval | None:
    """What `--until-ci` asks for. Raises InputError naming the option."""
    if text is None:
        return None
    try:
        percent = 100 * units.parse_fraction(text)
    except units.UnitError as error:
        raise InputError(str(error), "--until-ci") from None
    if percent == 0:
        raise InputError("no number of repeats makes an interval without width", "--until-ci")
    if max_repeats < repeats:
        raise InputError(f"{max_repeats} is less than the {repeats} of --repeats", "--max-repeats")
    return UntilInterval(percent, max_repeats)


def with_second_off(experiment: Experiment) -> Experiment:
    """The experiment with the arm `off` twice."""
    if "off" not in experiment.arms:
        raise InputError("needs the transport off, which it loads twice", "--aa")
    arms: list[ArmName] = [name for name in experiment.arms if name != "off2"]
    arms.insert(arms.index("off") + 1, "off2")
    return experiment.model_copy(update={"arms": arms})
