"""Choose and set up the engines (real or virtual time) that run a plan on this machine, and describe them."""

import os
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastopen.common.errors import InputError
from fastopen.engines import (
    Engine,
    ExecutorEngine,
    HostEngine,
    Maker,
    ResultsStore,
    StoredEngine,
    VirtualEngine,
    check_versions,
    default_parallel,
    describe_clients,
    describe_servers,
    find_program,
    kernels,
    program_digest,
    program_version,
)
from fastopen.engines.kernels import VARIABLE, Kernel
from fastopen.experiments import EngineName, Experiment, Plan, repeats_of, slowed_down
from fastopen.runs import describe_environment

NO_KERNEL: Final = f"no kernel for the virtual engine is installed ({kernels.BUILD_IT})"
MIDDLEBOX_IS_OURS: Final = (
    "fastopen's program emulates broken paths, since the kernel's link has no middlebox"
)
ONE_IS_ENOUGH: Final = "results are deterministic, so each case is loaded once"


def auto_engine(kernel: str | None) -> EngineName:
    """Return the engine for `--engine auto`: `virtual` (virtual time) if a kernel for it is installed, or if
    `kernel` or the environment variable FASTOPEN_KERNEL names a kernel; otherwise `host` (real time)."""
    named = kernel is not None or bool(os.environ.get(VARIABLE))
    return "virtual" if named or kernels.installed() else "host"


def kernels_named(text: str | None) -> dict[str, str]:
    """Parse a list of kernels to compare, such as `a,b`. Map the full name of each kernel to its name in the
    list. Return an empty dict if the list has fewer than two names. Raises InputError for an empty,
    repeated or unknown name, and MachineError for an unusable kernel."""
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
    """Return a copy of the experiment that runs only on the engine `virtual`. Raises InputError if the
    experiment requests the engine `host`."""
    if "host" in experiment.engines:
        raise InputError("several kernels need the virtual engine", "--kernel", "use --engine virtual")
    return experiment.model_copy(update={"engines": ["virtual"]})


def is_busy() -> bool:
    """Return True if other processes keep all processors busy, so that loads in real time would be late."""
    return os.getloadavg()[0] >= len(os.sched_getaffinity(0))


def slower_now(parallel: Mapping[EngineName, int]) -> dict[EngineName, float]:
    """Map engines to the factor by which other processes currently slow down their loads. Only `virtual` has
    a factor: `host` is hardly affected. `parallel` maps engines to the number of loads that run at once."""
    if "virtual" not in parallel:
        return {}
    cores = len(os.sched_getaffinity(0))
    return {"virtual": slowed_down(os.getloadavg()[0], cores, parallel["virtual"])}


@dataclass(frozen=True)
class EngineSet:
    """The engines that a run needs: `host` for real time, `virtual` for virtual time, or both. `environment`
    describes the machine, the programs and the kernel."""

    engines: dict[EngineName, Engine]
    environment: dict[str, Any]
    kernel: Kernel | None = None
    """The kernel that the virtual engine boots; None if the plan does not need this engine."""
    store: ResultsStore | None = None
    """The store with results of earlier loads in virtual time; None if no store is used."""
    workers: ExecutorEngine | None = None
    """The engine that runs jobs in virtual time on the given executor; None without an executor."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        kernel: str | None,
        parallel: int | None,
        recorded: Mapping[str, Any] | None = None,
        store: str | None = None,
        executor: Executor | None = None,
    ) -> "EngineSet":
        """Set up the engines that a plan needs.

        `kernel` is the user's choice of kernel for virtual time. `parallel` is the number of networks
        emulated at once. For a resumed run, `recorded` is the environment in which the run was started.
        `store` is the folder or URL of a store of results. `executor` runs loads in virtual time instead of
        this process. Raises InputError if the kernel's name, store or executor cannot be used. Raises
        MachineError if the program that emulates networks, or a kernel, is missing."""
        if executor is not None and plan.engines != ("virtual",):
            raise InputError("workers run only in virtual time", "--workers", "use --engine virtual")
        if kernel is not None and "virtual" not in plan.engines:
            raise InputError("has no effect in real time", "--kernel", "drop it, or use --engine virtual")
        program = find_program()
        booted = _kernel(kernel, recorded or {}) if "virtual" in plan.engines else None
        for setup in plan.experiment.setups:
            check_versions(setup.client, setup.origins.versions)
        clients = [setup.client for setup in plan.experiment.setups]
        engines: dict[EngineName, Engine] = {}
        for name in plan.engines:
            if booted is not None and name == "virtual":
                engines[name] = VirtualEngine(program, booted, parallel)
            else:
                at_once = parallel or default_parallel(client.type for client in clients)
                engines[name] = HostEngine(program, at_once)
        workers = results = None
        if booted is not None and executor is not None:
            workers = engines["virtual"] = ExecutorEngine(executor, maker_of(program, booted), parallel)
        if booted is not None and store is not None:
            results = ResultsStore(store)
            engines["virtual"] = StoredEngine(engines["virtual"], results, maker_of(program, booted))
        at_once = max(engine.parallel for engine in engines.values())
        environment = describe_environment(program_version(program), at_once)
        environment["program_sha256"] = program_digest(program)
        if described := describe_clients(clients):
            environment["clients"] = described
        if described := describe_servers(setup.origins.server for setup in plan.experiment.setups):
            environment["servers"] = described
        if booted is not None:
            environment["virtual_kernel"] = {
                "name": booted.name,
                "version": booted.version,
                "sha256": booted.manifest.sha256,
            }
        return cls(engines, environment, booted, results, workers)

    def description(self, plan: Plan) -> str:
        """Describe the engines and the reasons for their choice, such as `engine host, because ...`."""
        described = [self._describe(plan, name) for name in plan.engines]
        if any(one.link == "kernel" and one.path != "none" for one in plan.experiment.networks):
            described.append(MIDDLEBOX_IS_OURS)
        return "; ".join(described)

    def _describe(self, plan: Plan, name: EngineName) -> str:
        if name == "host" or self.kernel is None:
            chosen = name not in plan.experiment.engines
            return f"engine {name}, because {NO_KERNEL}" if chosen else f"engine {name}"
        described = f"engine {name}, kernel {self.kernel.name} (Linux {self.kernel.version})"
        comparisons = {cell.comparison for cell in plan.cells if cell.engine == name}
        once = any(repeats_of(plan.experiment, one) == 1 for one in comparisons)
        return f"{described}: {ONE_IS_ENOUGH}" if once and plan.experiment.repeats > 1 else described


def maker_of(program: Path, kernel: Kernel) -> Maker:
    """Return the digests of the kernel and of the program that emulates networks, which determine results of
    the virtual engine. Raises MachineError if the program cannot be read."""
    return Maker(program_digest(program), kernel.manifest.sha256, tuple(kernel.manifest.arguments))


def _kernel(asked: str | None, recorded: Mapping[str, Any]) -> Kernel:
    """Return the requested kernel (`asked` or FASTOPEN_KERNEL), else the kernel that the environment of a
    resumed run (`recorded`) names, else the newest installed kernel."""
    before = recorded.get("virtual_kernel")
    if asked or os.environ.get(VARIABLE) or not isinstance(before, dict):
        return kernels.find(asked)
    return kernels.find_recorded(str(before.get("name")), str(before.get("sha256")))
