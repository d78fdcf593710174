"""Define `fastopen validate transfer`: predict loads over other networks from one load, and check them."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

from rich.text import Text
from typer import Argument, Option

from fastopen.analysis.statistics import range_of_samples
from fastopen.apps.validate.page_load_options import ARMS, PageLoadOptions, SamplesOption, one_network
from fastopen.cli.output import console, exit_if, print_grid, print_json, print_message, shown
from fastopen.cli.progress import page_watchers
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import JsonOption, QuietOption, with_settings
from fastopen.common.errors import InputError
from fastopen.common.grid import figures, keys, listing
from fastopen.contract import LoadRecord, Network
from fastopen.contract.client_kinds import CHROMIUM, LOADER
from fastopen.experiments import BASELINE, ArmName, SettingSource, read_settings
from fastopen.pages import ImportedPage, Page, load_pages
from fastopen.runs.export import export
from fastopen.workflows.differences import TwoTimes
from fastopen.workflows.page_loads import last_records, median_load
from fastopen.workflows.predicted import CellTimes
from fastopen.workflows.replays import Cause, calibrate, error_of
from fastopen.workflows.run import Watch

# This command's names for network options of `fastopen run`, for the recorded load and for predicted loads.
FROM: Final = SettingSource("", lambda one: "--from" if one.name == "rtt" else f"--from-{one.name}")
TO: Final = SettingSource("", lambda one: "--to" if one.name == "rtt" else f"--to-{one.name}")
# Valid loads, keyed by client, index of the network, and arm.
Loads = dict[tuple[str, int, ArmName], list[LoadRecord]]


@dataclass(frozen=True)
class Prediction(TwoTimes):
    """The page load time over the network `after` with the arm `arm`: measured in Chromium, and predicted.
    To predict it, `client` loads the page over `after`, from its recording over the network `before`."""

    page: str
    before: Network
    after: Network
    arm: ArmName
    client: str
    measured_ms: float | None
    predicted_ms: float | None
    saving_error_points: float | None
    """The predicted minus the measured saving, in percentage points; None if unknown or for the baseline."""
    predicted_range_ms: tuple[float, float] | None = None
    """The range of the central 90 % of the samples (see `range_of_samples`); None if they are too few."""
    error: Cause | None = None
    """The step on the critical path whose duration was predicted worst; None if no error is notable."""

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        """Return the measured and the predicted time in ms, each None if no load is valid."""
        return (self.measured_ms, self.predicted_ms)

    @property
    def holds(self) -> bool | None:
        """Return True if the measured time is in the predicted range; None if time or range is missing."""
        if self.measured_ms is None or self.predicted_range_ms is None:
            return None
        return self.predicted_range_ms[0] <= self.measured_ms <= self.predicted_range_ms[1]

    def as_json(self) -> dict[str, Any]:
        step = self.error and {
            "kind": self.error.kind,
            "url": self.error.url,
            "measured_ms": self.error.recorded_ms,
            "predicted_ms": self.error.replayed_ms,
        }
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
            "predicted_range_ms": self.predicted_range_ms and list(self.predicted_range_ms),
            "error_percent": self.difference_percent,
            "saving_error_points": self.saving_error_points,
            "step": step,
        }


@dataclass(frozen=True)
class Transfer:
    """The settings of a validation of predictions. A page is recorded over the network `before`, and its
    loads over the networks `after` are predicted. `repeats` is the number of samples of each load."""

    before: Network
    after: Sequence[Network]
    loads: PageLoadOptions
    repeats: int

    def predictions(self, page: Page, recorded: ImportedPage, watch: Watch) -> Iterator[Prediction]:
        """Yield the predicted and measured times of a page for each client, network and use of TFO.
        `recorded` is the page as `record` returns it."""
        assert recorded.recording is not None

        def loaded(imported: Page) -> LoadRecord:
            client = {"kind": LOADER.label}
            with self.loads.run(ImportedPage(imported), [self.before], client, [BASELINE.name], watch) as run:
                ((_, record),) = last_records(run.store)
            return record

        imported = calibrate(recorded.page, recorded.recording.exchanges, loaded)
        measured = self._loaded(page, (CHROMIUM.label,), watch)
        predicted = self._loaded(imported, (LOADER.label, CHROMIUM.label), watch)
        return self._compared((page, measured), (imported, predicted))

    def record(self, page: Page, watch: Watch) -> ImportedPage:
        """Load the page once over the network `before`, and return the page imported from that load's HAR."""
        client = {"kind": CHROMIUM.label}
        with self.loads.run(ImportedPage(page), [self.before], client, [BASELINE.name], watch) as run:
            if run.results.cells[0].plt_ms_median is None:
                why = "; ".join(f"{one.kind}: {one.example}" for one in run.results.cells[0].reasons)
                raise InputError(f"its load over the first network is invalid: {why}", page.name)
            with tempfile.TemporaryDirectory() as folder:
                export(run.store, Path(folder) / "har", "har")
                (imported,) = load_pages(sorted((Path(folder) / "har").rglob("*.har")))
        return replace(imported, page=imported.page.model_copy(update={"name": page.name}))

    def _loaded(self, page: Page, clients: Sequence[str], watch: Watch) -> Loads:
        client = {"kind": list(clients)}
        loads: Loads = {
            (name, network, arm): [] for name in clients for network in range(len(self.after)) for arm in ARMS
        }
        with self.loads.run(ImportedPage(page), self.after, client, ARMS, watch, draws=self.repeats) as run:
            setups = run.results.experiment.setups
            cells = run.store.cells()
            for row, record in last_records(run.store):
                cell = cells[row.cell]
                if record.valid and record.plt_ns is not None:
                    loads[setups[cell.setup].client.label, cell.network, cell.arm.name].append(record)
        return loads

    def _compared(self, original: tuple[Page, Loads], imported: tuple[Page, Loads]) -> Iterator[Prediction]:
        (page, measured), (predicted_page, predicted) = original, imported
        for (client, network, arm), records in predicted.items():
            times = (
                CellTimes(_median_ms(loads[by, network, BASELINE.name]), _median_ms(loads[by, network, arm]))
                for loads, by in ((predicted, client), (measured, CHROMIUM.label))
            )
            savings = [one.saving_percent for one in times]
            known = arm != BASELINE.name and None not in savings
            against = measured[CHROMIUM.label, network, arm]
            error = None
            if records and against:
                error = error_of(predicted_page, median_load(records), page, median_load(against))
            yield Prediction(
                page=page.name,
                before=self.before,
                after=self.after[network],
                arm=arm,
                client=client,
                measured_ms=_median_ms(against),
                predicted_ms=_median_ms(records),
                predicted_range_ms=range_of_samples([one.plt_ms or 0.0 for one in records], 0.9),
                saving_error_points=(savings[0] or 0.0) - (savings[1] or 0.0) if known else None,
                error=error,
            )


