"""Compares kernels: the same cells on two of the virtual engine's, and what changed from one to the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastopen import kernels
from fastopen.errors import InputError
from fastopen.experiments import Experiment
from fastopen.statistics import CellResult, Results
from fastopen.workflows.differences import TwoTimes


def kernels_named(text: str | None) -> dict[str, str]:
    """Name to what was written, for each kernel of a list with commas; empty where it names one or none.

    Raises MachineError where one is not installed, InputError where one is named twice.
    """
    asked = [one.strip() for one in (text or "").split(",")]
    if len(asked) < 2:
        return {}
    named: dict[str, str] = {}
    for one in asked:
        if not one:
            raise InputError(f"{text!r} names a kernel without a name", "--kernel")
        name = kernels.find(one).name
        if name in named:
            raise InputError(f"{name} is named twice", "--kernel", "fastopen kernel list names them")
        named[name] = one
    return named


def on_virtual_engine(experiment: Experiment) -> Experiment:
    """The experiment on the virtual engine alone. Raises InputError where another was asked for."""
    if "host" in experiment.engines:
        raise InputError(
            "several kernels are of the virtual engine", "--kernel", "leave --engine out, or say virtual"
        )
    return experiment.model_copy(update={"engines": ["virtual"]})


@dataclass(frozen=True)
class KernelChange(TwoTimes):
    """One cell on both kernels. `where` names it among the cells of its page: `20 ms`."""

    page: str
    where: str
    arm: str
    before: CellResult
    after: CellResult

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        """PLT on the first kernel, and on the other."""
        return self.before.plt_ms_median, self.after.plt_ms_median

    @property
    def changed(self) -> bool:
        """Whether anything at all came out otherwise: PLT by a nanosecond, validity, evidence, losses."""
        return _outcome(self.before) != _outcome(self.after)

    def as_json(self) -> dict[str, Any]:
        """For a document."""
        return {
            "page": self.page,
            "where": self.where,
            "transport": self.arm,
            "changed": self.changed,
            "plt_ms": [self.before.plt_ms_median, self.after.plt_ms_median],
            "difference_ms": self.difference_ms,
            "difference_percent": self.difference_percent,
            "connections": [self.before.connections, self.after.connections],
            "syn_data_connections": [self.before.syn_data_connections, self.after.syn_data_connections],
            "retransmitted_segments": [self.before.retransmitted, self.after.retransmitted],
            "invalid": [self.before.invalid, self.after.invalid],
        }


def changes(before: Results, after: Results) -> Iterator[KernelChange]:
    """Every cell of one experiment that was run on two kernels, in the order of the tables."""
    of_after = {result.cell.index: result for result in after.cells}
    for result in before.cells:
        cell = result.cell
        yield KernelChange(cell.page, before.factors.name(cell), cell.arm.name, result, of_after[cell.index])


def verdict(names: tuple[str, str], found: Sequence[KernelChange]) -> str:
    """One sentence, with its figures."""
    changed = [change for change in found if change.changed]
    if not changed:
        same = f"{len(found)} cells are the same to the nanosecond"
        return f"Nothing changed from {names[0]} to {names[1]}: {same}."
    by_most = max(changed, key=lambda change: abs(change.difference_ms or 0.0))
    message = f"{len(changed)} of {len(found)} cells changed from {names[0]} to {names[1]}"
    if not by_most.difference_ms:
        return f"{message}, none of them in PLT."
    return (
        f"{message}; most: {by_most.page} at {by_most.where}, {by_most.arm}:"
        f" {by_most.difference_ms:+.3f} ms ({by_most.difference_percent or 0.0:+.2f} %)."
    )


def _outcome(result: CellResult) -> tuple[Any, ...]:
    evidence = (result.connections, result.syn_data_connections, result.retransmitted)
    return (dict(result.plts_ms), result.invalid, *evidence)
