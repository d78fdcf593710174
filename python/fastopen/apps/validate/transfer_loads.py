"""Predict loads over other networks from one load over one network, and compare them with real loads."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from fastopen.analysis.statistics import FULL_MIN, VALUES_MIN, central
from fastopen.common.errors import InputError
from fastopen.contract import LoadRecord, Network
from fastopen.contract.clients import CHROMIUM, LOADER
from fastopen.experiments import BASELINE, HEADLINE, ArmName
from fastopen.pages import ImportedPage, Page, load_pages
from fastopen.runs.export import export
from fastopen.workflows.differences import TwoTimes
from fastopen.workflows.page_loads import PageLoads, last_records
from fastopen.workflows.replays import PredictionError, calibrate, error_of
from fastopen.workflows.run import Watch

ARMS: Final[tuple[ArmName, ...]] = (BASELINE.name, HEADLINE.name)
# Valid loads by client, index of the network, and arm.
Loads = dict[tuple[str, int, ArmName], list[LoadRecord]]


@dataclass(frozen=True)
class Prediction(TwoTimes):
    """The prediction for a page, a network and an arm, compared with the browser's load."""

    page: str
    before: Network
    """The network over which the one load was recorded."""
    after: Network
    arm: ArmName
    client: str
    """The client that predicted the load from the imported recording."""
    measured_ms: float | None
    predicted_ms: float | None
    saving_error_points: float | None
    """The predicted minus the measured saving, in percentage points; None if unknown or for the baseline."""
    predicted_range_ms: tuple[float, float] | None = None
    """The range of the predictions of all samples (see `spanned`); None if there are too few samples."""
    error: PredictionError | None = None
    """The step with the largest error on the way to the load event; None if no step has one."""

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        """Return the measured and the predicted time, each None if no load is valid."""
        return (self.measured_ms, self.predicted_ms)

    @property
    def holds(self) -> bool | None:
        """Return True if the measured time lies in the predicted range; None if either is missing."""
        if self.measured_ms is None or self.predicted_range_ms is None:
            return None
        low, high = self.predicted_range_ms
        return low <= self.measured_ms <= high

    def as_json(self) -> dict[str, Any]:
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
            "predicted_range_ms": None if self.predicted_range_ms is None else list(self.predicted_range_ms),
            "error_percent": self.difference_percent,
            "saving_error_points": self.saving_error_points,
            "step": None
            if self.error is None
            else {
                "kind": self.error.kind,
                "url": self.error.url,
                "measured_ms": self.error.recorded_ms,
                "predicted_ms": self.error.replayed_ms,
            },
        }