def _median_ms(records: Sequence[LoadRecord]) -> float | None:
    return median(one.plt_ms or 0.0 for one in records) if records else None


def summary(found: Sequence[Prediction]) -> dict[str, float | None]:
    """Return the median and the largest errors of predictions, and the percentage of measured times in the
    predicted range, as a JSON object. A value is None if there is nothing to compute it from."""
    errors = [abs(one.difference_percent) for one in found if one.difference_percent is not None]
    points = [abs(one.saving_error_points) for one in found if one.saving_error_points is not None]
    held = [one.holds for one in found if one.holds is not None]
    return {
        "median_error_percent": median(errors) if errors else None,
        "worst_error_percent": max(errors, default=None),
        "median_saving_error_points": median(points) if points else None,
        "in_range_percent": 100 * sum(held) / len(held) if held else None,
    }


@with_settings
def transfer(
    pages: Annotated[list[str], Argument(help="Packaged pages or files.", metavar="PAGE...")],
    from_rtt: Annotated[str, Option("--from", metavar="RTT", help="RTT of the one load.")] = "20ms",
    to_rtt: Annotated[
        str, Option("--to", metavar="RTT,RTT", help="RTTs of the networks to predict.")
    ] = "50ms,200ms",
    from_down: Annotated[str, Option(help="Rate to the client of the one load.")] = "4mbit",
    to_down: Annotated[
        str | None, Option(help="Rate of the networks to predict. (default: the same)")
    ] = None,
    from_up: Annotated[str, Option(help="Rate from the client of the one load.")] = "256kbit",
    to_up: Annotated[str | None, Option(help="Rate of the networks to predict. (default: the same)")] = None,
    to_loss: Annotated[str, Option(help="Random loss of the networks to predict.")] = "0%",
    repeats: SamplesOption = 1,
    json: JsonOption = False,
    quiet: QuietOption = False,
    *,
    reading: Reading,
    loads: PageLoadOptions,
) -> None:
    """Load each page once in Chromium, predict its loads over other networks, and check the predictions.

    Predictions use only that load, imported from its HAR. Exit codes: 0 done; 1 a load time is missing."""
    before = one_network(from_rtt, from_down, from_up, FROM)
    asked = {"rtt": to_rtt, "down": to_down or from_down, "up": to_up or from_up, "loss": to_loss}
    task = Transfer(before, read_settings(asked, TO).networks(), loads, repeats)
    imported = [one.page for one in reading.pages(pages, quiet=quiet)]
    found: list[Prediction] = []
    failed = False
    with page_watchers(quiet=quiet) as watch:
        for page in imported:
            watcher = watch(page.name)
            try:
                recorded = task.record(page, watcher)
            except InputError as error:
                print_message(f"left out: {error}")
                failed = True
                continue
            found += task.predictions(page, recorded, watcher)
    if json:
        print_json(
            {"format": "fastopen-transfer/1", "pages": [one.as_json() for one in found], **summary(found)}
        )
    else:
        _print(found)
    exit_if(failed or any(one.difference_ms is None for one in found))


