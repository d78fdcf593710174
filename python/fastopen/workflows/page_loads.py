"""Load single pages, for validations that compare their page load times."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastopen.contract import LoadRecord, Network, Origins, Tcp, Tls
from fastopen.experiments import ArmName, EngineName, Experiment, Variation, clients_of, make_plan, setups_of
from fastopen.pages import ImportedPage
from fastopen.runs import RunStore
from fastopen.runs.rows import LoadRow
from fastopen.workflows.run import ExecutedRun, Watch, bodies_of, check_recorded, run_in_memory

# By default, samples shuffle requests that are discovered at the same byte. Browsers keep their order.
DRAWN: Final = Variation(order=False)


@dataclass(frozen=True)
class PageLoads:
    """Common settings of a validation's page loads. `jobs` is the number of networks emulated at once."""

    engine: EngineName
    seed: int
    kernel: str | None
    jobs: int | None

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
        contains the settings of the servers. `arms` selects uses of TFO, such as `off`. `watch` is called
        after each event. `draws` is the number of repeats. If above 1, the RTT and other uncertain values are
        random, but equal for all clients. Raises InputError if recorded bodies are missing, MachineError if a
        browser or the kernel is missing, and KeyboardInterrupt if the loads are interrupted."""
        page, answering = imported.page, origins or Origins()
        # Recorded documents link to URLs with the recorded schemes.
        over = Tls(security="recorded") if answering.bodies == "recorded" else None
        asked = Experiment(
            name="validation",
            pages=[page.name],
            networks=list(networks),
            setups=setups_of(clients_of(client), [answering], [Tcp()], [over]),
            arms=list(arms),
            engines=[self.engine],
            repeats=draws,
            vary=DRAWN if draws > 1 else None,
            seed=self.seed,
        )
        check_recorded(asked, [imported])
        plan = make_plan(asked, [page])
        return run_in_memory(plan, self.kernel, self.jobs, watch, bodies_of(plan, [imported]))


def median_load(records: Sequence[LoadRecord]) -> LoadRecord:
    """Return the load with the median page load time, the faster load if two are in the middle."""
    return sorted(records, key=lambda record: record.plt_ns or 0)[(len(records) - 1) // 2]


def last_records(store: RunStore) -> Iterator[tuple[LoadRow, LoadRecord]]:
    """Yield the last attempt of each load of a run, with its record."""
    return store.load_records(row for row in store.loads() if not row.superseded)
