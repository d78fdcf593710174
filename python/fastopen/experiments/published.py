"""Read the page load times that papers and reports have published, to compare experiments with them."""

import csv
import tomllib
from collections.abc import Sequence
from functools import cache
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from fastopen.common.errors import InputError, any_of, did_you_mean
from fastopen.common.phrases import plural
from fastopen.common.pydantic_errors import input_error
from fastopen.common.resources import packaged_file
from fastopen.contract import Network
from fastopen.experiments.factor_values import SettingSource
from fastopen.experiments.model import Experiment, PublishedTable

FILE: Final = "published.csv"


class PublishedCell(BaseModel):
    """A row of a published table: a page's load times without TFO (`plt_off`) and with TFO (`plt_tfo`), as
    printed. The properties `off_ms` and `tfo_ms` return these times in ms, with printing errors corrected."""

    model_config = ConfigDict(frozen=True)

    source: str
    experiment: str
    page: str
    rtt_ms: float
    down_mbit: float
    up_mbit: float
    plt_off: float
    plt_tfo: float
    unit_as_printed: str
    improvement_percent_as_printed: float
    note: str
    true_unit: str = ""
    """Correct unit of the times; empty if the printed unit is correct."""
    corrected_off: float | None = None
    """Correct time without TFO, in the table's unit; None if the printed time is correct."""
    swapped: bool = False
    """True if the table's columns of times with and without TFO are swapped."""

    def __hash__(self) -> int:
        # Searches for rigs look up rows millions of times. Hashing all fields would take most of this time.
        return hash((self.experiment, self.page, self.rtt_ms, self.down_mbit))

    @property
    def off_ms(self) -> float:
        """Return the PLT without TFO, in milliseconds."""
        if self.corrected_off is not None:
            return self.corrected_off * self._unit_ms
        return (self.plt_tfo if self.swapped else self.plt_off) * self._unit_ms

    @property
    def tfo_ms(self) -> float:
        """Return the PLT with TFO, in milliseconds."""
        return (self.plt_off if self.swapped else self.plt_tfo) * self._unit_ms

    def printed_off(self, table: PublishedTable) -> float:
        """Return the time without TFO as printed, from the column for TFO if `table.swapped`."""
        return self.plt_tfo if table.swapped else self.plt_off

    @property
    def improvement_percent(self) -> float:
        """Return the improvement in percent, computed from the two times. It is negative if TFO is slower."""
        return 100 * (self.off_ms - self.tfo_ms) / self.off_ms

    @property
    def link(self) -> tuple[int, int, int]:
        """Return the row's RTT in microseconds, and its rates down and up in bit/s."""
        return round(self.rtt_ms * 1000), round(self.down_mbit * 1e6), round(self.up_mbit * 1e6)

    @property
    def _unit_ms(self) -> float:
        return {"s": 1000.0, "ms": 1.0}[self.true_unit or self.unit_as_printed]


@cache
def all_published_cells() -> tuple[PublishedCell, ...]:
    """Return all rows of published.csv. Raises InputError if the file is unusable."""
    with packaged_file("experiments", FILE).open(encoding="utf-8", newline="") as file:
        return tuple(_cell(row, line) for line, row in enumerate(csv.DictReader(file), start=2))


def _cell(row: dict[str, str], line: int) -> PublishedCell:
    try:
        return PublishedCell.model_validate(row)
    except ValidationError as error:
        raise input_error(error, f"{FILE}: line {line}") from None


def check_table(table: PublishedTable, source: SettingSource) -> None:
    """Raise InputError if an experiment's file (`source`) names a table in `same_rig` that published.csv
    lacks, or corrects a misprinted time that is not in exactly one row of `table`."""
    known = dict.fromkeys(cell.experiment for cell in all_published_cells())
    for name in table.same_rig:
        if name not in known:
            remedy = did_you_mean(name, known, f"use {any_of(known)}")
            raise InputError(f"unknown table {name!r}", source.place("published.same_rig"), remedy)
    printed = [row.printed_off(table) for row in _rows_of(table.experiment)]
    for time, _ in table.misprints:
        if printed.count(time) != 1:
            message = f"{time:g} is the time without TFO of {plural(printed.count(time), 'row')}, not of one"
            raise InputError(message, source.place("published.misprints"), "use a time as printed")


def published_cells(experiment: Experiment) -> dict[tuple[str, int], PublishedCell]:
    """Return the rows of the experiment's published table whose page, RTT and rates the experiment also has,
    keyed by the page's name and the index of the network in the experiment."""
    table = experiment.published
    found = [] if table is None else _cells_of(table, table.experiment, experiment.networks)
    return {(page, network): cell for page, network, cell in found}


def same_rig_cells(experiment: Experiment) -> tuple[list[Network], list[tuple[str, int, PublishedCell]]]:
    """Return networks, and the published results over them. A result is (name of the page, index of the
    network, published row). First come the experiment's networks and the results of its published table,
    then those of other published tables from the same test setup."""
    table, networks = experiment.published, list(experiment.networks)
    if table is None:
        return networks, []
    like = networks[0]
    for row in all_published_cells():
        rtt_us, down, up = row.link
        of_rig = row.experiment in table.same_rig and row.page in table.pages.values()
        if of_rig and row.link not in map(_link, networks):
            rates = {"down": down, "up": up}.items()
            ways = {way: getattr(like, way).model_copy(update={"rate_bit_per_s": one}) for way, one in rates}
            networks.append(like.model_copy(update={"rtt_us": rtt_us, **ways}))
    tables = dict.fromkeys((table.experiment, *table.same_rig))
    return networks, [cell for name in tables for cell in _cells_of(table, name, networks)]


def _cells_of(
    table: PublishedTable, experiment: str, networks: Sequence[Network]
) -> list[tuple[str, int, PublishedCell]]:
    faults = table if table.experiment == experiment else _packaged_table(experiment)
    unit_and_columns = {"true_unit": faults.unit or "", "swapped": faults.swapped}
    correct = {times[0]: times[1] for times in faults.misprints}
    rows = [
        row.model_copy(update={**unit_and_columns, "corrected_off": correct.get(row.printed_off(faults))})
        for row in _rows_of(experiment)
    ]
    return [
        (ours, index, row)
        for ours, theirs in table.pages.items()
        for index, network in enumerate(networks)
        for row in rows
        if row.page == theirs and row.link == _link(network)
    ]


def _rows_of(experiment: str) -> list[PublishedCell]:
    return [row for row in all_published_cells() if row.experiment == experiment]


@cache
def _packaged_table(experiment: str) -> PublishedTable:
    document = tomllib.loads(packaged_file("experiments", f"{experiment}.toml").read_text(encoding="utf-8"))
    return PublishedTable.model_validate(document["published"])


def _link(network: Network) -> tuple[int, int | None, int | None]:
    return network.rtt_us, network.down.rate_bit_per_s, network.up.rate_bit_per_s