def _print(found: list[Prediction]) -> None:
    columns = (
        *keys("page", "arm", "predicted by"),
        *figures("RTT\nms", "down\nMbit/s", "loss\n%", "measured\nms", "predicted\nms"),
        *figures("draws\nspan", "error\n%", "saving off\npoints"),
    )
    rows = []
    for one in found:
        rate, span = one.after.down.rate_bit_per_s, one.predicted_range_ms
        rows.append(
            (
                *(one.page, one.arm, one.client, f"{one.after.rtt_us / 1000:g}"),
                *("-" if rate is None else f"{rate / 1e6:g}", f"{100 * one.after.down.loss:g}"),
                *(shown(one.measured_ms), shown(one.predicted_ms)),
                "-" if span is None else f"{span[0]:.0f} to {span[1]:.0f}",
                *(shown(one.difference_percent, sign=True), shown(one.saving_error_points, sign=True)),
            )
        )
    print_grid(listing(columns, rows))
    screen = console()
    for one in found:
        if one.error is not None:
            where = f"{one.page}, {one.arm}, {one.after.rtt_us / 1000:g} ms, {one.client}"
            line = f"{where}: {one.error.kind}: {one.error.sentence()}"
            screen.print(Text(line, style="dim"), soft_wrap=True)
    totals = summary(found)
    if totals["in_range_percent"] is not None:
        screen.print(
            f"{shown(totals['in_range_percent'])} % of measured times lie in the range of the samples."
        )
    screen.print(
        f"Absolute error: {shown(totals['median_error_percent'])} % in the median,"
        f" {shown(totals['worst_error_percent'])} % at worst; savings are"
        f" {shown(totals['median_saving_error_points'])} points off in the median."
    )
