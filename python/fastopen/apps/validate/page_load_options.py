"""Define the options that `fastopen validate` commands share: engine, seed, kernel, jobs and one network."""

from dataclasses import dataclass
from typing import Annotated

import typer

from fastopen.cli.shared_options import JobsOption, KernelOption
from fastopen.common.errors import InputError
from fastopen.contract import Network
from fastopen.experiments import networks_asked
from fastopen.workflows.page_loads import PageLoads


@dataclass(frozen=True)
class PageLoadOptions:
    """The options for running page loads, which `with_settings` adds to a command."""

    engine: Annotated[str, typer.Option(help="virtual or host.")] = "virtual"
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of loads and of loss.")] = 1
    kernel: KernelOption = None
    jobs: JobsOption = None

    def page_loads(self) -> PageLoads:
        """Return the settings of the loads. Raises InputError."""
        if self.engine not in ("virtual", "host"):
            raise InputError(f"unknown engine {self.engine!r}", "--engine", "use virtual or host")
        return PageLoads("host" if self.engine == "host" else "virtual", self.seed, self.kernel, self.jobs)


def one_network(rtt: str, down: str, up: str, *, option: str = "--rtt") -> Network:
    """Return the requested network. Raises InputError if a value is invalid or a list."""
    network, *more = networks_asked(rtt=rtt, down=down, up=up)
    if more:
        raise InputError("takes one value, not a list", option)
    return network
