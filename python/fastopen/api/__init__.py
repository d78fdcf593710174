"""The Python API of fastopen: experiments, runs and their results (docs/api.md)."""

from fastopen.api.experiment import Experiment
from fastopen.api.runs import Run, open_run, run
from fastopen.common.errors import InputError, MachineError

__all__ = ["Experiment", "InputError", "MachineError", "Run", "open_run", "run"]
