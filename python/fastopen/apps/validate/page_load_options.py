"""Define the options that `fastopen validate` commands share: engine, seed, kernel, jobs and one network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from typer import Option

from fastopen.cli.shared_options import JobsOption, KernelOption
from fastopen.common.errors import InputError, collected, raise_all
from fastopen.contract import Network
from fastopen.experiments import networks_asked
from fastopen.workflows.page_loads import PageLoads

SamplesOption = Annotated[
    int,
    Option(
        "--repeats", "-n", min=1, help="Samples of each load; their median counts. 1 loads without variation."
    ),
]


@dataclass(frozen=True)
class PageLoadOptions:
    """The command-line options for page loads. The decorator `with_settings` adds them to a command."""

    engine: Annotated[str, Option(help="virtual or host.")] = "virtual"
    seed: Annotated[int, Option(min=0, help="Seed of the order of loads and of loss.")] = 1
    kernel: KernelOption = None
    jobs: JobsOption = None

    def page_loads(self) -> PageLoads:
        """Return the options as settings of page loads. Raises InputError if the engine is unknown."""
        if self.engine not in ("virtual", "host"):
            raise InputError(f"unknown engine {self.engine!r}", "--engine", "use virtual or host")
        return PageLoads("host" if self.engine == "host" else "virtual", self.seed, self.kernel, self.jobs)


def one_network(rtt: str, down: str, up: str, options: Mapping[str, str]) -> Network:
    """Return the network with these values, such as `20ms` and `4mbit`. Raises InputError if a value is
    invalid or a list. Errors name the option, such as `--rtt`, or its other name in `options`, if any."""
    written = {"rtt": rtt, "down": down, "up": up}
    network, *more = networks_of(options, **written)
    if more:
        several = next(f"--{name}" for name, value in written.items() if "," in value)
        raise InputError("takes one value, not a list", options.get(several, several), "give one value")
    return network


def networks_of(options: Mapping[str, str], **written: str) -> list[Network]:
    """Return a network for each combination of values, such as rtt="20ms,100ms". Raises InputError for an
    invalid value. Errors name the option, such as `--rtt`, or its other name in `options`, if any."""
    networks: list[Network] = []
    problems: list[InputError] = []
    with collected(problems):
        networks = networks_asked(**written)
    raise_all([InputError(one.message, options.get(one.place, one.place), one.remedy) for one in problems])
    return networks
