"""One experiment on several kernels of the virtual engine: which ones were named."""

from fastopen.common.errors import InputError
from fastopen.engines import kernels
from fastopen.experiments import Experiment


def kernels_named(text: str | None) -> dict[str, str]:
    """Map names to kernels of a list with commas; empty for one. Raises MachineError, InputError."""
    asked = [one.strip() for one in (text or "").split(",")]
    if len(asked) < 2:
        return {}
    named: dict[str, str] = {}
    for one in asked:
        if not one:
            raise InputError(f"{text!r} has an empty name in it", "--kernel", "use NAME,NAME")
        name = kernels.find(one).name
        if name in named:
            raise InputError(f"{name} appears twice", "--kernel", "fastopen kernel list lists the kernels")
        named[name] = one
    return named


def on_virtual_engine(experiment: Experiment) -> Experiment:
    """The experiment on the virtual engine alone. Raises InputError where another was asked for."""
    if "host" in experiment.engines:
        raise InputError("several kernels need the virtual engine", "--kernel", "use --engine virtual")
    return experiment.model_copy(update={"engines": ["virtual"]})