@dataclass(frozen=True)
class Transfer:
    """The network to load over, the networks to predict, the settings, and the number of samples."""

    before: Network
    after: Sequence[Network]
    loads: PageLoads
    repeats: int

    def predictions(
        self, pages: Iterable[Page], watch: Callable[[str], Watch]
    ) -> Iterator[Prediction | InputError]:
        """Yield the predictions for each page, or the error of its first load. Raises MachineError."""
        for page in pages:
            watcher = watch(page.name)
            try:
                recorded = self._recorded(page, watcher)
            except InputError as error:
                yield error
                continue
            assert recorded.recording is not None
            loaded = partial(self._loaded_before, watch=watcher)
            imported = calibrate(recorded.page, recorded.recording.exchanges, loaded)
            measured = self._loaded(page, (CHROMIUM.label,), watcher)
            foretold = self._loaded(imported, (LOADER.label, CHROMIUM.label), watcher)
            yield from self._compared((page, measured), (imported, foretold))

    def _recorded(self, page: Page, watch: Watch) -> ImportedPage:
        """Load the page once over the first network, and return it as imported from the HAR of that load."""
        once = self.loads.run(
            ImportedPage(page), [self.before], {"kind": CHROMIUM.label}, [BASELINE.name], watch
        )
        with once as run:
            if run.results.cells[0].plt_ms_median is None:
                why = "; ".join(f"{one.kind}: {one.example}" for one in run.results.cells[0].reasons)
                raise InputError(f"its load over the first network is invalid: {why}", page.name)
            with tempfile.TemporaryDirectory() as folder:
                export(run.store, Path(folder) / "har", "har")
                (imported,) = load_pages(sorted((Path(folder) / "har").rglob("*.har")))
        return replace(imported, page=imported.page.model_copy(update={"name": page.name}))

    def _loaded_before(self, page: Page, watch: Watch) -> LoadRecord:
        client = {"kind": LOADER.label}
        with self.loads.run(ImportedPage(page), [self.before], client, [BASELINE.name], watch) as run:
            ((_, record),) = last_records(run.store)
        return record

    def _loaded(self, page: Page, clients: Sequence[str], watch: Watch) -> Loads:
        client = {"kind": list(clients)}
        loads: Loads = {
            (name, network, arm): [] for name in clients for network in range(len(self.after)) for arm in ARMS
        }
        with self.loads.run(ImportedPage(page), self.after, client, ARMS, watch, draws=self.repeats) as run:
            setups = run.results.experiment.setups
            cells = {one.index: one for one in run.store.cells()}
            for row, record in last_records(run.store):
                cell = cells[row.cell]
                if record.valid and record.plt_ns is not None:
                    loads[setups[cell.setup].client.label, cell.network, cell.arm.name].append(record)
        return loads

    def _compared(self, original: tuple[Page, Loads], imported: tuple[Page, Loads]) -> Iterator[Prediction]:
        (page, measured), (foretold_page, foretold) = original, imported
        for (client, network, arm), records in foretold.items():
            savings = [
                saving(_median_ms(loads[by, network, BASELINE.name]), _median_ms(loads[by, network, arm]))
                for loads, by in ((foretold, client), (measured, CHROMIUM.label))
            ]
            known = arm != BASELINE.name and None not in savings
            against = measured[CHROMIUM.label, network, arm]
            error = (
                error_of(foretold_page, _middle(records), page, _middle(against))
                if records and against
                else None
            )
            yield Prediction(
                page=page.name,
                before=self.before,
                after=self.after[network],
                arm=arm,
                client=client,
                measured_ms=_median_ms(against),
                predicted_ms=_median_ms(records),
                predicted_range_ms=spanned(map(_plt_ms, records)),
                saving_error_points=(savings[0] or 0.0) - (savings[1] or 0.0) if known else None,
                error=error,
            )


def _plt_ms(record: LoadRecord) -> float:
    return (record.plt_ns or 0) / 1e6


def _median_ms(records: Sequence[LoadRecord]) -> float | None:
    return median(map(_plt_ms, records)) if records else None


def _middle(records: Sequence[LoadRecord]) -> LoadRecord:
    """Return the load with the median PLT (the lower of the two in the middle)."""
    return sorted(records, key=_plt_ms)[(len(records) - 1) // 2]


def spanned(values: Iterable[float]) -> tuple[float, float] | None:
    """Return the range of the central 90 % of the values. With fewer than FULL_MIN values, return the range
    of all values; with fewer than VALUES_MIN values, return None."""
    listed = list(values)
    if len(listed) < VALUES_MIN:
        return None
    return central(listed, 0.9) if len(listed) >= FULL_MIN else (min(listed), max(listed))


def saving(off_ms: float | None, on_ms: float | None) -> float | None:
    """Return the saving in percent of the PLT without TFO; None if a PLT is missing."""
    return None if not off_ms or on_ms is None else 100 * (off_ms - on_ms) / off_ms


def summary(found: Sequence[Prediction]) -> dict[str, float | None]:
    """Return the median and worst errors, and the percentage of ranges that include the measured time."""
    errors = [abs(one.difference_percent) for one in found if one.difference_percent is not None]
    points = [abs(one.saving_error_points) for one in found if one.saving_error_points is not None]
    held = [one.holds for one in found if one.holds is not None]
    return {
        "median_error_percent": median(errors) if errors else None,
        "worst_error_percent": max(errors, default=None),
        "median_saving_error_points": median(points) if points else None,
        "in_range_percent": 100 * sum(held) / len(held) if held else None,
    }
