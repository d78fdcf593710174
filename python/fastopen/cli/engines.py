"""Which engine does a run's jobs, as the options and this machine have it."""

from pathlib import Path
from typing import Annotated

import typer

from fastopen import kernels
from fastopen.engines import Engine, HostEngine, VirtualEngine
from fastopen.experiments import EngineName, Plan

KernelOption = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help="Of the virtual engine; kernel list names them. (default: the newest)",
    ),
]


def auto_engine(kernel: str | None) -> EngineName:
    """What `auto` is here: `virtual` where a kernel is installed or was named, else `host`."""
    return "virtual" if kernel is not None or kernels.installed() else "host"


def engines_of(
    plan: Plan, program: Path, kernel: str | None, parallel: int | None
) -> dict[EngineName, Engine]:
    """The engines that the plan needs. Raises MachineError where it needs a kernel and there is none."""
    engines: dict[EngineName, Engine] = {}
    for name in plan.engines:
        if name == "virtual":
            engines[name] = VirtualEngine(program, kernels.find(kernel), parallel)
        else:
            engines[name] = HostEngine(program, parallel)
    return engines
