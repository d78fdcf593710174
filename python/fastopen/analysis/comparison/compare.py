"""Compare the matching results of two runs: page load times, savings, and waits on the critical paths."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fastopen.analysis.attribution import Breakdown, PieceChange, changed_pieces, reason_between
from fastopen.analysis.comparison.change import Basis, Change, change_of
from fastopen.analysis.comparison.matching import ComparedSetting, Side, match
from fastopen.analysis.statistics import CellResult, Results, certain_sign
from fastopen.experiments import Factor, Role, SmallestEffect
from fastopen.experiments.factors import RTT


class Outcome(StrEnum):
    """The verdict on the change of a page load time from one run to another."""

    SAME = "the same"
    """Nothing is random, and the times are equal to the nanosecond."""
    HARDLY = "hardly changed"
    """Neither end of the change's interval exceeds the smallest change that matters, in absolute value."""
    SLOWER = "slower"
    FASTER = "faster"
    UNCLEAR = "unclear"
    """The change's interval contains changes that are too small to matter and changes that matter."""
    UNKNOWN = "unknown"
    """A run has no valid load, or there are too few loads for an interval."""


@dataclass(frozen=True)
class CellChange:
    """The change of a page's result from one run (`before`) to another (`after`)."""

    page: str
    where: str
    """The values that distinguish this result from others of the same page and arm, such as `20 ms`."""
    before: CellResult
    after: CellResult
    basis: Basis
    plt: Change | None
    """The change in the page load time, in milliseconds and percent; None if it is unknown."""
    saving: Change | None
    """The change in the saving, in percentage points; None for the baseline, or if a saving is unknown."""
    smallest: SmallestEffect
    """The smallest change of the page load time that matters."""
    paths: tuple[Breakdown, Breakdown] | None
    """The mean critical paths of both runs; None if either run lacks one."""
    pieces: tuple[PieceChange, ...] = field(repr=False)
    """The changes in waits between the runs' example loads. They add up to the change in these loads' PLT."""
    reason: str
    """The reason, if known, why the second run's example load takes longer than the first's; else empty."""
    evidence_changed: bool = False
    """True if the runs' loads should be identical, but their evidence (such as retransmissions) differs."""

    @property
    def name(self) -> str:
        """Return the page, its conditions and the use of TFO, such as `wikipedia-2018 at 20 ms, no TFO`."""
        at = f" at {self.where}" if self.where else ""
        return f"{self.page}{at}, {self.before.cell.arm.short_label}"

    @property
    def outcome(self) -> Outcome:
        """Return the verdict on the page load time, from the interval of its change and `smallest`."""
        plt = self.plt
        if plt is None or plt.percent is None or plt.interval is None:
            return Outcome.UNKNOWN
        if self.basis is Basis.EXACT and plt.difference == 0:
            return Outcome.SAME
        matters = max(self.smallest.percent, 100 * self.smallest.ms / plt.before)
        sign = certain_sign(plt.percent, plt.interval, matters)
        return {1: Outcome.SLOWER, -1: Outcome.FASTER, 0: Outcome.HARDLY, None: Outcome.UNCLEAR}[sign]


@dataclass(frozen=True)
class RunComparison:
    """The comparison of run A (`before`) with run B (`after`)."""

    before: Side
    after: Side
    settings: tuple[ComparedSetting, ...]
    """The settings that differ between the runs, with their values."""
    factors: tuple[Factor, ...]
    """The factors that distinguish the results of a page, in the order of a table's columns."""
    cells: tuple[CellChange, ...]
    """Changes of the results that both runs have, in the order of A's tables."""
    only_before: tuple[str, ...]
    """Names of the results that only A has."""
    only_after: tuple[str, ...]
    """Names of the results that only B has."""


