"""Options that commands for the comparison of single page loads share: engine, order, one network."""

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
    """On what the loads are done: options of a command that has `with_settings`."""

    engine: Annotated[str, typer.Option(help="virtual or host.")] = "virtual"
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of loads and of loss.")] = 1
    kernel: KernelOption = None
    jobs: JobsOption = None

    def page_loads(self) -> PageLoads:
        """Raises InputError."""
        if self.engine not in ("virtual", "host"):
            raise InputError(f"unknown engine {self.engine!r}", "--engine", "use virtual or host")
        return PageLoads("host" if self.engine == "host" else "virtual", self.seed, self.kernel, self.jobs)


def one_network(rtt: str, down: str, up: str, *, option: str = "--rtt") -> Network:
    """The network that is asked for. Raises InputError where it is not one."""
    network, *more = networks_asked(rtt=rtt, down=down, up=up)
    if more:
        raise InputError("takes one value, not a list", option)
    return network
