"""The engines that a plan needs, on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastopen import kernels
from fastopen.engines import Engine, HostEngine, VirtualEngine, find_program, program_version
from fastopen.experiments import EngineName, Plan
from fastopen.runs import describe_environment


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


@dataclass(frozen=True)
class Worker:
    """The engines that a plan needs, and what they run on."""

    engines: dict[EngineName, Engine]
    environment: dict[str, Any]

    @classmethod
    def of(cls, plan: Plan, kernel: str | None, parallel: int | None) -> "Worker":
        """Raises MachineError where this machine lacks one."""
        program = find_program()
        engines = engines_of(plan, program, kernel, parallel)
        at_once = max(engine.parallel for engine in engines.values())
        return cls(engines, describe_environment(program_version(program), at_once))