def compare_runs(before: Side, after: Side) -> RunComparison:
    """Compare the results of two runs. Raises InputError if no results of the two runs match."""
    matching = match(before, after)
    varying = dict.fromkeys((*before.results.factors.registered, *after.results.factors.registered))
    factors = sorted((one for one in varying if one in matching.common), key=lambda one: one is RTT)
    return RunComparison(
        before=before,
        after=after,
        settings=matching.settings,
        factors=tuple(factors),
        cells=tuple(_change((before, after), factors, old, new) for old, new in matching.pairs),
        only_before=tuple(_name(before.results, cell) for cell in matching.only_before),
        only_after=tuple(_name(after.results, cell) for cell in matching.only_after),
    )


def _name(results: Results, result: CellResult) -> str:
    return f"{result.cell.page} {results.factors.where(result.cell)}, {result.cell.arm.short_label}"


def _change(
    runs: tuple[Side, Side], factors: Sequence[Factor], old: CellResult, new: CellResult
) -> CellChange:
    before, after = runs
    basis, experiment = _basis(runs, old, new), before.results.experiment
    drawn = old.varied and new.varied
    saving = None
    if old.cell.arm.role is not Role.BASELINE:
        both = old.improvements_percent, new.improvements_percent
        saving = change_of(*both, basis, relative=False, drawn=drawn)
    was, now = before.attribution, after.attribution
    means = was.breakdowns.get(old.cell.index), now.breakdowns.get(new.cell.index)
    pieces, reason = _explained(runs, old, new)
    # In virtual time, two runs with equal numbers of loads and equal random numbers have the same loads.
    client = experiment.setups[old.cell.setup].client
    virtual = old.cell.engine == new.cell.engine == "virtual" and client.type.deterministic
    same_loads = virtual and basis is not Basis.SAMPLES and old.loads == new.loads
    return CellChange(
        page=old.cell.page,
        where=", ".join(before.results.factors.phrases(old.cell, factors)),
        before=old,
        after=new,
        basis=basis,
        plt=change_of(old.plts_ms, new.plts_ms, basis, relative=True, drawn=drawn),
        saving=saving,
        smallest=experiment.smallest_effect,
        paths=None if means[0] is None or means[1] is None else (means[0], means[1]),
        pieces=pieces,
        reason=reason,
        evidence_changed=same_loads and _evidence(old) != _evidence(new),
    )


def _basis(runs: tuple[Side, Side], old: CellResult, new: CellResult) -> Basis:
    if old.deterministic and new.deterministic:
        return Basis.EXACT
    repeats = old.plts_ms.keys() & new.plts_ms.keys()
    (was, first), (now, second) = ((run.seeds, run.results.experiment.vary) for run in runs)
    # If the runs vary different inputs, equal seeds do not sample equal values.
    alike = first == second and all(
        was.get((old.cell.index, one)) == now.get((new.cell.index, one)) for one in repeats
    )
    return Basis.PAIRED if repeats and alike else Basis.SAMPLES


def _explained(
    runs: tuple[Side, Side], old: CellResult, new: CellResult
) -> tuple[tuple[PieceChange, ...], str]:
    """Compare the critical paths of two example loads, one from the result `old` and one from `new`. Return
    the waits that differ, and the reason why the load from `new` took longer. The reason is empty if that
    load did not take longer, if the reason is unknown, or if the two pages differ."""
    before, after = runs
    was, now = before.attribution.shown.get(old.cell.index), after.attribution.shown.get(new.cell.index)
    if was is None or now is None:
        return (), ""
    pages = before.results.pages[old.cell.page], after.results.pages[new.cell.page]
    pieces = tuple(changed_pieces((pages[0], was.path), (pages[1], now.path)))
    longer = (now.record.plt_ns or 0) > (was.record.plt_ns or 0)
    if not longer or pages[0].resources != pages[1].resources:
        return pieces, ""
    rate = before.results.experiment.networks[old.cell.network].down.rate_bit_per_s
    return pieces, reason_between(pages[1], was.record, now.record, now.path, rate)


def _evidence(result: CellResult) -> tuple[float | None, ...]:
    return (result.invalid, result.connections, result.syn_data_connections, result.retransmitted)
