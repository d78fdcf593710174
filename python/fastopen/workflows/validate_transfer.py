"""Whether one load over one network foretells those over others: predicted, and held against loads."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from fastopen.clients import CHROMIUM, LOADER
from fastopen.contract import Network, Origins, Tcp
from fastopen.errors import InputError
from fastopen.experiments import (
    BASELINE,
    HEADLINE,
    ArmName,
    EngineName,
    Experiment,
    clients_of,
    make_plan,
    setups_of,
)
from fastopen.pages import Page, load_pages
from fastopen.runs.export import export
from fastopen.workflows.differences import TwoTimes
from fastopen.workflows.run import ExecutedRun, Watch, run_in_memory

ARMS: Final[tuple[ArmName, ...]] = (BASELINE.name, HEADLINE.name)
# PLT in milliseconds by client, network (of its list) and arm; None where no load is valid.
Times = dict[tuple[str, int, ArmName], float | None]


@dataclass(frozen=True)
class Prediction(TwoTimes):
    """Of one page over one network by one arm: a browser's load of the page, and what was foretold."""

    page: str
    before: Network
    """Over which the one load was recorded."""
    after: Network
    arm: ArmName
    client: str
    """That predicted it, from the import of that load."""
    measured_ms: float | None
    predicted_ms: float | None
    saving_error_points: float | None
    """Saving predicted less saving measured, in points of percent; None of the baseline."""

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        """Measured and predicted; None where no load is valid."""
        return (self.measured_ms, self.predicted_ms)

    def as_json(self) -> dict[str, Any]:
        """For a document."""
        return {
            "page": self.page,
            "from_rtt_ms": self.before.rtt_us / 1000,
            "to_rtt_ms": self.after.rtt_us / 1000,
            "to_down_bit_per_s": self.after.down.rate_bit_per_s,
            "to_up_bit_per_s": self.after.up.rate_bit_per_s,
            "to_loss": self.after.down.loss,
            "arm": self.arm,
            "client": self.client,
            "measured_ms": self.measured_ms,
            "predicted_ms": self.predicted_ms,
            "error_percent": self.difference_percent,
            "saving_error_points": self.saving_error_points,
        }


@dataclass(frozen=True)
class Transfer:
    """How the loads of pages are done: over which networks, and on what."""

    before: Network
    after: Sequence[Network]
    engine: EngineName
    repeats: int
    seed: int
    kernel: str | None
    jobs: int | None

    def predictions(
        self, pages: Iterable[Page], watch: Callable[[str], Watch]
    ) -> Iterator[Prediction | InputError]:
        """Of each page; an error in place of them where its first load cannot be imported.

        `watch` gives the watcher of each page's loads. Raises MachineError where browser or kernel are
        missing, and KeyboardInterrupt where it is interrupted.
        """
        for page in pages:
            watcher = watch(page.name)
            try:
                imported = self._recorded(page, watcher)
            except InputError as error:
                yield error
                continue
            measured = self._times(page, (CHROMIUM.label,), watcher)
            predicted = self._times(imported, (LOADER.label, CHROMIUM.label), watcher)
            yield from self._compared(page.name, measured, predicted)

    def _recorded(self, page: Page, watch: Watch) -> Page:
        """What the importer makes of the HAR of one load of the page over the first network."""
        with self._run(page, (CHROMIUM.label,), [self.before], [BASELINE.name], 1, watch) as run:
            if run.results.cells[0].plt_ms_median is None:
                why = "; ".join(f"{one.kind}: {one.example}" for one in run.results.cells[0].reasons)
                raise InputError(f"its load over the first network does not count: {why}", page.name)
            with tempfile.TemporaryDirectory() as folder:
                export(run.store, Path(folder) / "har", "har")
                (imported,) = load_pages(sorted((Path(folder) / "har").rglob("*.har")))
        return imported.page.model_copy(update={"name": page.name})

    def _times(self, page: Page, clients: Sequence[str], watch: Watch) -> Times:
        with self._run(page, clients, self.after, ARMS, self.repeats, watch) as run:
            setups = run.results.experiment.setups
            return {
                (
                    setups[one.cell.setup].client.label,
                    one.cell.network,
                    one.cell.arm.name,
                ): one.plt_ms_median
                for one in run.results.cells
            }

    def _run(
        self,
        page: Page,
        clients: Sequence[str],
        networks: Sequence[Network],
        arms: Sequence[ArmName],
        repeats: int,
        watch: Watch,
    ) -> ExecutedRun:
        asked = Experiment(
            name="transfer",
            pages=[page.name],
            networks=list(networks),
            setups=setups_of(clients_of({"kind": list(clients)}), [Origins()], [Tcp()]),
            arms=list(arms),
            engines=[self.engine],
            repeats=repeats,
            seed=self.seed,
        )
        return run_in_memory(make_plan(asked, [page]), self.kernel, self.jobs, watch)

    def _compared(self, page: str, measured: Times, predicted: Times) -> Iterator[Prediction]:
        for (client, network, arm), foretold in predicted.items():
            savings = [
                saving(times.get((by, network, BASELINE.name)), times.get((by, network, arm)))
                for times, by in ((predicted, client), (measured, CHROMIUM.label))
            ]
            known = arm != BASELINE.name and None not in savings
            yield Prediction(
                page=page,
                before=self.before,
                after=self.after[network],
                arm=arm,
                client=client,
                measured_ms=measured.get((CHROMIUM.label, network, arm)),
                predicted_ms=foretold,
                saving_error_points=(savings[0] or 0.0) - (savings[1] or 0.0) if known else None,
            )


def saving(off_ms: float | None, on_ms: float | None) -> float | None:
    """In percent of the PLT without TFO."""
    return None if not off_ms or on_ms is None else 100 * (off_ms - on_ms) / off_ms


def summary(found: Sequence[Prediction]) -> dict[str, float | None]:
    """How far off predictions are, without their sign."""
    errors = [abs(one.difference_percent) for one in found if one.difference_percent is not None]
    points = [abs(one.saving_error_points) for one in found if one.saving_error_points is not None]
    return {
        "median_error_percent": median(errors) if errors else None,
        "worst_error_percent": max(errors, default=None),
        "median_saving_error_points": median(points) if points else None,
    }
