"""Define the options that `fastopen validate` commands share: engine, seed, kernel, jobs and one network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from typer import Option

from fastopen.cli.shared_options import JobsOption, KernelOption
from fastopen.common.errors import InputError
from fastopen.contract import Network, Origins, Tcp, Tls
from fastopen.experiments import (
    BASELINE,
    COMMAND_LINE,
    HEADLINE,
    ArmName,
    EngineName,
    Experiment,
    SettingSource,
    Variation,
    clients_of,
    make_plan,
    read_settings,
    setups_of,
)
from fastopen.pages import ImportedPage
from fastopen.workflows.run import ExecutedRun, Watch, bodies_of, check_recorded, run_in_memory

SamplesOption = Annotated[
    int,
    Option(
        "--repeats", "-n", min=1, help="Samples of each load; their median counts. 1 loads without variation."
    ),
]
# By default, samples shuffle requests that are discovered at the same byte. Browsers keep their order.
DRAWN: Final = Variation(order=False)
ARMS: Final[list[ArmName]] = [BASELINE.name, HEADLINE.name]


@dataclass(frozen=True)
class PageLoadOptions:
    """The command-line options for page loads. The decorator `with_settings` adds them to a command."""

    engine: Annotated[str, Option(help="virtual or host.")] = "virtual"
    seed: Annotated[int, Option(min=0, help="Seed of the order of loads and of loss.")] = 1
    kernel: KernelOption = None
    jobs: JobsOption = None

    def __post_init__(self) -> None:
        if self.engine not in ("virtual", "host"):
            raise InputError(f"unknown engine {self.engine!r}", "--engine", "use virtual or host")

    def run(
        self,
        imported: ImportedPage,
        networks: Sequence[Network],
        client: Mapping[str, Any],
        arms: Sequence[ArmName],
        watch: Watch,
        *,
        origins: Origins | None = None,
        draws: int = 1,
    ) -> ExecutedRun:
        """Load the page with each client over each network, and return the run, which is only in memory.
        `client` maps settings of the client to values, or to lists with a value for each client. `origins`
        has the settings of the servers. `arms` selects uses of TFO, such as `off`. `watch` is called after
        each event. `draws` is the number of repeats. If it is above 1, the RTT and other uncertain values are
        random, but equal for all clients. Raises InputError if recorded bodies are missing, MachineError if
        a browser or the kernel is missing, and KeyboardInterrupt if the loads are interrupted."""
        page, answering = imported.page, origins or Origins()
        # Recorded documents link to URLs with the recorded schemes.
        over = Tls(security="recorded") if answering.bodies == "recorded" else None
        engine: EngineName = "host" if self.engine == "host" else "virtual"
        asked = Experiment(
            name="validation",
            pages=[page.name],
            networks=list(networks),
            setups=setups_of(clients_of(client), [answering], [Tcp()], [over]),
            arms=list(arms),
            engines=[engine],
            repeats=draws,
            vary=DRAWN if draws > 1 else None,
            seed=self.seed,
        )
        check_recorded(asked, [imported])
        plan = make_plan(asked, [page])
        return run_in_memory(plan, self.kernel, self.jobs, watch, bodies_of(plan, [imported]))


def one_network(rtt: str, down: str, up: str, source: SettingSource = COMMAND_LINE) -> Network:
    """Return the network with these values, such as `20ms` and `4mbit`. Raises InputError if a value is
    invalid or a list. Errors name the options as `source` does."""
    requested = read_settings({"rtt": rtt, "down": down, "up": up}, source)
    network, *more = requested.networks()
    if more:
        several = next(name for name, values in requested.values.items() if len(values) > 1)
        raise requested.fault("takes one value, not a list", [several], "give one value")
    return network
